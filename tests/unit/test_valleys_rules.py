"""What a rule may not conclude: of engine and worker, old gauges, open connections, free slots, compilers."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Verdict

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, WORKER, Curve, Stream, only, stairs, total, valleys_of


def held(activity: str, **changes: Curve) -> Stream:
    """A server whose tokens stop for three seconds while its device idles and its engine's thread does ``activity``."""
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**{**stopped_progress(), **changes}))
    return stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine(activity))


def verdict(stream: Stream, kind: str = "utilisation") -> Verdict:
    return only(valleys_of(stream), kind=kind).verdict


# The engine and its workers.


@pytest.mark.parametrize("waiting", ["worker_wait", "device_sync"])
@pytest.mark.parametrize("share", [0.65, 0.95])
def test_an_engine_that_waits_for_its_worker_proves_no_synchronisation(waiting: str, share: float) -> None:
    stream = held(waiting)
    stream.stacks(
        WORKER, "worker", lambda t: "prepare_batch" if LOW <= t < BACK and t * 20 % 20 < 20 * share else "idle"
    )
    said = verdict(stream)
    assert (said.cause, said.detail) == ("host_starvation", "batch preparation")
    assert said.confidence != "low"
    assert {part.cause for part in said.segments} == {"host_starvation"}


def test_a_worker_that_waits_for_the_device_is_synchronisation() -> None:
    stream = held("worker_wait").stacks(WORKER, "worker", engine("device_sync"))
    assert verdict(stream).cause == "synchronisation"


def test_an_engine_that_waits_for_a_worker_nobody_saw_proves_nothing() -> None:
    said = verdict(held("worker_wait"))
    assert said.cause == "unknown"
    assert said.unseen[0] == "the worker's threads not seen: the engine waited for it"
    assert not {"host_starvation", "synchronisation", "compiling"} & {item.cause for item in said.excluded}


def test_a_rank_that_comes_late_to_a_collective_is_named_with_what_it_does() -> None:
    stream = held("worker_wait").stacks(WORKER, "worker", engine("gc")).stacks(301, "worker", engine("collective"))
    stream.states(WORKER, "worker", stairs((0, 1.0)))
    said = verdict(stream)
    assert (said.cause, said.confidence) == ("synchronisation", "high")
    assert said.detail == "straggler: the rank of pid 300 is late: GC"


# Gauges as old as the last step.


@pytest.mark.parametrize("worker", ["idle", "poll"])
def test_an_engine_in_code_that_no_rule_knows_works_and_its_gauges_are_not_at_fault(worker: str) -> None:
    stream = held("other").stacks(WORKER, "worker", engine(worker, "launch"))
    stream.states(ENGINE, "engine", stairs((0, 0.2), (LOW, 1.0), (BACK, 0.2)))
    said = verdict(stream)
    assert (said.cause, said.detail) == ("host_starvation", "unrecognised code: other (a.py)")
    assert "rule in your own activities file" in said.advice


def test_unknown_code_without_run_states_is_only_a_guess() -> None:
    said = verdict(held("other"))
    assert (said.cause, said.confidence) == ("host_starvation", "low")
    assert said.doubt.startswith("run states not seen")


@pytest.mark.parametrize("activity", ["idle", "poll"])
def test_a_wait_that_does_not_tell_for_what_makes_no_gauge_stale(activity: str) -> None:
    stream = held(activity).stacks(WORKER, "worker", engine("idle", "launch"))
    assert verdict(stream).cause == "unknown"


def test_old_gauges_beside_an_idle_device_are_no_demand() -> None:
    # Case 44: after a mass abort the gauges stand until the next step.
    stream = held("await_requests", kv__used=stairs((0, 0.99)), sched__waiting=stairs((0, 4)))
    said = verdict(stream)
    assert (said.cause, said.confidence) == ("no_demand", "high")
    assert said.evidence[1].says == "running 8 as of its last step"
    assert "at fault" not in said.advice


def test_an_engine_that_awaits_requests_while_some_wait_has_not_proved_an_empty_queue() -> None:
    stream = held("await_requests", sched__running=quiet_between(8), sched__waiting=quiet_between(0, 6))
    assert verdict(stream).cause == "admission_stall"


def test_old_gauges_beside_a_busy_device_are_the_readings_fault() -> None:
    stream = Stream(40).device(stairs((0, 1.0)), power=stairs((0, 300), (12, 250), (30, 300)))
    stopped = {
        "tokens__decode": total((0, 800), (12, 0), (30, 800)),
        "step__count": total((0, 100), (12, 0), (30, 100)),
    }
    stream.metrics(server(**stopped))
    stream.stacks(ENGINE, "engine", lambda t: "await_requests" if 12 <= t < 30 else "device_sync")
    said = verdict(stream, "progress")
    assert (said.cause, said.detail) == ("artefact", "stale gauge")


@pytest.mark.parametrize("gap", [0.3, 0.4, 0.6])
@pytest.mark.parametrize("offset", [0.1, 0.35])
def test_short_gaps_without_requests_are_proved_by_the_engines_own_wait(gap: float, offset: float) -> None:
    def off(t: float) -> bool:
        return t > 6 and 0.13 <= t % 2.0 < 0.13 + gap

    def counted(rate: float) -> Curve:
        return lambda t: rate * sum(not off((i + 0.5) / 100) for i in range(int(t * 100))) / 100

    stream = Stream(14).device(lambda t: 0.0 if off(t) else 1.0)
    curves = server(tokens__decode=counted(800), step__count=counted(100))
    stream.metrics(curves | {"sched.running": lambda t: 0.0 if off(t) else 8.0}, offset=offset)
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "await_requests" if off(t) else "device_sync")
    found = valleys_of(stream)
    assert len(found) >= 3
    assert {item.verdict.cause for item in found} == {"no_demand"}
    assert {item.tokens_lost for item in found} == {0.0}


def test_a_front_end_that_works_while_the_engine_awaits_requests_holds_them_back() -> None:
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(API, "api", engine("tokenize", "idle")).stacks(ENGINE, "engine", engine("await_requests"))
    assert (verdict(stream).cause, verdict(stream).detail) == ("host_starvation", "front end (tokenise)")


def test_an_engine_whose_statistics_are_off_still_shows_an_empty_queue() -> None:
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics({"latency.scrape": stairs((0, 0.005)), "sched.http_requests": total((0, 10), (LOW, 0), (BACK, 10))})
    stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("await_requests"))
    assert (verdict(stream).cause, verdict(stream).confidence) == ("no_demand", "high")


def test_a_first_step_in_the_worker_is_not_no_demand() -> None:
    stream = held("worker_wait", sched__running=quiet_between(8)).stacks(WORKER, "worker", engine("prepare_batch"))
    assert verdict(stream).cause == "host_starvation"


# Connections, slots, compilers.


@pytest.mark.parametrize(
    ("before", "now", "confidence"), [(8, 50, "medium"), (8, 8, "medium"), (8, 0, "high"), (8, 1, "high")]
)
def test_open_connections_keep_no_demand_from_being_sure(before: int, now: int, confidence: str) -> None:
    stream = held("idle", sched__running=quiet_between(8))
    stream.host({"host.connections": stairs((0, before), (LOW, now), (BACK, before))})
    said = verdict(stream)
    assert (said.cause, said.confidence) == ("no_demand", confidence)
    told = [text for text in said.unseen if text.startswith(f"{now} connections are open: keep-alive, or")]
    assert bool(told) == (confidence == "medium")


def test_counted_requests_outweigh_open_connections() -> None:
    stream = held("idle", sched__running=quiet_between(8), sched__in_flight=quiet_between(8))
    assert verdict(stream.host({"host.connections": stairs((0, 8))})).confidence == "high"


@pytest.mark.parametrize(("slots", "cause"), [(4.0, "no_demand"), (None, "unknown")])
def test_a_free_slot_says_that_nobody_waits_for_one(slots: float | None, cause: str) -> None:
    curves: dict[str, Curve] = {"sched.running": quiet_between(4), "slots.prefilling": stairs((0, 0))}
    curves |= {"tokens.decode": total((0, 200), (LOW, 0), (BACK, 200))}
    curves |= {} if slots is None else {"sched.limit": stairs((0, slots))}
    said = verdict(Stream(END, engine="llamacpp").device(quiet_between(1.0)).metrics(curves))
    assert said.cause == cause
    assert any("4 of 4 slots were free" in fact.says for fact in said.evidence) == (slots is not None)


def test_full_slots_leave_the_queue_unseen() -> None:
    curves: dict[str, Curve] = {"sched.running": stairs((0, 4)), "sched.limit": stairs((0, 4))}
    curves |= {"tokens.decode": total((0, 200), (LOW, 0), (BACK, 200))}
    said = verdict(Stream(END, engine="llamacpp").device(quiet_between(1.0)).metrics(curves))
    assert {link.link: link.state for link in said.chain}["queue"] == "not_seen"


@pytest.mark.parametrize(
    ("activity", "cause"), [("idle", "compiling"), ("compile", "compiling"), ("schedule", "host_starvation")]
)
def test_a_compiler_beside_threads_that_do_not_compile_is_only_possible(activity: str, cause: str) -> None:
    stream = held(activity).states(ENGINE, "engine", stairs((0, 1.0)))
    said = verdict(stream.host({"host.compilers": stairs((0, 0), (LOW - 1, 1))}))
    assert said.cause == cause
    assert said.confidence == ("low" if activity == "idle" else "high")


def test_a_compiler_that_ran_before_as_well_explains_little() -> None:
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    said = verdict(stream.host({"host.compilers": stairs((0, 1))}))
    assert (said.cause, said.confidence) == ("compiling", "low")


def test_a_compiler_beside_steps_that_go_on_is_no_compiling() -> None:
    stream = Stream(END).device(stairs((0, 1.0))).metrics(server(**stopped_progress()))
    said = verdict(stream.host({"host.compilers": stairs((0, 0), (LOW - 1, 1), (BACK, 0))}), "progress")
    assert said.cause != "compiling"
    (because,) = [item.because for item in said.excluded if item.cause == "compiling"]
    assert "the device was busy 100% beside the compiler" in because
