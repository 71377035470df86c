"""Servers whose numbers move only every so often: neither a valley is made of that, nor is an old gauge believed."""

from __future__ import annotations

import math

import pytest

from gaptop.recording.lines import Source
from gaptop.valleys.freshness import moves_every, slowest
from gaptop.valleys.lumps import Lumps
from gaptop.valleys.model import Valley
from gaptop.valleys.progress import Interval

from .case_streams import does
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Curve, Stream, only, stairs, total, valleys_of


def source(rule: str, **by_signal: str) -> Source:
    named = {name.replace("__", "."): word for name, word in by_signal.items()}
    return Source(0.0, "metrics/a", "c", "server", {}, [], 0.5, refresh=rule, refresh_by_signal=named)


@pytest.mark.parametrize(
    ("rule", "steps", "seconds"),
    [
        ("step", 20.0, 0.0),
        ("10 s", None, 10.0),
        ("40 steps", 20.0, 2.0),
        ("40 steps", None, math.inf),
        ("1 steps", None, 0.0),
        ("finish", 20.0, 0.0),
    ],
)
def test_how_often_a_number_moves_is_what_its_source_states(rule: str, steps: float | None, seconds: float) -> None:
    assert moves_every(source(rule), "kv.used", steps) == seconds


def test_the_slowest_source_counts_and_a_signals_own_rule_comes_first() -> None:
    lazy = source("step", kv__used="10 s")
    assert slowest([source("step"), lazy], "kv.used", 20.0) == 10.0
    assert slowest([source("step"), lazy], "sched.running", 20.0) == 0.0


def readings(rates: list[float], every: float) -> list[tuple[float, float, float]]:
    lumps = Lumps()
    lumps.every = every
    found = []
    for index, rate in enumerate(rates):
        whole = lumps.feed(Interval(index * 0.5, (index + 1) * 0.5, rate, 8.0, rate / 8))
        if whole is not None:
            found.append((whole.start, whole.end, whole.rate))
    return found


def test_a_counter_that_moves_with_every_step_is_left_as_it_is() -> None:
    assert readings([800.0, 0.0], 0.0) == [(0.0, 0.5, 800.0), (0.5, 1.0, 0.0)]


@pytest.mark.parametrize("every", [2.0, math.inf])
def test_what_one_movement_brings_is_spread_over_its_time(every: float) -> None:
    assert readings([0.0, 3200.0, 0.0, 0.0, 0.0, 3200.0], every) == [(1.0, 3.0, 800.0)]


def test_a_counter_that_stays_away_for_twice_its_time_stands_still_from_its_last_movement_on() -> None:
    rates = [3200.0, 0.0, 0.0, 0.0, 3200.0, *[0.0] * 10, 3200.0]
    found = readings(rates, 2.0)
    assert found[0] == (0.5, 2.5, 800.0)
    assert found[1] == (2.5, 7.0, 0.0)
    assert found[-1] == (7.5, 8.0, 3200.0)


def lazily(rule: str, curves: dict[str, Curve], seconds: float) -> dict[str, Curve]:
    """Every number as it stood at its last refresh; at 100 steps a second, 200 steps take two seconds."""
    every = 2.0 if rule.endswith("steps") else float(rule.split()[0])
    own = {"latency.scrape", "sched.limit"}

    def held(curve: Curve) -> Curve:
        return lambda t: curve(t // every * every)

    return {name: curve if name in own else held(curve) for name, curve in curves.items()}


def valleys(rule: str, stream: Stream, curves: dict[str, Curve]) -> tuple[Valley, ...]:
    shown = lazily(rule, curves, stream.seconds)
    return valleys_of(stream.metrics(shown, refresh=dict.fromkeys(shown, rule)))


@pytest.mark.parametrize("rule", ["10 s", "200 steps"])
def test_a_server_that_works_steadily_has_no_valley_however_rarely_it_tells(rule: str) -> None:
    assert valleys(rule, Stream(60).device(stairs((0, 1.0))), server()) == ()


def test_a_standstill_of_several_refreshes_is_still_a_valley() -> None:
    stopped = {
        name: total((0, each), (20, 0), (50, each)) for name, each in (("tokens__decode", 800), ("step__count", 100))
    }
    stream = Stream(70).device(stairs((0, 1.0)), power=stairs((0, 300), (20, 60), (50, 300)))
    stream.stacks(ENGINE, "engine", lambda t: "device_sync")
    valley = only(valleys("2 s", stream, server(**stopped)), kind="progress")
    assert valley.verdict.cause == "stalled_busy"
    assert valley.start_s == pytest.approx(20.0, abs=2.5)


def test_old_gauges_prove_neither_a_full_cache_nor_a_queue() -> None:
    curves = server(
        sched__running=stairs((0, 35)), sched__waiting=stairs((0, 9)), kv__used=stairs((0, 0.99)), **stopped_progress()
    )
    stream = Stream(END).device(quiet_between(1.0))
    verdict = only(valleys("10 s", stream, curves), kind="utilisation").verdict
    assert (verdict.cause, verdict.confidence) == ("unknown", "low")
    assert "cache_pressure" not in {item.cause for item in verdict.excluded}
    assert any(text.startswith("KV use not seen: the server's gauges move every 10 s") for text in verdict.unseen)


def test_threads_tell_an_empty_queue_that_the_gauges_are_too_old_for() -> None:
    curves = server(sched__running=stairs((0, 8), (LOW, 0), (BACK, 8)), **stopped_progress())
    stream = Stream(END).device(quiet_between(1.0)).stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", does("await_requests"))
    verdict = only(valleys("10 s", stream, curves), kind="utilisation").verdict
    assert (verdict.cause, verdict.confidence) == ("no_demand", "high")
