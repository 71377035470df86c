"""What a thread's frames and its run state say together: work, a lock, a core that is missing, a sleep, the device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Source
from gaptop.valleys.evidence import Evidence, Gauge, Held, ThreadView
from gaptop.valleys.model import Verdict
from gaptop.valleys.verdict import judge

from .valley_host import lock_holders, meanwhile, run_states, standstill
from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, WORKER, Stream, only, stairs, total, valleys_of


def verdict(stream: Stream, kind: str = "utilisation") -> Verdict:
    return only(valleys_of(stream), kind=kind).verdict


def told(said: Verdict) -> str:
    return "; ".join(fact.says for fact in said.evidence)


@pytest.mark.parametrize("activity", ["schedule", "detokenize", "gc"])
def test_a_thread_that_sleeps_on_a_futex_in_its_work_waits_for_a_lock(activity: str) -> None:
    # Case 7: one interpreter's lock for scheduling and for what comes after it.
    stream = run_states(standstill(activity), ENGINE, "engine", running=meanwhile(0.1, 0.3), futex=meanwhile(0.9, 0.7))
    said = verdict(stream)
    assert (said.cause, said.detail) == ("host_starvation", "lock or GIL wait")
    assert "waited for a lock 90% of the time" in told(said)
    assert said.unseen[0] == "who held the interpreter's lock was not asked (--gil tells it)"
    assert said.confidence == "medium"
    assert "More cores will not help" in said.advice


def test_who_held_the_lock_meanwhile_is_named() -> None:
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(0.1), futex=meanwhile(0.9))
    stream.stacks(ENGINE, "engine", engine("detokenize", "idle"), tid=ENGINE + 7, name="engine")
    said = verdict(lock_holders(stream, ENGINE, {ENGINE: 0.1, ENGINE + 7: 0.85}))
    assert said.detail.startswith("lock or GIL wait: ")
    assert "held the GIL 85% (detokenise)" in told(said)
    assert not any("interpreter" in text for text in said.unseen)


def test_a_lock_while_nobody_held_the_interpreters_is_another_one() -> None:
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(0.1), futex=meanwhile(0.9))
    said = verdict(lock_holders(stream, ENGINE, {ENGINE: 0.05, ENGINE + 7: 0.02}))
    assert said.detail == "lock or GIL wait: not the GIL"
    assert "py-spy dump" in said.advice


def test_a_lock_that_nobody_seems_to_hold_over_a_longer_window_may_still_be_the_interpreters() -> None:
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(0.1), futex=meanwhile(0.9))
    said = verdict(lock_holders(stream, ENGINE, {ENGINE: 0.05, ENGINE + 7: 0.2}, window=5.0))
    assert said.detail == "lock or GIL wait"
    assert said.unseen[0] == "who held the GIL is only told over 5 s at a time"


def test_a_verdict_waits_for_those_who_tell_who_held_the_lock() -> None:
    # Told four seconds late, after stacks and run states.
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(0.1), futex=meanwhile(0.9))
    said = verdict(lock_holders(stream, ENGINE, {ENGINE + 7: 0.8}, window=5.0, late=4.0))
    assert said.detail.endswith("held the GIL")


def test_a_holder_of_another_process_is_nobodys_witness() -> None:
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(0.1), futex=meanwhile(0.9))
    assert verdict(lock_holders(stream, API, {API: 0.9})).detail == "lock or GIL wait"


@pytest.mark.parametrize("activity", ["idle", "poll", "await_requests", "device_sync", "worker_wait"])
def test_a_futex_under_a_wait_is_no_lock(activity: str) -> None:
    stream = run_states(standstill(activity), ENGINE, "engine", running=meanwhile(0.0), futex=meanwhile(1.0))
    said = verdict(stream)
    assert "lock" not in said.detail
    assert said.cause == {"device_sync": "synchronisation", "await_requests": "no_demand"}.get(activity, "unknown")


def test_work_and_a_queue_wait_in_turn_are_no_lock() -> None:
    # The same 40 % asleep on a futex, and a wait frame for as long: nothing says that work ever slept.
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "schedule" if t % 0.25 < 0.15 else "idle")
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, 0.6)), futex=stairs((0, 0.4))))
    assert (said.cause, said.detail) == ("host_starvation", "scheduling")
    assert "lock" not in told(said)


@pytest.mark.parametrize(("error", "lock"), [(0.0, True), (0.09, False)])
def test_stacks_that_were_looked_at_too_seldom_prove_no_lock(error: float, lock: bool) -> None:
    # Each window of 250 ms caught the one or the other frame of a thread that changes far faster.
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "idle" if int(t * 4) % 3 == 2 else "schedule")
    entity = {"pid": ENGINE, "role": "engine", "name": "engine", "critical_tid": ENGINE, "threads": []}
    stream.add(0.01, Source(0.01, f"threads/{ENGINE}", "host.threads_pyspy", "process", entity, [], 2.0, error=error))

    # Never twice the same share, as measured ones are: equal neighbours are kept as one long window.
    def half(t: float) -> float:
        return 0.5 + 0.001 * (int(t * 4) % 2)

    said = verdict(run_states(stream, ENGINE, "engine", running=half, futex=lambda t: 1.0 - half(t)))
    assert said.cause == "host_starvation"
    (share,) = [fact.value for fact in said.evidence if fact.signal == "host.blocked"] or [0.0]
    assert (share is not None and share > 0.25) is lock


@pytest.mark.parametrize("asleep", ["poll", "pipe", "sleep", "other", "unknown"])
def test_frames_in_which_the_thread_sleeps_on_no_lock_are_no_work(asleep: str) -> None:
    stream = run_states(standstill("serialize"), ENGINE, "engine", running=meanwhile(0.0), **{asleep: meanwhile(1.0)})
    said = verdict(stream)
    assert said.cause == "unknown"
    (because,) = (item.because for item in said.excluded if item.cause == "host_starvation")
    assert because.endswith(f"asleep in its frames 100% ({asleep})")


def test_a_pipe_under_the_wait_for_a_worker_says_nothing_but_that() -> None:
    stream = standstill("worker_wait").stacks(WORKER, "worker", engine("prepare_batch"))
    run_states(stream, WORKER, "worker", running=meanwhile(1.0), poll=meanwhile(0.0))
    said = verdict(run_states(stream, ENGINE, "engine", running=meanwhile(0.0), pipe=meanwhile(1.0)))
    assert (said.cause, said.detail) == ("host_starvation", "batch preparation")


@pytest.mark.parametrize(("running", "futex"), [(1.0, 0.0), (0.0, 1.0)])
def test_a_sync_is_the_devices_time_whether_it_spins_or_sleeps(running: float, futex: float) -> None:
    # Case 42: a core at 100 % in a stream's synchronise while the GPU works.
    stream = run_states(standstill("device_sync"), ENGINE, "engine", running=meanwhile(running), futex=meanwhile(futex))
    assert (verdict(stream).cause, verdict(stream).detail) == ("synchronisation", "device sync")


def test_a_spin_of_the_worker_is_a_wait_on_a_core_and_no_work() -> None:
    stream = standstill("schedule").stacks(WORKER, "worker", engine("poll"))
    run_states(stream, WORKER, "worker", running=stairs((0, 1.0)))
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, 1.0))))
    assert (said.cause, said.detail, said.confidence) == ("host_starvation", "scheduling", "high")


def test_a_thread_that_wants_a_core_in_every_frame_is_contended_and_not_at_work() -> None:
    # A burner on the engine's core: py-spy sees nothing but scheduling.
    stream = run_states(standstill("schedule"), ENGINE, "engine", running=meanwhile(0.45), wants=meanwhile(0.55))
    assert (verdict(stream).cause, verdict(stream).detail) == ("host_starvation", "CPU contention")


def test_a_sync_whose_thread_only_wants_a_core_is_contention() -> None:
    stream = run_states(standstill("device_sync"), ENGINE, "engine", running=meanwhile(0.1), wants=meanwhile(0.9))
    assert (verdict(stream).cause, verdict(stream).detail) == ("host_starvation", "CPU contention")


@pytest.mark.parametrize(("computed", "cause"), [(0.7, "host_starvation"), (0.3, "unknown")])
def test_unrecognised_code_works_where_it_must_have_been_on_a_core(computed: float, cause: str) -> None:
    # 72 % on a core, under the share at which a whole thread counts as computing: the frames say when.
    seen = ThreadView("engine", "engine", True, {"other": 0.72, "idle": 0.28}, 0.72, held=Held(computed=computed))
    gauge = Gauge(8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
    evidence = Evidence(
        "utilisation", "vllm", 10.0, 13.0, 0.0, 1.0, running=gauge, waiting=replace(gauge, mean=0.0), decode_rate=0.0,
        decode_before=800.0, threads=(seen,), stacks_seen=True, states_seen=True,
    )  # fmt: skip
    assert judge(evidence)[0].cause == cause


@pytest.mark.parametrize("activity", ["load", "schedule"])
def test_storage_is_what_the_thread_was_blocked_on(activity: str) -> None:
    stream = run_states(standstill(activity), ENGINE, "engine", running=meanwhile(0.2), disk=meanwhile(0.8))
    said = verdict(stream)
    assert said.cause == "external_wait"
    assert activity == "load" or (said.detail, said.confidence) == ("storage", "high")


def test_a_driver_that_sleeps_like_a_disk_inside_a_sync_is_no_storage() -> None:
    def syncs(t: float) -> bool:
        return t % 1.0 < 0.5

    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "device_sync" if syncs(t) else "idle")
    disk, poll = (lambda t: float(syncs(t))), (lambda t: float(not syncs(t)))
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, 0.0)), disk=disk, poll=poll))
    assert "external_wait" not in {said.cause, *(part.cause for part in said.segments)}


def test_a_front_end_that_sleeps_in_frames_of_http_is_idle() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(API, "api", lambda t: "http").stacks(ENGINE, "engine", engine("await_requests"))
    said = verdict(run_states(stream, API, "api", running=stairs((0, 0.02)), poll=stairs((0, 0.98))))
    assert said.cause == "no_demand"


def test_a_front_end_that_waits_for_a_lock_in_its_tokeniser_holds_requests_back() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(API, "api", engine("tokenize", "idle")).stacks(ENGINE, "engine", engine("await_requests"))
    said = verdict(run_states(stream, API, "api", running=stairs((0, 0.1)), futex=stairs((0, 0.9))))
    assert (said.cause, said.detail) == ("host_starvation", "front end (tokenise)")


# One of the two sources is missing: the verdict says what it would have told, and is at most medium.


def test_stacks_alone_do_not_tell_work_from_waiting_for_a_lock() -> None:
    said = verdict(standstill("schedule"))
    assert (said.cause, said.detail, said.confidence) == ("host_starvation", "scheduling", "medium")
    assert said.unseen[0] == "run states not seen: whether it ran, or waited for a core or a lock"


@pytest.mark.parametrize(
    ("states", "cause", "lacks"),
    [
        ({"running": 0.2, "wants": 0.8}, "host_starvation", "what the thread wanted the core for"),
        ({"running": 0.2, "disk": 0.8}, "external_wait", "what it read"),
    ],
)
def test_run_states_alone_are_never_sure_and_say_what_stacks_would_add(
    states: dict[str, float], cause: str, lacks: str
) -> None:
    # A llama-server has no Python stacks at all.
    curves = {"sched.running": stairs((0, 4)), "sched.limit": stairs((0, 4)), "sched.waiting": stairs((0, 0))}
    curves |= {"tokens.decode": total((0, 200), (LOW, 0), (BACK, 200))}
    stream = Stream(END, engine="llamacpp").device(quiet_between(1.0)).metrics(curves)
    said = verdict(run_states(stream, ENGINE, "server", **{key: meanwhile(value) for key, value in states.items()}))
    assert (said.cause, said.confidence) == (cause, "medium")
    assert lacks in said.unseen[0]
