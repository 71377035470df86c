"""A thread that is kept from its core, and by whom: a quota, its own crowd, a mask, a hypervisor, other work."""

from __future__ import annotations

import pytest

from gaptop.recording.lines import Batch, Source, Watermark
from gaptop.valleys.causes.host_starvation import host_starvation
from gaptop.valleys.causes.rule import STRONG
from gaptop.valleys.evidence import Evidence, Gauge, ThreadView
from gaptop.valleys.model import Verdict

from .valley_host import EVERY, meanwhile, run_states, standstill
from .valley_server import BACK, LOW, engine, quiet_between, server
from .valley_streams import ENGINE, URL, WORKER, Curve, Stream, only, stairs, total, valleys_of

CGROUP = f"cgroup/{URL}"


def verdict(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


def told(said: Verdict) -> str:
    return "; ".join(fact.says for fact in said.evidence)


def starved(activity: str = "schedule") -> Stream:
    """An engine whose thread waits for a core 70 % of the time."""
    return run_states(standstill(activity), ENGINE, "engine", running=meanwhile(0.3), wants=meanwhile(0.7))


def machine(stream: Stream, cores: int, **curves: Curve) -> Stream:
    """The whole host's readings."""
    names = {"busy": "host.busy", "steal": "host.steal"}
    keys = {names[name]: curve for name, curve in curves.items()}
    stream.add(0.0, Source(0.0, "host", "host.cgroup", "host", {"cores": cores}, sorted(keys), 1.0, window=1.0))
    for count in range(1, round(stream.seconds) + 1):
        t = float(count)
        stream.add(t, Batch("host", [t], {key: [curve(t - 0.5)] for key, curve in keys.items()}))
        stream.add(t, Watermark("host", t))
    return stream


def runnable(stream: Stream, pid: int, threads: float) -> Stream:
    """How many threads of a process ran or wanted to, from the source of its run states."""
    for count in range(1, round(stream.seconds / EVERY) + 1):
        t = count * EVERY
        stream.add(t, Batch(f"proc/{pid}", [t], {f"host.runnable_threads{{pid={pid}}}": [threads]}))
    return stream


def allowed(stream: Stream, **cores: float) -> Stream:
    return stream.host({f"host.allowed_cores{{pid={pid[1:]}}}": stairs((0, value)) for pid, value in cores.items()})


def test_more_runnable_threads_than_cores_are_oversubscription() -> None:
    # Case 3: pools sized to all cores in every process; OMP_NUM_THREADS is the cure.
    said = verdict(allowed(runnable(starved(), ENGINE, 12.0), p200=4))
    assert (said.cause, said.detail) == ("host_starvation", "thread oversubscription")
    assert "12.0 of its threads ran or waited for a core at a time, and it may use 4" in told(said)
    assert "OMP_NUM_THREADS" in said.advice


def test_threads_that_fit_their_cores_are_held_up_by_others() -> None:
    said = verdict(allowed(runnable(starved(), ENGINE, 3.0), p200=4))
    assert said.detail == "CPU contention"


@pytest.mark.parametrize(("used", "detail"), [(3.6, "thread oversubscription"), (1.2, "CPU contention")])
def test_a_crowd_that_gets_little_of_its_cores_is_kept_from_them_by_others(used: float, detail: str) -> None:
    # Seen beside a real vLLM: two of its threads and four foreign ones on the one core that it was pinned to.
    stream = allowed(runnable(starved(), ENGINE, 6.0), p200=4)
    stream.host({"host.cpu_seconds{pid=200}": total((0, used))}, source="process/seconds")
    said = verdict(stream)
    assert said.detail == detail
    assert ("its own threads used 1.2 cores, and it may use 4" in told(said)) == (detail == "CPU contention")


def test_processes_that_share_their_cores_use_them_together() -> None:
    stream = starved("worker_wait").stacks(WORKER, "worker", engine("prepare_batch"))
    run_states(stream, WORKER, "worker", running=meanwhile(0.3), wants=meanwhile(0.7))
    stream = allowed(runnable(runnable(stream, ENGINE, 3.0), WORKER, 3.5), p200=4, p300=4)
    used = {"host.cpu_seconds{pid=200}": total((0, 1.5)), "host.cpu_seconds{pid=300}": total((0, 1.5))}
    assert verdict(stream.host(used, source="process/seconds")).detail == "thread oversubscription"


def test_a_quota_makes_fewer_cores_than_the_mask() -> None:
    # Case 1: a limit of 6 cores on a host of 172, a compile pool of 86 threads.
    stream = allowed(runnable(starved(), ENGINE, 86.0), p200=172)
    stream.host({"host.quota_cores": stairs((0, 6))}, source=CGROUP)
    said = verdict(machine(stream, 172, busy=stairs((0, 0.1))))
    assert said.detail == "thread oversubscription"
    assert "it may use 6 of the machine's 172" in told(said)


def test_processes_that_share_their_cores_crowd_them_together() -> None:
    stream = starved("worker_wait").stacks(WORKER, "worker", engine("prepare_batch"))
    run_states(stream, WORKER, "worker", running=meanwhile(0.3), wants=meanwhile(0.7))
    stream = allowed(runnable(runnable(stream, ENGINE, 2.0), WORKER, 3.5), p200=4, p300=4)
    assert verdict(stream).detail == "thread oversubscription"


def test_processes_with_masks_of_their_own_do_not() -> None:
    stream = starved("worker_wait").stacks(WORKER, "worker", engine("prepare_batch"))
    run_states(stream, WORKER, "worker", running=meanwhile(0.3), wants=meanwhile(0.7))
    stream = allowed(runnable(runnable(stream, ENGINE, 2.0), WORKER, 3.5), p200=4, p300=8)
    assert verdict(stream).detail == "CPU contention"


@pytest.mark.parametrize(("busy", "detail"), [(0.2, "CPU affinity"), (0.99, "CPU contention")])
def test_a_mask_is_to_blame_only_while_other_cores_idle(busy: float, detail: str) -> None:
    stream = allowed(starved(), p200=2)
    said = verdict(machine(stream, 16, busy=stairs((0, busy))))
    assert said.detail == detail
    assert ("taskset" in said.advice) == (detail == "CPU affinity") or detail == "CPU contention"


def test_throttling_is_a_share_of_periods_and_not_of_seconds_of_many_cores() -> None:
    # The kernel adds the held-back time up over cores: 3 s a second here, in a tenth of the periods.
    stream = standstill("idle")
    periods = {"host.quota_periods": total((0, 10)), "host.throttled_periods": total((0, 0), (LOW, 1), (BACK, 0))}
    stream.host({**periods, "host.throttled": total((0, 0), (LOW, 3), (BACK, 0))}, source=CGROUP)
    assert verdict(stream).cause == "unknown"


def periods(share: float, seconds: float, usual: float = 0.0) -> dict[str, Curve]:
    """A quota of ten periods a second: the share of them in which it held back, and the seconds a second of that."""
    return {
        "host.quota_periods": total((0, 10)),
        "host.throttled_periods": total((0, 10 * usual), (LOW, 10 * share), (BACK, 10 * usual)),
        "host.throttled": total((0, usual), (LOW, seconds), (BACK, usual)),
    }


def test_many_periods_that_are_held_back_for_a_moment_each_explain_nothing() -> None:
    # A pool that uses up its quota in the last 2 ms of each period.
    said = verdict(standstill("idle").host(periods(0.9, 0.02), source=CGROUP))
    assert said.cause == "unknown"
    assert verdict(standstill("idle").host(periods(0.9, 0.9), source=CGROUP)).detail == "cgroup throttling"


def test_a_quota_that_holds_back_as_ever_explains_nothing_new() -> None:
    assert verdict(standstill("idle").host(periods(0.3, 0.3, 0.3), source=CGROUP)).cause == "unknown"


@pytest.mark.parametrize(("wants", "cause"), [(0.02, "unknown"), (0.7, "host_starvation")])
def test_throttling_that_the_engines_thread_did_not_feel_is_not_its_cause(wants: float, cause: str) -> None:
    stream = run_states(standstill("idle"), ENGINE, "engine", running=meanwhile(0.2), wants=meanwhile(wants))
    said = verdict(stream.host(periods(0.9, 0.9), source=CGROUP))
    assert (said.cause, said.detail == "cgroup throttling") == (cause, cause == "host_starvation")


def test_a_thread_that_waits_for_its_core_as_ever_is_not_slower_for_it() -> None:
    usual = run_states(standstill("idle"), ENGINE, "engine", running=stairs((0, 0.6)), wants=stairs((0, 0.4)))
    assert verdict(usual).cause == "unknown"
    grown = run_states(standstill("idle"), ENGINE, "engine", running=stairs((0, 0.6)), wants=meanwhile(0.4, 0.1))
    said = verdict(grown)
    assert (said.detail, said.confidence) == ("CPU contention", "medium")


def test_throttling_in_most_periods_beats_contention_as_its_reason() -> None:
    stream = starved()
    periods = {"host.quota_periods": total((0, 10)), "host.throttled_periods": total((0, 0), (LOW, 9), (BACK, 0))}
    stream.host({**periods, "host.quota_cores": stairs((0, 6))}, source=CGROUP)
    said = verdict(stream)
    assert (said.cause, said.detail) == ("host_starvation", "cgroup throttling")
    assert "by its CPU quota of 6 cores 9" in told(said)


def test_throttling_without_any_thread_seen_is_not_sure() -> None:
    stream = Stream(22.0).device(quiet_between(1.0, 0.1))
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 100), (BACK, 800))))
    said = verdict(stream.host({"host.throttled": total((0, 0), (LOW, 0.8), (BACK, 0))}, source=CGROUP))
    assert (said.detail, said.confidence) == ("cgroup throttling", "medium")
    assert said.unseen[0].startswith("threads not seen")


@pytest.mark.parametrize("share", [0.5, 0.6])
def test_a_stolen_core_looks_like_work_and_is_none(share: float) -> None:
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(1.0))
    said = verdict(machine(stream, 4, steal=meanwhile(share, 0.02)))
    assert (said.cause, said.detail) == ("host_starvation", "host steal")
    assert "before: 2%" in told(said)


def test_a_hypervisor_that_steals_as_ever_explains_nothing_new() -> None:
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(1.0))
    assert verdict(machine(stream, 4, steal=stairs((0, 0.3)))).detail == "scheduling"


def test_a_slow_core_is_a_fact_and_never_a_cause() -> None:
    clocks = {
        "host.core_frequency{pid=200}": stairs((0, 1.2e9)),
        "host.core_frequency_max{pid=200}": stairs((0, 3.8e9)),
    }
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(1.0))
    said = verdict(stream.host(clocks))
    assert said.detail == "scheduling"
    assert "its core ran at 1.2 of 3.8 GHz" in told(said)
    assert verdict(standstill("idle").host(clocks)).cause == "unknown"


def test_pressure_of_the_servers_group_stands_beside_contention() -> None:
    stream = starved().host({"host.group_pressure{resource=cpu}": total((0, 0), (LOW, 0.8), (BACK, 0))}, source=CGROUP)
    said = verdict(stream)
    assert said.detail == "CPU contention"
    assert "some thread of its cgroup waited for a core" in told(said)


@pytest.mark.parametrize(("is_cpu", "sure"), [(False, False), (True, True)])
def test_a_thread_that_wants_a_core_beside_a_busy_gpu_holds_little_up(is_cpu: bool, sure: bool) -> None:
    # On a CPU server the threads that want a core are the device.
    wants = ThreadView("engine", "engine", True, on_cpu=0.3, wants_cpu=0.7)
    gauge = Gauge(8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
    found = host_starvation(
        Evidence(
            "progress", "vllm", 10.0, 13.0, 1.0, 1.0, is_cpu=is_cpu, running=gauge, waiting=gauge, threads=(wants,)
        )
    )
    assert found.detail == "CPU contention"
    assert (found.score >= STRONG) is sure
    assert ("the device was busy 100%" in found.against) is not sure


# Compilers that live shorter than a reading.


def children(rate: float, before: float = 0.0) -> Curve:
    return total((0, before), (LOW, rate), (BACK, before))


@pytest.mark.parametrize(
    ("rate", "before", "cause"), [(1.5, 0.0, "compiling"), (0.2, 0.0, "unknown"), (1.5, 1.5, "unknown")]
)
def test_children_that_ended_are_a_guess_at_compilers(rate: float, before: float, cause: str) -> None:
    # Case 34, with compilers too short for a look once a second.
    said = verdict(standstill("idle").host({"host.children_seconds{pid=200}": children(rate, before)}))
    assert said.cause == cause
    assert cause == "unknown" or said.confidence == "low"


def test_compile_frames_and_children_that_ended_are_sure() -> None:
    stream = standstill("compile").host({"host.children_seconds{pid=200}": children(1.5)})
    said = verdict(stream)
    assert (said.cause, said.detail) == ("compiling", "JIT")
    assert "short-lived compilers" in told(said)
