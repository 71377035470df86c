"""The advice fits what was found, and the sentence says what keeps a verdict from being sure."""

from __future__ import annotations

import pytest

from gaptop.valleys.advice import advice
from gaptop.valleys.causes import RULES
from gaptop.valleys.evidence import Evidence, Gauge, ThreadView
from gaptop.valleys.model import CAUSE_NAMES, Cause, Finding
from gaptop.valleys.remedy import Remedy
from gaptop.valleys.verdict import verdict

from .valley_server import BACK, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Stream, analyse, only, stairs, total, valleys_of


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", ""])
@pytest.mark.parametrize("cause", list(CAUSE_NAMES))
def test_every_cause_has_advice_for_every_engine(cause: Cause, engine: str) -> None:
    assert advice(cause, Remedy.USUAL, engine).endswith(".")


@pytest.mark.parametrize("remedy", [item for item in Remedy if item is not Remedy.USUAL])
def test_every_remedy_has_words_of_its_own(remedy: Remedy) -> None:
    assert advice("unknown", remedy, "vllm") != advice("unknown", Remedy.USUAL, "vllm")


def gauge(value: float, *, before: float | None = None, first: float | None = None) -> Gauge:
    return Gauge(value, value, value, value if first is None else first, value, before)


def admission(evidence: Evidence) -> Finding:
    return next(found for rule in RULES if (found := rule(evidence)).cause == "admission_stall")


def stalled(seconds: float, *, running: float = 0.0, deferred: float | None = None, before: float = 8.0) -> Finding:
    return admission(
        Evidence(
            kind="utilisation",
            engine="vllm",
            start=10.0,
            end=10.0 + seconds,
            busy=0.1,
            busy_level=1.0,
            running=gauge(running, before=before),
            waiting=gauge(6.0, before=0.0),
            limit=64.0,
            kv=gauge(0.2),
            deferred=None if deferred is None else gauge(deferred),
            decode_rate=100.0,
            decode_before=800.0,
        )
    )


@pytest.mark.parametrize(("seconds", "restart"), [(1.0, False), (3.0, False), (9.0, False), (60.0, True)])
def test_a_brief_standstill_is_nobodys_reason_to_restart(seconds: float, restart: bool) -> None:
    found = stalled(seconds)
    assert found.detail.startswith("stuck")
    assert ("restart" in advice(found.cause, found.remedy, "vllm")) == restart


@pytest.mark.parametrize(
    ("found", "detail"),
    [
        (stalled(3.0, running=2.0), "batch boundary (static membership)"),
        (stalled(3.0, deferred=6.0), "deferred"),
        (stalled(3.0, running=7.0), "stuck: under the limit, not admitted"),
    ],
)
def test_a_cap_that_was_not_reached_is_not_to_be_raised(found: Finding, detail: str) -> None:
    assert found.detail == detail
    for engine in ("vllm", "llamacpp"):
        said = advice(found.cause, found.remedy, engine)
        assert not said.startswith(("Raise --max-num-seqs", "Raise --parallel"))
        assert "will not help" in said


def test_a_narrow_margin_is_told_as_one() -> None:
    work, sync = {"gc": 0.55, "device_sync": 0.45}, 0.0
    evidence = Evidence(
        kind="utilisation",
        engine="vllm",
        start=10.0,
        end=13.0,
        busy=sync,
        busy_level=1.0,
        running=gauge(8.0, before=8.0),
        waiting=gauge(0.0, before=0.0),
        kv=gauge(0.2),
        decode_rate=0.0,
        decode_before=800.0,
        threads=(ThreadView("engine", "engine", True, work),),
        stacks_seen=True,
    )
    said = verdict(evidence, (), confirmed=True)
    assert (said.cause, said.confidence) == ("host_starvation", "low")
    assert said.doubt == "synchronisation (device sync) explains it nearly as well"


def test_the_sentence_names_the_runner_up_that_comes_too_close() -> None:
    stream = Stream(22).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "gc" if LOW <= t < BACK and t % 0.35 < 0.19 else "device_sync")
    sentence = analyse(stream.lines())[1].sentence
    assert sentence.endswith(
        "(host starvation is only a guess): synchronisation (device sync) explains it nearly as well"
    )


def test_a_confident_verdict_has_no_doubt() -> None:
    stream = Stream(22).device(quiet_between(1.0)).stacks(API, "api", lambda t: "idle")
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    assert only(valleys_of(stream)).verdict.doubt == ""


def test_time_in_which_the_device_was_not_seen_is_error_and_not_idle_time() -> None:
    stream = Stream(30).device(stairs((0, 1.0), (12, 0.6), (22, 1.0)), outages=[(12.6, 21.6)])
    stream.metrics(
        server(tokens__decode=total((0, 800), (12, 0), (22, 800)), step__count=total((0, 100), (12, 0), (22, 100)))
    )
    valley = only(valleys_of(stream), kind="progress")
    assert valley.idle_s == pytest.approx(0.4, abs=0.15)
    assert valley.idle_error_s == pytest.approx(9.0, abs=0.3)
    assert valley.verdict.cause != "stalled_busy"


def test_a_short_hole_inside_a_dip_is_error_too() -> None:
    valley = only(valleys_of(Stream(22).device(quiet_between(1.0), outages=[(13.0, 13.4)])))
    assert valley.idle_s == pytest.approx(2.6, abs=0.05)
    assert valley.idle_error_s == pytest.approx(0.4, abs=0.05)


def test_run_states_seen_for_a_tenth_of_the_time_say_nothing() -> None:
    stream = Stream(24).device(stairs((0, 1.0), (12, 0.1), (18, 1.0)))
    stream.metrics(server(tokens__decode=total((0, 800), (12, 100), (18, 800))))
    stream.states(ENGINE, "engine", stairs((0, 0.1), (12, 1.0), (12.5, None), (18, 0.1)))
    said = only(valleys_of(stream), kind="utilisation").verdict
    assert said.detail != "critical thread on CPU"
