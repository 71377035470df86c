"""Host, compiler, device and readings: one stream a cause, with the numbers of public cases where they fit."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Valley

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, URL, Stream, analyse, only, stairs, total, valleys_of


@pytest.mark.parametrize(
    ("activity", "detail"), [("gc", "GC"), ("schedule", "scheduling"), ("grammar", "grammar"), ("sample", "sampling")]
)
def test_critical_thread_in_host_work_is_host_starvation(activity: str, detail: str) -> None:
    # Case 31: a full collection stops the engine while requests run.
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine(activity))
    stream.states(ENGINE, "engine", stairs((0, 0.3), (LOW, 1.0), (BACK, 0.3)))
    valley = only(valleys_of(stream), kind="utilisation")
    assert (valley.verdict.cause, valley.verdict.detail) == ("host_starvation", detail)
    assert valley.verdict.confidence == "high"


def test_throttled_cgroup_is_host_starvation() -> None:
    # Case 1: the pod's CPU quota throttles for minutes while SM activity is 7-12 %.
    stream = Stream(END).device(quiet_between(1.0, 0.1))
    stream.metrics(
        server(
            tokens__decode=total((0, 800), (LOW, 100), (BACK, 800)), step__count=total((0, 100), (LOW, 12), (BACK, 100))
        )
    )
    stream.host({"host.throttled": total((0, 0), (LOW, 0.8), (BACK, 0))}, source=f"cgroup/{URL}")
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert (verdict.cause, verdict.detail) == ("host_starvation", "cgroup throttling")


def test_waiting_for_a_core_is_cpu_contention() -> None:
    stream = Stream(END).device(quiet_between(1.0, 0.1))
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 100), (BACK, 800))))
    stream.states(ENGINE, "engine", stairs((0, 0.3)), wants=quiet_between(0.0, 0.6))
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert (verdict.cause, verdict.detail) == ("host_starvation", "CPU contention")


def test_busy_core_without_stacks_is_no_proof_of_host_starvation() -> None:
    # Finding 3: a core at 100 % before and during the valley may be a busy-wait.
    stream = Stream(END).device(quiet_between(1.0, 0.1))
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 100), (BACK, 800))))
    stream.states(ENGINE, "engine", stairs((0, 1.0)))
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert verdict.confidence == "low"
    assert any("stacks not seen" in text for text in verdict.unseen)


def test_waiting_for_a_device_that_works_meanwhile_is_no_synchronisation() -> None:
    # Requests drain and nobody is admitted: the sync before and after belongs to the busy device.
    stream = Stream(END).device(stairs((0, 1.0), (LOW + 1, 0.0), (BACK, 1.0)))
    stream.metrics(
        server(
            sched__running=stairs((0, 8), (LOW + 1, 0), (BACK, 8)),
            sched__waiting=stairs((0, 0), (LOW, 8), (BACK, 0)),
            **stopped_progress(),
        )
    )
    stream.stacks(ENGINE, "engine", lambda t: "idle" if LOW + 1 <= t < BACK else "device_sync")
    assert {valley.verdict.cause for valley in valleys_of(stream)} == {"admission_stall"}


def test_blocking_copy_while_the_device_idles_is_synchronisation() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("copy", "idle"))
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert (verdict.cause, verdict.detail) == ("synchronisation", "blocking copy")


def test_one_rank_that_idles_while_the_others_spin_is_a_straggler() -> None:
    stream = Stream(END).device(quiet_between(1.0)).device(stairs((0, 1.0)), source="nvml/GPU-b")
    stream.metrics(server(**stopped_progress()))
    valley = only(valleys_of(stream), kind="utilisation")
    assert valley.devices == ("GPU-a",)
    assert valley.verdict.cause == "synchronisation"


def test_compiler_children_are_compiling_before_the_host_is_blamed() -> None:
    # Case 34: about 20 s with compiler children running; the engine's thread is in compile frames.
    stream = Stream(44).device(stairs((0, 1.0), (12, 0.0), (32, 1.0)))
    stream.metrics(
        server(
            tokens__decode=total((0, 800), (12, 0), (32, 800)),
            step__count=total((0, 100), (12, 0), (32, 100)),
        )
    )
    stream.host({"host.compilers": stairs((0, 0), (12, 4), (32, 0))})
    stream.stacks(ENGINE, "engine", lambda t: "compile" if 12 <= t < 32 else "device_sync")
    valley = only(valleys_of(stream), kind="utilisation")
    assert (valley.verdict.cause, valley.verdict.detail) == ("compiling", "JIT")


def test_wedge_keeps_the_device_busy_at_low_power() -> None:
    # Case 40: running 2, waiting 0, counters frozen, GPU 96 %, threads asleep, low power.
    stream = Stream(40).device(stairs((0, 0.96)), power=stairs((0, 300), (12, 66), (30, 300)))
    stream.metrics(
        server(
            sched__running=stairs((0, 2)),
            tokens__decode=total((0, 100), (12, 0), (30, 100)),
            step__count=total((0, 50), (12, 0), (30, 50)),
            tokens__prompt=total((0, 0)),
        )
    )
    stream.stacks(ENGINE, "engine", lambda t: "device_sync")
    valley = only(valleys_of(stream))
    assert valley.kind == "progress"
    assert valley.verdict.cause == "stalled_busy"
    assert valley.confirmed
    assert "no_demand" in {item.cause for item in valley.verdict.excluded}


def test_phantom_busy_is_a_hint_and_no_valley() -> None:
    # Case 43: idle but resident, 100 % busy at 44 W.
    stream = Stream(END).device(stairs((0, 1.0)), power=stairs((0, 300), (6, 44)))
    stream.metrics(
        server(
            sched__running=stairs((0, 8), (6, 0)),
            tokens__decode=total((0, 800), (6, 0)),
            step__count=total((0, 100), (6, 0)),
        )
    )
    _, assessment = analyse(stream.lines())
    assert assessment.valleys == ()
    assert any("phantom busy" in text and "44 W" in text for text in assessment.hints)


def test_idle_reading_while_tokens_and_power_go_on_is_an_artefact() -> None:
    stream = Stream(END).device(quiet_between(1.0), power=stairs((0, 300)))
    stream.metrics(server())
    valley = only(valleys_of(stream))
    assert valley.verdict.cause == "artefact"
    assert not valley.confirmed
    assert valley.tokens_lost == 0.0


def test_new_power_cap_with_slow_tokens_is_a_device_limit() -> None:
    # Case 37: SW power cap, clock far under its usual, speed -70-80 %.
    stream = Stream(40).device(
        stairs((0, 1.0)),
        power=stairs((0, 300), (12, 100), (30, 300)),
        more={
            "device.limit_seconds{reason=sw_power_cap}": total((0, 0), (12, 1), (30, 0)),
            "device.clock_sm": stairs((0, 1.9e9), (12, 0.6e9), (30, 1.9e9)),
        },
    )
    stream.metrics(
        server(
            tokens__decode=total((0, 800), (12, 200), (30, 800)),
            step__count=total((0, 100), (12, 25), (30, 100)),
        )
    )
    valley = only(valleys_of(stream))
    assert (valley.kind, valley.verdict.cause) == ("progress", "device_limit")


def test_deferred_requests_wait_for_something_outside() -> None:
    # Case 29: blocked requests while a prefetch from disk is awaited.
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(
        server(
            sched__running=quiet_between(8),
            sched__waiting=quiet_between(0, 6),
            **{"sched.waiting_by_reason{reason=deferred}": quiet_between(0, 6)},
            **stopped_progress(),
        )
    )
    stream.stacks(ENGINE, "engine", lambda t: "kv_transfer" if LOW <= t < BACK else "device_sync")
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert (verdict.cause, verdict.detail) == ("external_wait", "remote KV")


def test_nothing_that_fits_is_unknown_and_lists_its_exclusions() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(**stopped_progress()))
    verdict = only(valleys_of(stream), kind="utilisation").verdict
    assert (verdict.cause, verdict.confidence) == ("unknown", "low")
    assert {"no_demand", "cache_pressure", "admission_stall"} <= {item.cause for item in verdict.excluded}
    assert "threads not seen" in verdict.unseen


def test_wedged_loop_with_a_full_cache_is_named_with_little_confidence() -> None:
    # Case 21: running 35, pending 115, KV 99 %, then no tokens at all; the cause was never found.
    stream = Stream(40).device(stairs((0, 1.0), (12, 0.0), (32, 1.0)))
    stream.metrics(
        server(
            sched__running=stairs((0, 35)),
            sched__waiting=stairs((0, 115)),
            kv__used=stairs((0, 0.99)),
            tokens__decode=total((0, 800), (12, 0), (32, 800)),
            step__count=total((0, 100), (12, 0), (32, 100)),
        )
    )
    assert only(valleys_of(stream), kind="utilisation").verdict.confidence == "low"


def causes(valleys: tuple[Valley, ...]) -> list[str]:
    return [item.verdict.cause for item in valleys]


def test_queue_in_front_of_a_busy_device_is_no_valley() -> None:
    stream = Stream(END).device(stairs((0, 1.0)))
    stream.metrics(server(sched__running=stairs((0, 2)), sched__limit=stairs((0, 2)), sched__waiting=stairs((0, 8))))
    assert causes(valleys_of(stream)) == []
