"""Demand that no gauge shows, and idle engines that look busy: what may be called no_demand, and what may not."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Verdict

from .valley_host import meanwhile, run_states, standstill
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, WORKER, Stream, only, stairs, total, valleys_of


def verdict(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


def blind() -> Stream:
    """A server whose engine runs nothing between LOW and BACK; nobody sees a thread."""
    stream = Stream(END).device(quiet_between(1.0))
    return stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))


def idle(activity: str) -> Stream:
    """The same with an idle front end and the engine's own stacks."""
    return standstill(activity, sched__running=quiet_between(8))


@pytest.mark.parametrize("signal", ["host.unread", "host.unaccepted"])
@pytest.mark.parametrize("front", ["idle", None])
def test_requests_that_the_front_end_has_not_read_are_hidden_demand(signal: str, front: str | None) -> None:
    # Case 13: large images are resized on the front end's loop; waiting = 0, and the engine has nothing to do.
    stream = blind() if front is None else idle("await_requests")
    said = verdict(stream.host({signal: stairs((0, 0), (LOW, 6), (BACK, 0))}))
    assert (said.cause, said.detail) == ("host_starvation", "front end")
    assert "connections not read yet" in "; ".join(fact.says for fact in said.evidence)
    (because,) = (item.because for item in said.excluded if item.cause == "no_demand")
    assert because.endswith("waited for the front end to read them")


@pytest.mark.parametrize(("connections", "cause"), [(8, "unknown"), (1, "unknown"), (0, "no_demand")])
def test_connections_beyond_the_engines_requests_are_never_no_demand_unseen(connections: int, cause: str) -> None:
    said = verdict(blind().host({"host.connections": stairs((0, 8), (LOW - 1, connections))}))
    assert said.cause == cause
    if connections:
        assert said.runner_up is not None
        assert said.runner_up[0] == "host_starvation"
        (because,) = (item.because for item in said.excluded if item.cause == "no_demand")
        assert because.startswith(f"{connections} connections were open: keep-alive, or")


def test_connections_that_are_read_and_a_front_end_that_idles_are_keep_alive() -> None:
    stream = idle("idle").host({"host.connections": stairs((0, 8)), "host.unread": stairs((0, 0))})
    said = verdict(stream)
    assert (said.cause, said.confidence) == ("no_demand", "medium")


# An idle engine is never a busy host.


@pytest.mark.parametrize("activity", ["poll", "idle", "await_requests", "schedule", "device_sync", "other", "launch"])
@pytest.mark.parametrize("running", [1.0, 0.0])
def test_an_engine_that_spins_with_nobody_connected_has_no_demand(activity: str, running: float) -> None:
    # Case 42: idle servers at 100 % of a core, 54 % of it in sched_yield.
    stream = idle(activity).host({"host.connections": stairs((0, 8), (LOW - 1, 0), (BACK, 8))})
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, running))))
    assert said.cause == "no_demand"
    assert "host_starvation" in {item.cause for item in said.excluded}


def test_a_first_step_with_a_client_that_waits_for_it_is_no_idle_engine() -> None:
    stream = idle("launch").host({"host.connections": stairs((0, 1))})
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, 1.0))))
    assert said.cause == "host_starvation"


def test_an_engine_without_connections_that_runs_requests_is_fed_from_inside() -> None:
    stream = standstill("schedule").host({"host.connections": stairs((0, 0))})
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, 1.0))))
    assert (said.cause, said.detail) == ("host_starvation", "scheduling")


@pytest.mark.parametrize("role", ["engine", "server"])
def test_a_core_at_full_load_without_requests_or_stacks_is_no_demand(role: str) -> None:
    stream = run_states(blind(), ENGINE, role, running=stairs((0, 1.0)))
    assert verdict(stream).cause == "no_demand"


def test_a_worker_that_spins_beside_an_engine_without_requests_is_no_demand() -> None:
    stream = idle("await_requests").stacks(WORKER, "worker", lambda t: "poll")
    run_states(stream, WORKER, "worker", running=stairs((0, 1.0)))
    said = verdict(run_states(stream, ENGINE, "engine", running=stairs((0, 0.0)), poll=stairs((0, 1.0))))
    assert (said.cause, said.confidence) == ("no_demand", "high")


def test_compute_threads_that_only_spin_are_no_demand_and_said_to_spin() -> None:
    # An idle llama-server whose OpenMP threads busy-wait: its CPU device reads idle, though its cores do not.
    curves = {"sched.running": quiet_between(4), "sched.limit": stairs((0, 4)), "sched.waiting": stairs((0, 0))}
    curves |= {"tokens.decode": total((0, 200), (LOW, 0), (BACK, 200))}
    stream = Stream(END, engine="llamacpp")
    stream.device(quiet_between(1.0), kind2="cpu", more={"device.spinning": meanwhile(0.9)}).metrics(curves)
    said = verdict(run_states(stream, ENGINE, "server", running=stairs((0, 1.0), (LOW, 0.02), (BACK, 1.0))))
    assert said.cause == "no_demand"
    assert "the compute threads only busy-waited, " in "; ".join(fact.says for fact in said.evidence)


def test_a_front_end_on_a_core_without_stacks_says_what_stacks_would_add() -> None:
    stream = run_states(blind(), API, "api", running=meanwhile(0.95, 0.1))
    said = verdict(stream)
    assert (said.cause, said.detail, said.confidence) == ("host_starvation", "front end", "medium")
    assert said.unseen[0] == "stacks not seen: work or busy-wait"


def seen_front(activity: str, on_core: float | None, connections: float) -> Verdict:
    """An engine without requests between LOW and BACK, a front end in ``activity`` meanwhile."""
    stream = Stream(END).device(quiet_between(1.0))
    stream.metrics(server(**{**stopped_progress(), "sched__running": quiet_between(8)}))
    stream.stacks(200, "engine", lambda t: "await_requests" if LOW <= t < BACK else "launch")
    stream.stacks(API, "api", lambda t: activity if LOW <= t < BACK else "idle")
    if on_core is not None:
        run_states(stream, API, "api", running=meanwhile(on_core, 0.1))
    return verdict(stream.host({"host.connections": stairs((0, connections)), "host.unread": stairs((0, 0))}))


def test_a_front_end_that_computes_in_unknown_code_holds_requests() -> None:
    said = seen_front("app_render", 0.95, 4)
    assert (said.cause, said.detail) == ("host_starvation", "front end: unrecognised code: app_render (a.py)")


def test_unknown_code_of_a_front_end_without_run_states_may_be_either() -> None:
    said = seen_front("app_render", None, 4)
    assert (said.cause, said.confidence) == ("host_starvation", "low")
    assert said.runner_up is not None
    assert said.runner_up[0] == "no_demand"
    assert said.unseen[0] == "run states not seen: unrecognised code may work or wait"
    assert "no_demand" not in {item.cause for item in said.excluded}


@pytest.mark.parametrize(
    ("activity", "on_core", "unseen"),
    [
        ("app_render", 0.1, "what front-end thread api did in code that no rule knows, 100% of the time (app_render"),
        ("idle", 0.9, "what kept front-end thread api on a core 9"),
    ],
)
def test_a_front_end_that_may_hold_requests_makes_no_demand_less_sure(
    activity: str, on_core: float, unseen: str
) -> None:
    said = seen_front(activity, on_core, 4)
    assert (said.cause, said.confidence) == ("no_demand", "medium")
    assert any(item.startswith(unseen) for item in said.unseen), said.unseen
    nobody = seen_front(activity, on_core, 0)
    assert (nobody.cause, nobody.confidence) == ("no_demand", "high")
