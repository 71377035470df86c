"""Public cases below NVML's resolution, and readings that are no valley: a plateau or nothing, and no cause."""

from __future__ import annotations

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather import Stretch, gather
from gaptop.valleys.model import Assessment
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import scopes
from gaptop.valleys.verdict import judge

from .valley_server import server
from .valley_streams import API, ENGINE, Curve, Stream, analyse, stairs, total

SECONDS = 30.0


def steady(busy: float, steps: float, running: float, *, devices: int = 1, engine: str = "vllm") -> Stream:
    stream = Stream(SECONDS, engine=engine)
    for index in range(devices):
        stream.device(stairs((0, busy)), source=f"nvml/GPU-{index}")
    rates = {"tokens__decode": total((0, steps * running)), "step__count": total((0, steps))}
    return stream.metrics(server(sched__running=stairs((0, running)), **rates))


def evidence(stream: Stream) -> tuple[Assessment, Evidence]:
    """The assessment, and what the rules would be asked about the plateau's time."""
    timeline, found = analyse(stream.lines())
    return found, _asked(timeline)


def _asked(timeline: Timeline) -> Evidence:
    (scope,) = scopes(timeline)
    sources = tuple(device.source for device in scope.devices)
    stretch = Stretch("utilisation", 5.0, 25.0, sources, None)
    return gather(timeline, scope, stretch, Reference(timeline, ((0.0, 5.0),)))


@pytest.mark.parametrize(
    ("busy", "steps", "running", "devices", "idle_ms"),
    [
        # 9: two milliseconds before each replay, four ranks, batch 64.
        (20.0 / 22.0, 1000.0 / 22.0, 64.0, 4, 2.0),
        # 7: 128 at a time, one core at 100 %, SM 60-75 %.
        (0.67, 20.0, 128.0, 1, 16.5),
        # 12: 166 tokens a second on a 5090 at 90 %.
        (0.90, 166.0, 1.0, 1, 0.6),
        # 6: 128 in parallel through the API server, about half.
        (0.50, 15.0, 128.0, 1, 33.3),
        # 36: layers on the host, 4.6 tokens a second at 15 %.
        (0.15, 4.6, 1.0, 1, 184.8),
        # 3: thread pools of all cores in every process, the generator's device at 73 %.
        (0.73, 10.0, 16.0, 1, 27.0),
    ],
)
def test_gaps_shorter_than_a_window_are_a_plateau_with_their_idle_time_a_step(
    busy: float, steps: float, running: float, devices: int, idle_ms: float
) -> None:
    _, found = analyse(steady(busy, steps, running, devices=devices).lines())
    assert found.valleys == ()
    assert len(found.plateaus) == devices
    for plateau in found.plateaus:
        assert plateau.busy_ratio == pytest.approx(busy, abs=0.006)
        assert plateau.idle_per_step_s == pytest.approx(idle_ms / 1000, rel=0.08)


def test_a_front_end_and_a_scheduler_that_share_a_process_are_host_work() -> None:
    # 5: HTTP 33 %, scheduling 29 % of the time of one thread; the device works for the rest.
    stream = steady(0.38, 40.0, 32.0)

    def does(t: float) -> str:
        part = t % 1.0
        return "http" if part < 0.33 else "schedule" if part < 0.62 else "device_sync"

    stream.stacks(ENGINE, "engine", does).stacks(API, "api", lambda t: "idle").states(
        ENGINE, "engine", stairs((0, 1.0))
    )
    found, asked = evidence(stream)
    assert found.valleys == ()
    best = judge(asked)[0]
    assert (best.cause, best.detail) == ("host_starvation", "front end (HTTP)")


def test_a_core_that_spins_in_a_sync_while_the_device_works_is_nobodys_fault() -> None:
    # 42: a whole core in stream synchronise.
    stream = steady(1.0, 50.0, 8.0).stacks(ENGINE, "engine", lambda t: "device_sync")
    found, asked = evidence(stream.states(ENGINE, "engine", stairs((0, 1.0))))
    assert (found.valleys, found.plateaus) == ((), ())
    assert judge(asked)[0].cause == "unknown"


def test_a_core_at_full_load_beside_a_plateau_proves_nothing_without_stacks() -> None:
    # 7 and 12: one core at 100 %, and nobody saw what it did.
    found, asked = evidence(steady(0.67, 20.0, 128.0).states(ENGINE, "engine", stairs((0, 1.0))))
    assert found.valleys == ()
    assert judge(asked)[0].cause == "unknown"


def test_a_clock_fifteen_per_cent_lower_is_no_valley() -> None:
    # 37: a B200 at 1 580 of 1 965 MHz.
    clock = {"device.clock_sm": stairs((0, 1.965e9), (15, 1.58e9))}
    stream = Stream(40).device(stairs((0, 1.0)), more=clock)
    stream.metrics(server(tokens__decode=total((0, 800), (15, 680)), step__count=total((0, 100), (15, 85))))
    assert analyse(stream.lines())[1].valleys == ()


def test_five_per_cent_fewer_tokens_are_no_valley() -> None:
    # 17: 11 582 tokens a second where a watermark makes it 12 134.
    curves = server(tokens__decode=total((0, 12134), (15, 11582)), kv__used=stairs((0, 0.98)))
    assert analyse(Stream(40).device(stairs((0, 1.0))).metrics(curves).lines())[1].valleys == ()


def test_gauges_that_read_zero_between_short_requests_make_no_valley() -> None:
    # 44: what runs is read at an instant; tokens come all the time.
    sampled: Curve = lambda t: float(int(t * 2) % 3 == 0)  # noqa: E731
    stream = Stream(30).device(stairs((0, 0.8))).metrics(server(sched__running=sampled))
    assert analyse(stream.lines())[1].valleys == ()


def test_a_resident_process_without_a_request_is_phantom_busy_and_no_stall() -> None:
    # 43: 100 % at 44 W, 17 W truly idle.
    stream = Stream(40).device(stairs((0, 1.0)), power=stairs((0, 300), (12, 44)))
    stopped = {name: total((0, rate), (12, 0)) for name, rate in (("tokens__decode", 800), ("step__count", 100))}
    stream.metrics(server(sched__running=stairs((0, 8), (12, 0)), **stopped))
    _, found = analyse(stream.lines())
    assert found.valleys == ()
    assert any("phantom busy" in hint and "44 W" in hint for hint in found.hints)


def test_a_utilisation_that_decays_over_minutes_is_no_valley() -> None:
    # vllm#2556 and others: 60-70 -> 50-60 %, in fifteen hours there.
    stream = Stream(240).device(lambda t: 0.65 - 0.10 * t / 240).metrics(server(), every=1.0)
    assert analyse(stream.lines())[1].valleys == ()
