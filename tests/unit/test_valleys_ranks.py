"""Servers with several engines (data parallel ranks): a rank's device is judged by what its own engine does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gaptop.valleys.model import Valley

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, Stream, analyse, only, stairs, total, valleys_of

OTHER = "nvml/GPU-b"
RANKS = (201, 202)


def half() -> dict[str, Callable[[float], float | None]]:
    """A server of two ranks of which one has nothing to do between LOW and BACK."""
    return server(
        sched__running=stairs((0, 8), (LOW, 4), (BACK, 8)),
        tokens__decode=total((0, 800), (LOW, 400), (BACK, 800)),
        step__count=total((0, 200), (LOW, 100), (BACK, 200)),
    )


def two_ranks(first_pids: Sequence[int] | None, second_pids: Sequence[int] | None) -> Stream:
    """Rank 0 has no request for three seconds, rank 1 works on, its engine in device_sync as ever."""
    stream = Stream(END)
    stream.device(quiet_between(1.0), pids=first_pids).device(stairs((0, 1.0)), source=OTHER, pids=second_pids)
    stream.metrics(half(), pids=(API, *RANKS), more={"engines": 2}).stacks(API, "api", lambda t: "idle")
    stream.stacks(RANKS[0], "engine", lambda t: "idle" if LOW <= t < BACK else "device_sync", name="EngineCore_DP0")
    return stream.stacks(RANKS[1], "engine", lambda t: "device_sync", name="EngineCore_DP1")


def dip(stream: Stream, device: str = "GPU-a") -> Valley:
    return only(valleys_of(stream), kind="utilisation", devices=(device,))


def test_the_busy_ranks_sync_is_not_blamed_for_the_idle_rank() -> None:
    found = dip(two_ranks(RANKS[:1], RANKS[1:]))
    said = found.verdict
    assert said.cause != "synchronisation"
    assert said.runner_up is None or said.runner_up[0] != "synchronisation"
    assert said.confidence != "high"
    assert "this engine's own requests" in said.unseen[0]


def test_another_ranks_tokens_make_no_artefact_of_a_device_whose_engine_awaits_requests() -> None:
    stream = Stream(END).device(quiet_between(1.0), pids=RANKS[:1], power=quiet_between(300, 60))
    stream.device(stairs((0, 1.0)), source=OTHER, pids=RANKS[1:])
    # The other rank is as fast as both were: tokens go on as ever.
    stream.metrics(server(), pids=(API, *RANKS), more={"engines": 2}).stacks(API, "api", lambda t: "idle")
    awaits = engine("await_requests")
    stream.stacks(RANKS[0], "engine", awaits, name="EngineCore_DP0")
    said = dip(stream.stacks(RANKS[1], "engine", lambda t: "device_sync", name="EngineCore_DP1")).verdict
    assert said.cause == "no_demand"
    (because,) = (item.because for item in said.excluded if item.cause == "artefact")
    assert because.startswith("its engine awaited requests 100%")


@pytest.mark.parametrize("pids", [None, ()])
def test_where_the_mapping_is_unknown_it_is_said_and_no_engine_is_heard(pids: Sequence[int] | None) -> None:
    said = dip(two_ranks(pids, pids)).verdict
    assert said.cause != "synchronisation"
    assert "mapping unknown" in said.unseen[0]
    assert said.confidence != "high"


def test_devices_that_all_dip_together_need_no_mapping() -> None:
    stream = Stream(END).device(quiet_between(1.0), pids=None).device(quiet_between(1.0), source=OTHER, pids=None)
    stream.metrics(server(**stopped_progress()), pids=(API, *RANKS), more={"engines": 2})
    for pid in RANKS:
        stream.stacks(pid, "engine", lambda t: "gc" if LOW <= t < BACK else "device_sync")
    stream.stacks(API, "api", lambda t: "idle")
    (found,) = valleys_of(stream)
    assert (found.devices, found.verdict.cause) == (("GPU-a", "GPU-b"), "host_starvation")
    assert not any("mapping" in text for text in found.verdict.unseen)


def test_ranks_that_idle_at_once_are_judged_one_by_one_and_share_the_tokens() -> None:
    stream = Stream(END).device(quiet_between(1.0), pids=RANKS[:1])
    stream.device(quiet_between(1.0), source=OTHER, pids=RANKS[1:])
    stream.metrics(server(**stopped_progress()), pids=(API, *RANKS)).stacks(API, "api", lambda t: "idle")
    stream.stacks(RANKS[0], "engine", lambda t: "gc" if LOW <= t < BACK else "device_sync")
    stream.stacks(RANKS[1], "engine", lambda t: "compile" if LOW <= t < BACK else "device_sync")
    timeline, state = analyse(stream.lines())
    first, second = only(state.valleys, devices=("GPU-a",)), only(state.valleys, devices=("GPU-b",))
    assert (first.verdict.cause, second.verdict.cause) == ("host_starvation", "compiling")
    assert first.tokens_shared_with == (second.id,)
    assert (first.tokens_lost or 0) + (second.tokens_lost or 0) == pytest.approx(2400, rel=0.1)


def with_workers(straggles: bool) -> Stream:
    """Two ranks of two workers each; one device of rank 0 idles, its peer spins only where it ``straggles``."""
    low, busy = quiet_between(1.0), stairs((0, 1.0))
    stream = Stream(END)
    for index, curve in enumerate((low, busy if straggles else low, busy, busy)):
        stream.device(curve, source=f"nvml/GPU-{'abcd'[index]}", pids=(301 + index,))
        name = f"VLLM::Worker_DP{index // 2}_TP{index % 2}"
        stream.states(301 + index, "worker", stairs((0, 1.0)), name=name)
    for pid in RANKS:
        stream.states(pid, "engine", stairs((0, 0.5)), name=f"VLLM::EngineCore_DP{pid - RANKS[0]}")
    return stream.metrics(half(), pids=(API, *RANKS, 301, 302, 303, 304))


def test_a_straggler_is_one_among_the_devices_of_its_own_engine() -> None:
    (straggler,) = valleys_of(with_workers(straggles=True))
    assert straggler.devices == ("GPU-a",)
    assert any("the other devices read 100%" in fact.says for fact in straggler.verdict.evidence)
    (whole,) = valleys_of(with_workers(straggles=False))
    assert whole.devices == ("GPU-a", "GPU-b")
    assert not any("the other devices" in fact.says for fact in whole.verdict.evidence)


@pytest.mark.parametrize(
    ("more", "engines"),
    [({}, 1), ({"engines": 2}, 1), ({"several_api_servers": True}, 1), ({}, 2)],
)
def test_idle_per_step_is_told_only_where_the_step_rate_is_the_devices(more: dict[str, int], engines: int) -> None:
    stream = Stream(20).device(lambda t: 0.7, pids=RANKS[:1])
    stream.metrics({"step.count": total((0, 100)), "sched.running": stairs((0, 4))}, pids=(API, *RANKS), more=more)
    for pid in RANKS[:engines]:
        stream.states(pid, "engine", stairs((0, 1.0)))
    (plateau,) = analyse(stream.lines())[1].plateaus
    if more or engines > 1:
        assert plateau.idle_per_step_s is None
    else:
        assert plateau.idle_per_step_s == pytest.approx(0.003, rel=0.05)


def test_an_engine_that_was_restarted_is_not_a_second_one() -> None:
    stream = Stream(20).device(lambda t: 0.7, pids=RANKS[1:])
    stream.metrics({"step.count": total((0, 100)), "sched.running": stairs((0, 4))}, pids=(API, RANKS[1]))
    for pid in RANKS:
        stream.states(pid, "engine", stairs((0, 1.0)))
    (plateau,) = analyse(stream.lines())[1].plateaus
    assert plateau.idle_per_step_s == pytest.approx(0.003, rel=0.05)
