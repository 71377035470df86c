"""Queue, memory, prompts and demand: one stream a cause, with the numbers of public cases where they fit."""

from __future__ import annotations

import pytest

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Stream, only, stairs, total, valleys_of


def test_silence_with_an_idle_front_end_is_no_demand_whatever_the_polling_core_does() -> None:
    # Case 42: the idle engine polls at 100 % of a core.
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("poll"))
    stream.states(ENGINE, "engine", stairs((0, 1.0)))
    valley = only(valleys_of(stream))
    assert valley.kind == "utilisation"
    assert (valley.verdict.cause, valley.verdict.confidence) == ("no_demand", "high")
    assert valley.tokens_lost == 0.0
    assert "host_starvation" in {item.cause for item in valley.verdict.excluded}
    assert valley.idle_s == pytest.approx(3.0, abs=0.05)
    assert valley.confirmed
    assert valley.final


def test_a_first_step_under_way_is_not_no_demand_though_the_gauges_read_zero() -> None:
    # vLLM's gauges move when a step ends: during the first one after an idle time they still read 0 and 0.
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("prepare_batch"))
    verdict = only(valleys_of(stream)).verdict
    assert verdict.cause == "host_starvation"
    assert "no_demand" not in {part.cause for part in verdict.segments}
    (because,) = (item.because for item in verdict.excluded if item.cause == "no_demand")
    assert "first step was under way" in because


def test_silence_without_a_view_of_the_front_end_is_less_sure_and_says_why() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    verdict = only(valleys_of(stream)).verdict
    assert (verdict.cause, verdict.confidence) == ("no_demand", "medium")
    assert any(text.startswith("front end not seen") for text in verdict.unseen)
    assert {link.link: link.state for link in verdict.chain}["front end"] == "not_seen"


def test_client_that_cannot_keep_up_is_no_demand() -> None:
    # Case 15: the GPU falls to 5 % because the client is the bottleneck; each request is as fast as ever.
    stream = Stream(END).device(quiet_between(1.0, 0.05))
    stream.metrics(
        server(
            sched__running=quiet_between(50, 2),
            tokens__decode=total((0, 5000), (LOW, 200), (BACK, 5000)),
            step__count=total((0, 100)),
        )
    )
    stream.stacks(API, "api", lambda t: "idle")
    valley = only(valleys_of(stream), kind="utilisation")
    assert (valley.verdict.cause, valley.verdict.detail) == ("no_demand", "client-limited")


def test_blocked_tokeniser_is_a_front_end_stall_not_an_empty_queue() -> None:
    # Cases 13 and 14: waiting 0, running 0, and the front end's thread works.
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(API, "api", lambda t: "tokenize" if LOW <= t < BACK else "idle").stacks(
        ENGINE, "engine", engine("poll")
    )
    verdict = only(valleys_of(stream)).verdict
    assert (verdict.cause, verdict.detail) == ("host_starvation", "front end (tokenise)")
    assert {link.link: link.state for link in verdict.chain}["front end"] == "blocked"
    assert "front end" in verdict.advice or "--api-server-count" in verdict.advice


def test_open_requests_in_the_front_end_speak_against_no_demand() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), sched__in_flight=stairs((0, 8)), **stopped_progress()))
    assert only(valleys_of(stream)).verdict.cause == "host_starvation"


def test_stopped_api_process_is_never_no_demand() -> None:
    stream = Stream(END + 6).device(stairs((0, 1.0), (LOW, 0.0), (18.0, 1.0)))
    stream.metrics(server(sched__running=stairs((0, 8))), outages=[(LOW + 0.2, 18.0)])
    stream.host({f"host.stopped{{pid={API}}}": stairs((0, 0), (LOW, 1), (18.0, 0))})
    stream.stacks(API, "api", lambda t: "idle")
    valley = only(valleys_of(stream))
    assert valley.kind == "utilisation"
    assert (valley.verdict.cause, valley.verdict.detail) == ("host_starvation", "front end stopped")


def test_silent_metrics_leave_the_scheduler_unseen() -> None:
    stream = Stream(END + 6).device(stairs((0, 1.0), (LOW, 0.0), (18.0, 1.0)))
    stream.metrics(server(sched__running=stairs((0, 8))), outages=[(LOW - 0.5, 18.0)])
    valley = only(valleys_of(stream))
    assert valley.kind == "utilisation"
    assert valley.verdict.cause != "no_demand"
    assert any("not seen" in text for text in valley.verdict.unseen)


def test_full_cache_is_cache_pressure_before_the_counter_moves() -> None:
    # Case 18 and the recorded order: running falls, waiting rises alike, KV full, the counter comes 1.5 s late.
    stream = Stream(END).device(quiet_between(1.0, 0.2))
    stream.metrics(
        server(
            sched__running=stairs((0, 24), (LOW, 19), (12.5, 13), (13, 9), (13.5, 7), (BACK, 24)),
            sched__waiting=stairs((0, 0), (LOW, 5), (12.5, 11), (13, 15), (13.5, 17), (BACK, 0)),
            kv__used=stairs((0, 0.7), (LOW, 0.96), (13, 0.998), (BACK, 0.8)),
            sched__preemptions=total((0, 0), (16.6, 14), (17.6, 0)),
            sched__finished=total((0, 1), (LOW, 0), (16, 1)),
            tokens__decode=total((0, 5000), (LOW, 1000), (BACK, 5000)),
        )
    )
    valley = only(valleys_of(stream), kind="utilisation")
    assert valley.verdict.cause == "cache_pressure"
    assert valley.tokens_lost == pytest.approx(12_000, rel=0.1)
    assert {"no_demand", "admission_stall", "host_starvation"} <= {item.cause for item in valley.verdict.excluded}
    assert "--gpu-memory-utilization" in valley.verdict.advice


def test_preemption_thrash_is_cache_pressure_for_certain() -> None:
    # Case 17: preemptions by the hundred near a full cache.
    stream = Stream(END).device(quiet_between(1.0, 0.3), power=quiet_between(300, 120))
    stream.metrics(
        server(
            sched__waiting=quiet_between(0, 12),
            kv__used=stairs((0, 0.97)),
            sched__preemptions=total((0, 0), (LOW, 60), (BACK, 0)),
            tokens__decode=total((0, 800), (LOW, 200), (BACK, 800)),
        )
    )
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("device_sync"))
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert (verdict.cause, verdict.detail) == ("cache_pressure", "preemption thrash")


def test_long_prefill_that_is_booked_at_its_end_is_prefill_interference() -> None:
    # Case 22: decode 272.6 -> 6.62 tok/s for 16.5 s while a 65 535-token prompt prefills; the device stays busy.
    stream = Stream(40).device(stairs((0, 1.0)), power=stairs((0, 300)))
    stream.metrics(
        server(
            tokens__decode=total((0, 272.6), (12, 6.62), (28.5, 272.6)),
            step__count=total((0, 34), (12, 0.8), (28.5, 34)),
            tokens__prompt=total((0, 0), (28.4, 655350), (28.5, 0)),
        )
    )
    stream.stacks(ENGINE, "engine", lambda t: "device_sync")
    valley = only(valleys_of(stream))
    assert valley.kind == "progress"
    assert valley.verdict.cause == "prefill_interference"
    assert valley.depth_ratio == pytest.approx(0.975, abs=0.02)
    assert valley.tokens_lost == pytest.approx((272.6 - 6.62) * 16.5, rel=0.1)


@pytest.mark.parametrize("running", [0, 3])
def test_requests_that_are_not_admitted_with_memory_free_are_an_admission_stall(running: int) -> None:
    # Cases 25 and 26: running 0, waiting 5-6, KV free, no tokens, probes answer.
    stream = Stream(END).device(quiet_between(1.0, 0.1))
    progress = stopped_progress()
    if running:
        progress["tokens__decode"] = total((0, 800), (LOW, 300), (BACK, 800))
        progress["step__count"] = total((0, 100))
    stream.metrics(
        server(
            sched__running=quiet_between(8, running),
            sched__waiting=quiet_between(0, 6),
            kv__used=quiet_between(0.3, 0.0),
            **progress,
        )
    )
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("poll"))
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert verdict.cause == "admission_stall"
    assert "no_demand" in {item.cause for item in verdict.excluded}
    assert "restart" not in verdict.advice
    assert "will not help" in verdict.advice
    assert not verdict.advice.startswith("Raise --max-num-seqs")


def test_what_is_no_slower_than_just_before_is_no_valley() -> None:
    # The server slows down over a minute; half of its level of a minute ago is what has become ordinary meanwhile.
    rates = ((0, 800), (20, 700), (30, 600), (40, 500), (50, 410), (62, 395))
    stream = Stream(70).metrics(server(tokens__decode=total(*rates)))
    assert valleys_of(stream) == ()
    stalled = Stream(70).metrics(server(tokens__decode=total(*rates[:-1], (62, 100))))
    assert [valley.kind for valley in valleys_of(stalled)] == ["progress"]
