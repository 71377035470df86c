"""Two independent signals confirm a valley: what is one, what is not, and how long power must have been low."""

from __future__ import annotations

import pytest

from gaptop.recording.lines import Source
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Valley
from gaptop.valleys.scope import measured
from gaptop.valleys.witnesses import of_progress, of_utilisation

from .valley_server import quiet_between, server, stopped_progress
from .valley_streams import Curve, Stream, analyse, only, stairs, valleys_of

EVERY = 0.25


def through(busy: Curve, level: float) -> Curve:
    """A counter read each EVERY seconds: the mean of ``level`` times busy over that time."""

    def value(t: float) -> float:
        points = [busy(t - EVERY * (i + 0.5) / 50) or 0.0 for i in range(50)]
        return level * sum(points) / 50

    return value


def with_counter(busy: Curve, signal: str, curve: Curve, seconds: float = 24.0, **info: object) -> Stream:
    stated = {"window_by_signal": {signal: EVERY}, **info}
    return Stream(seconds).device(busy, more={signal: curve}, info=stated)


GAP = stairs((0, 1.0), (12.1, 0.0), (12.7, 1.0))
DIP = stairs((0, 1.0), (12.05, 0.0), (12.15, 1.0))


@pytest.mark.parametrize("signal", ["device.graphics_active", "device.sm_active", "device.tensor_active"])
def test_hardware_counters_confirm_a_valley(signal: str) -> None:
    valley = only(valleys_of(with_counter(GAP, signal, through(GAP, 0.6))))
    assert valley.confirmed
    assert valley.agreeing == ("device.busy", signal)


def test_counters_confirm_a_dip_that_is_no_valley() -> None:
    (dip,) = analyse(with_counter(DIP, "device.sm_active", through(DIP, 0.6)).lines())[1].dips
    assert (dip.confirmed, dip.agreeing) == (True, ("device.busy", "device.sm_active"))


def test_counters_that_went_on_confirm_nothing() -> None:
    steady = stairs((0, 0.6))
    (valley,) = valleys_of(with_counter(GAP, "device.sm_active", steady))
    (dip,) = analyse(with_counter(DIP, "device.sm_active", steady).lines())[1].dips
    assert not valley.confirmed
    assert not dip.confirmed


def test_counters_that_scatter_as_much_anyway_confirm_nothing() -> None:
    noisy: Curve = lambda t: 0.9 if int(t / EVERY) % 2 else 0.1  # noqa: E731
    assert not only(valleys_of(with_counter(GAP, "device.sm_active", noisy))).confirmed


def test_memory_utilisation_is_the_same_sample_and_confirms_nothing() -> None:
    valley = only(valleys_of(with_counter(GAP, "device.memory_busy", through(GAP, 0.5))))
    assert (valley.confirmed, valley.agreeing) == (False, ("device.busy",))


@pytest.mark.parametrize("signal", ["device.graphics_active", "device.sm_active"])
def test_counters_are_no_second_witness_where_the_duty_cycle_is_one_of_them(signal: str) -> None:
    valley = only(valleys_of(with_counter(GAP, signal, through(GAP, 0.6), refresh="gpm", rounding="")))
    assert not valley.confirmed


@pytest.mark.parametrize(("length", "confirmed"), [(0.4, False), (0.8, False), (1.2, True), (3.0, True)])
def test_power_alone_confirms_no_valley_under_a_second(length: float, confirmed: bool) -> None:
    low = stairs((0, 300), (12, 60), (12 + length, 300))
    busy = stairs((0, 1.0), (12.0, 0.0), (12.0 + length, 1.0))
    valley = only(valleys_of(Stream(24).device(busy, power=low)))
    assert valley.confirmed is confirmed
    assert ("device.power" in valley.agreeing) is confirmed


def test_energy_speaks_before_power() -> None:
    made = Evidence("utilisation", "", 0.0, 2.0, energy_ratio=0.3, power_ratio=0.99)
    assert of_utilisation(made, 0.2, ()) == ("device.busy", "device.energy")
    made = Evidence("utilisation", "", 0.0, 2.0, energy_ratio=0.95, power_ratio=0.3)
    assert of_utilisation(made, 0.2, ()) == ("device.busy",)


def test_tokens_that_stop_confirm_a_valley() -> None:
    stream = Stream(22).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    valley: Valley = only(valleys_of(stream), kind="utilisation")
    assert valley.agreeing == ("device.busy", "tokens.decode")
    assert valley.confirmed


def test_a_standstill_beside_an_idle_device_is_confirmed_by_it() -> None:
    made = Evidence("progress", "", 0.0, 2.0, busy=0.0, busy_level=1.0, decode_rate=0.0, decode_before=10.0)
    assert of_progress(made) == ("tokens.decode", "device.busy")


# Which sources are devices, and which of them are one.


def device(id: str, *, busy: bool = True, why: str = "", uuid: str = "", **more: object) -> Source:
    entity: dict[str, object] = {"uuid": uuid or id.partition("/")[2]}
    entity |= {key: value for key, value in more.items() if key in ("parent", "slice")}
    stated = {key: value for key, value in more.items() if key not in ("parent", "slice")}
    signals = ["device.busy", "device.power"] if busy else ["device.power"]
    return Source(
        0.0,
        id,
        "c",
        "device",
        entity,
        signals,
        0.25,
        unsupported={"device.busy": why} if why else {},
        **stated,  # type: ignore[arg-type]
    )


def test_a_gpu_in_slices_is_its_slices_and_counted_once() -> None:
    slices = [device(f"nvml/MIG-{name}", parent="GPU-a", slice="1g.10gb", refresh="gpm") for name in "xy"]
    for parent in (device("nvml/GPU-a", busy=False, why="MIG is on"), device("dcgm/GPU-a", uuid="GPU-a")):
        found = measured([parent, *slices])
        assert [item.label for item in found] == ["MIG-x", "MIG-y"]
        assert all(item.from_gpm for item in found)


def test_a_gpu_that_two_sources_tell_of_is_the_drivers_and_the_other_its_witness() -> None:
    (found,) = measured([device("dcgm/GPU-a"), device("nvml/GPU-a", rounding="nearest")])
    assert (found.source, found.sources, found.from_gpm) == ("nvml/GPU-a", ("nvml/GPU-a", "dcgm/GPU-a"), False)


def test_slices_that_an_exporter_names_otherwise_are_the_drivers() -> None:
    ours = device("nvml/MIG-x", parent="GPU-a", refresh="gpm")
    theirs = device("dcgm/GPU-a/gi7", parent="GPU-a")
    assert [item.source for item in measured([theirs, ours])] == ["nvml/MIG-x"]
    assert [item.source for item in measured([theirs])] == ["dcgm/GPU-a/gi7"]


def test_an_exporter_stands_in_where_the_driver_gives_no_duty_cycle() -> None:
    (found,) = measured([device("nvml/GPU-a", busy=False, why="vGPU"), device("dcgm/GPU-a", rounding="percent")])
    assert (found.source, found.also, found.from_gpm) == ("dcgm/GPU-a", ("nvml/GPU-a",), False)
