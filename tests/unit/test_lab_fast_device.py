"""The fast driver's GPU: windows as a boxcar gives them, power that settles, limits, and what our own call does."""

from __future__ import annotations

import pytest

from gaptop.lab.core.events import DeviceSpan, DeviceWork, Limit
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.device import SimulatedDevice, whole
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.nvml import uuid
from gaptop.lab.fast.ring import JITTER
from gaptop.lab.fast.view import View
from gaptop.lab.personality import COLLECTIVE_WATTS, DECODE_WATTS, IDLE_WATTS, PREFILL_WATTS
from gaptop.recording.lines import Event, Source
from gaptop_collectors.devices.nvml_info import OFFERED
from gaptop_collectors.signals import split_key

from .lab_fast import batches, column, made, sources

SOURCES = [f"nvml/{uuid(index)}" for index in range(2)]


def step(start: float, end: float, compute: float = 0.0, kind: DeviceWork = "step", clock: float = 1.0) -> DeviceSpan:
    return DeviceSpan(start, end, 1, 0, 0, 1, compute, 0, kind, clock)


def test_a_window_is_the_share_of_time_in_which_something_ran() -> None:
    device = SimulatedDevice(0.2, 0.2, 0.0)
    device.add(step(0.05, 0.15))
    device.add(step(0.35, 0.65))
    assert [round(window.busy, 9) for window in device.windows(0.81)] == [0.5, 0.25, 1.0, 0.25]


def test_two_at_once_are_busy_once() -> None:
    device = SimulatedDevice(0.2, 0.2, 0.0)
    device.add(step(0.0, 0.1))
    device.add(step(0.05, 0.12, kind="foreign"))
    assert [round(window.busy, 9) for window in device.windows(0.2)] == [0.6]


@pytest.mark.parametrize(("share", "nearest", "down"), [(0.996, 1.0, 0.99), (0.504, 0.5, 0.5), (1.0, 1.0, 1.0)])
def test_whole_per_cents(share: float, nearest: float, down: float) -> None:
    assert (whole(share, "nearest"), whole(share, "down")) == (nearest, down)


@pytest.mark.parametrize(
    ("span", "watts"),
    [
        (step(0.0, 5.0), DECODE_WATTS),
        (step(0.0, 5.0, 1.0), PREFILL_WATTS),
        (step(0.0, 5.0, kind="collective"), COLLECTIVE_WATTS),
        (step(0.0, 5.0, clock=0.5), IDLE_WATTS + (DECODE_WATTS - IDLE_WATTS) / 4),
    ],
)
def test_power_settles_at_what_the_work_takes(span: DeviceSpan, watts: float) -> None:
    device = SimulatedDevice(0.2, 0.2, 0.0)
    device.add(span)
    device.read(0.15)
    assert device.power == pytest.approx(watts + (IDLE_WATTS - watts) * 0.3679, rel=1e-3)
    device.read(5.0)
    assert device.power == pytest.approx(watts)
    assert device.energy == pytest.approx(5.0 * watts)
    device.read(7.0)
    assert device.power == pytest.approx(IDLE_WATTS, rel=1e-4)
    assert device.energy == pytest.approx(5.0 * watts + 2.0 * IDLE_WATTS)


def test_reading_power_often_changes_nothing() -> None:
    often, once = SimulatedDevice(0.2, 0.2, 0.0), SimulatedDevice(0.2, 0.2, 0.0)
    for device in (often, once):
        for index in range(30):
            device.add(step(index * 0.1, index * 0.1 + 0.06, 0.3))
    for index in range(1, 100):
        often.read(index * 0.03)
    for device in (often, once):
        device.read(3.0)
    assert (often.power, often.energy) == pytest.approx((once.power, once.energy))


def test_a_limit_moves_its_counter_its_bit_and_the_clock() -> None:
    device = SimulatedDevice(0.2, 0.2, 0.0)
    device.limit(Limit(1.0, 3.0, 0, "power"))
    device.add(step(0.0, 1.0))
    device.add(step(1.0, 4.0, clock=0.4))
    device.read(0.5)
    before = device.clock_hertz
    device.read(2.5)
    assert device.limited["sw_power_cap"] == pytest.approx(1.5)
    assert device.reasons & 0x4
    assert device.clock_hertz == pytest.approx(0.4 * before)
    device.read(3.5)
    assert device.limited["sw_power_cap"] == pytest.approx(2.0)
    assert not device.reasons & 0x4


@pytest.mark.parametrize("window", [1 / 6, 0.2, 0.5])
def test_the_source_learns_its_window_from_the_ring(window: float) -> None:
    lines = made("steady", 12.0, View(window_s=window))
    told = [line for line in lines if isinstance(line, Source) and line.kind == "device"]
    assert [(line.window, line.window_measured) for line in told] == [(0.2, False), (round(window, 3), True)]
    stamps = [t for batch in batches(lines, "nvml/") if "device.busy" in batch.values for t in batch.t]
    spacings = [after - before for before, after in zip(stamps, stamps[1:], strict=False)]
    assert all(spacing == pytest.approx(window, abs=2 * JITTER + 1e-5) for spacing in spacings)


def test_it_describes_itself_as_nvml_does() -> None:
    for view in (View(), View(gpm=True), View(power=False)):
        line = next(line for line in sources(made("steady", 12.0, view)).values() if line.kind == "device")
        assert set(line.signals) | set(line.unsupported) == set(OFFERED)
        found = batches(made("steady", 12.0, view), "nvml/")
        delivered = {split_key(key)[0] for batch in found for key in batch.values}
        assert delivered == set(line.signals)
        assert line.rounding == ("nearest" if view.gpm else "percent")


def test_a_co_tenant_is_counted_and_draws_power() -> None:
    lines = made("co_tenant", 12.0)
    assert set(column(batches(lines, "nvml/"), "device.foreign_processes")) == {0.0, 1.0}


def test_our_own_call_holds_up_the_readings_and_is_told() -> None:
    lines = made("steady", 8.0, View(own_calls=((2.0, 3.4),)))
    key = "device.own_calls"
    own = [(batch.t[0], batch.values[key][0]) for batch in batches(lines, "nvml/") if key in batch.values]
    assert not [t for t, _ in own if 2.0 <= t < 3.4]
    before, after = [next(value for t, value in reversed(own) if t < bound) for bound in (2.0, 3.5)]
    assert before is not None
    assert after is not None
    assert 1.39 < after - before < 1.42
    note = next(line for line in lines if isinstance(line, Event))
    assert (note.what, note.t, note.data["seconds"]) == ("our_slow_call", 3.4, 1.4)
    windows = [batch for batch in batches(lines, "nvml/") if "device.busy" in batch.values]
    assert max(len(batch.t) for batch in windows) >= 7  # the ring held them


def test_a_straggler_lets_its_peers_spin_at_low_power() -> None:
    clients = Clients(count=12, start=0.0, until=60.0, prompt=(60, 100), output=(40, 70))
    late = Fault("straggler", 5.0, 1.2, rank=0)
    scenario = Scenario("late", "", (), 60.0, (clients,), (late,), engine=EngineConfig(tensor_parallel_size=2))
    lines = tuple(Fast(scenario, 1, 9.0).lines())
    spin = [batch for batch in batches(lines, "nvml/") if 5.8 < batch.t[0] < 6.1]
    power = {source: column((batch for batch in spin if batch.src == source), "device.power") for source in SOURCES}
    late_one, peer = (values[0] for values in power.values())
    assert late_one < 40.0
    assert 90.0 < peer < 110.0
