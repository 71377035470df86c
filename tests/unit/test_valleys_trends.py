"""With what the gaps grow: said only where it is clear, with its numbers, and alike however the stream came."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gaptop.valleys import report, report_text
from gaptop.valleys.model import Assessment
from gaptop.valleys.recurrence import Correlation, Sample, Trend
from gaptop.valleys.recurring import KEPT, Recurring
from gaptop.valleys.trends import trends

from .recurring_samples import samples
from .valley_server import server
from .valley_streams import Stream, analyse, stairs, total

CHANCE = np.random.default_rng(11)
LENGTHS: list[float] = CHANCE.uniform(0.3, 1.5, 24).tolist()
NOISE: list[float] = CHANCE.uniform(100, 900, 24).tolist()
LIKE = [4000 * length + float(CHANCE.normal(0, 800)) for length in LENGTHS]


def of(trend: Trend, measure: str, against: str) -> Correlation:
    (found,) = [item for item in trend.correlations if (item.measure, item.against) == (measure, against)]
    return found


def test_gaps_that_grow_with_the_prompt_and_not_with_the_output_are_prefill_scheduling() -> None:
    (trend,) = trends(samples(LENGTHS, prompt_tokens=LIKE, output_tokens=NOISE, running=8.0))
    found = of(trend, "length", "prompt_tokens")
    assert found.rho is not None
    assert found.rho == pytest.approx(0.87, abs=0.08)
    numbers = f"rho {found.rho:.2f}, {found.low:.2f} to {found.high:.2f}, n 24"
    assert trend.sentence == (f"gap grows with prompt length ({numbers}), not with output length: prefill scheduling")
    # What does not vary, and what was not seen, tells nothing.
    assert of(trend, "length", "running") == Correlation("length", "running", 24)
    assert of(trend, "length", "kv_used") == Correlation("length", "kv_used", 0)


def test_four_comparisons_share_one_error() -> None:
    (trend,) = trends(samples(LENGTHS, prompt_tokens=LIKE, output_tokens=NOISE))
    assert trend.confidence == pytest.approx(1 - 0.05 / 4)
    (alone,) = trends(samples(LENGTHS, prompt_tokens=LIKE))
    assert alone.confidence == pytest.approx(1 - 0.05 / 2)
    wide, narrow = (of(item, "length", "prompt_tokens") for item in (trend, alone))
    assert wide.rho == narrow.rho
    assert (wide.low or 0.0) < (narrow.low or 0.0)


def test_nothing_is_said_from_seven_valleys() -> None:
    few = samples(list(range(1, 8)), prompt_tokens=list(range(1, 8)))
    assert trends(few) == ()
    nine = samples(list(range(1, 10)), prompt_tokens=[1, 2, 3, 4, 5, 6, 7, None, None])
    (trend,) = trends(nine)
    assert (trend.sentence, of(trend, "length", "prompt_tokens").n, of(trend, "length", "prompt_tokens").rho) == (
        "",
        7,
        None,
    )


def test_chance_says_nothing() -> None:
    chance = np.random.default_rng(5)
    said = 0
    for _ in range(300):
        known = {key: chance.normal(size=16).tolist() for key in ("prompt_tokens", "output_tokens", "running")}
        (trend,) = trends(samples(chance.exponential(size=16).tolist(), **known))
        said += trend.sentence != ""
    assert said <= 0.05 * 300


def test_what_gets_shorter_shrinks_and_what_moves_together_is_not_told_apart() -> None:
    (down,) = trends(samples(LENGTHS, running=[-value for value in LIKE], kv_used=NOISE))
    assert down.sentence.startswith("gap shrinks with concurrency (rho -0.")
    assert down.sentence.endswith(", not with KV use")
    (both,) = trends(samples(LENGTHS, prompt_tokens=LIKE, kv_used=LIKE))
    assert " and with KV use" in both.sentence
    assert both.sentence.endswith("; what moves together is not told apart")


def test_idle_seconds_speak_where_lengths_do_not() -> None:
    idle = [(value / 1e4,) for value in LIKE]
    (trend,) = trends(samples(NOISE, idle_s=idle, kv_used=LIKE, running=LENGTHS[::-1]))
    assert trend.sentence.startswith("idle time of a gap grows with KV use (rho 1.00")
    assert trend.sentence.endswith(": the KV cache")


def test_gaps_without_demand_are_no_part_of_it() -> None:
    idle = samples(LENGTHS, cause="no_demand", prompt_tokens=LIKE)
    assert trends(idle) == ()


def test_devices_that_fell_together_are_told_once_and_others_by_themselves() -> None:
    pair = [replace(item, devices=("a", "b"), idle_s=(0.2, 0.4)) for item in samples(LENGTHS, prompt_tokens=LIKE)]
    (trend,) = trends(pair)
    assert trend.devices == ("a", "b")
    own = samples(LENGTHS, every=2.1, device="b", prompt_tokens=NOISE)
    first, second = trends([*samples(LENGTHS, prompt_tokens=LIKE), *own])
    assert (first.devices, second.devices) == (("a",), ("b",))
    assert first.sentence
    assert not second.sentence


def test_samples_are_bounded_and_looked_at_now_and_then() -> None:
    recurring = Recurring()
    for item in samples([1.0, 2.0] * KEPT):
        recurring.add(item)
    recurring.look(10.0, ended=False)
    assert len(recurring.samples) == KEPT
    before = recurring.samples
    recurring.add(samples([1.0])[0])
    recurring.look(12.0, ended=False)
    assert recurring.samples is before
    recurring.look(12.0, ended=True)
    assert recurring.samples[-1].length_s == 1.0


# From a stream.

STARTS = [6.0 + 4.0 * index for index in range(len(LENGTHS))]
TOKENS = [max(200.0, tokens) for tokens in LIKE]


def prefills(every: float = 0.25) -> Stream:
    """Each long prompt stops decoding, and the device idles for as long as it is prepared; it is booked at its end."""
    gaps = list(zip(STARTS, LENGTHS, strict=True))
    busy = stairs((0, 1.0), *(edge for a, long in gaps for edge in ((a, 0.0), (a + long, 1.0))))
    decode = total((0, 800), *(edge for a, long in gaps for edge in ((a, 0), (a + long, 800))))
    finish = total((0, 1), *(edge for a, long in gaps for edge in ((a, 0), (a + long, 1))))
    stream = Stream(STARTS[-1] + 6.0).device(busy, every=every)
    stream.metrics(
        server(
            sched__finished=finish,
            tokens__decode=decode,
            step__count=lambda t: (decode(t) or 0.0) / 8,
            tokens__prompt=lambda t: sum(
                tokens for a, long, tokens in zip(STARTS, LENGTHS, TOKENS, strict=True) if a + long <= t
            ),
        )
    )
    return stream


def assessed(every: float = 0.25) -> Assessment:
    return analyse(prefills(every).lines())[1]


def test_the_trend_of_a_stream_is_found_and_stands_in_the_report() -> None:
    timeline, state = analyse(prefills().lines())
    assert len(state.samples) == len(LENGTHS)
    for item, tokens, long in zip(state.samples, TOKENS, LENGTHS, strict=True):
        assert item.length_s == pytest.approx(long, abs=0.05)
        assert item.running == pytest.approx(8.0)
        assert item.prompt_tokens is not None
        assert tokens / 3 < item.prompt_tokens <= tokens * 1.01
    (trend,) = state.trends
    assert "gap grows with prompt length (rho 0." in trend.sentence
    built = report.build(timeline, state, window=None)
    (told,) = built["trends"]
    assert told["sentence"] == trend.sentence
    assert {"kind", "server", "devices", "valleys", "confidence_ratio", "correlations"} < set(told)
    text = " ".join(report_text.render(built, ascii=False, width=100).split())
    assert f"Over all valleys Test GPU: {built['period'][0]['sentence']}" in text
    assert trend.sentence in text
    part = report.build(timeline, state, window=(0.0, 30.0))
    assert (part["trends"], part["period"]) == ([], [])


def test_it_does_not_depend_on_how_readings_came() -> None:
    assert assessed(1.0).trends == assessed(0.25).trends
    assert assessed(1.0).periods == assessed(0.25).periods


# What comes with the gaps, and what follows from them.


def arrivals(chance: np.random.Generator, lengths: list[float], longest: float = 0.0) -> list[Sample]:
    """Gaps among which requests come at random, rarely a long one; what waits comes after the gap. ``longest``: tokens
    of a second of gap that one more prompt has, which made it."""
    tokens, counts = [], []
    for length in lengths:
        chats, documents = chance.integers(10, 22), chance.poisson(0.25 * (length + 1.5))
        made = [longest * length] if longest else []
        tokens.append(80.0 * chats + chance.uniform(500, 4000, documents).sum() + sum(made))
        counts.append(float(chats + documents + len(made)))
    usual = [(9 * 80 + 0.25 * 2250) * (length + 1.5) for length in lengths]
    means = [whole / count for whole, count in zip(tokens, counts, strict=True)]
    return samples(lengths, every=20.0, prompt_tokens=means, prompts=counts, prompts_usual=usual)


def test_prompts_that_waited_for_the_end_of_a_gap_did_not_make_it() -> None:
    """Without a look at what ordinary time brings a fifth of these has a clear trend: of more prompts one is longer."""
    said = 0
    for seed in range(50):
        chance = np.random.default_rng(seed)
        (trend,) = trends(arrivals(chance, chance.uniform(0.5, 5.0, 50).tolist()))
        assert of(trend, "length", "prompt_tokens").may_follow
        said += "prompt length" in trend.sentence
    assert said == 0


def test_prompts_that_made_the_gaps_are_told_from_those_that_waited() -> None:
    said = 0
    for seed in range(20):
        chance = np.random.default_rng(seed)
        (trend,) = trends(arrivals(chance, chance.uniform(0.5, 5.0, 20).tolist(), longest=4000))
        said += trend.sentence.startswith("gap grows with prompt length (rho 0.")
    assert said >= 19


def test_where_ordinary_prompts_are_not_known_nothing_is_said_of_them() -> None:
    (trend,) = trends(samples(LENGTHS, prompt_tokens=LIKE, prompts_usual=None))
    assert of(trend, "length", "prompt_tokens").rho is not None
    assert trend.sentence == ""


def test_a_larger_batch_does_not_look_like_longer_answers() -> None:
    chance = np.random.default_rng(4)
    batch = chance.uniform(4, 30, 30)
    lengths = (0.05 * batch + chance.normal(0, 0.05, 30)).tolist()
    answers = (5 * batch + chance.normal(0, 8, 30)).tolist()
    (trend,) = trends(samples(lengths, output_tokens=answers, running=batch.tolist()))
    assert trend.sentence.startswith("gap grows with concurrency (rho 0.9")
    assert "output length (" not in trend.sentence
