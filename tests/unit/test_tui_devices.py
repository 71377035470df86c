"""Devices on the screen: what each is called, how finely it is seen, whose it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Batch, Line, Source, Tick, Watermark
from gaptop.tui.devices import devices, named, short_name, working
from gaptop.tui.panels.devices import device_facts
from gaptop.tui.seen import blind_below, mapping_unknown, missing, monitor_cost, resolution
from tests.snapshots.fleets import FLEETS, NO_MIG, NO_PIDS, gpu, mig_parent, mig_slice
from tests.snapshots.scenes import SERVER, scene_of, told


def labels(*sources: Source) -> list[str]:
    return [one.label for one in devices(told(*sources).sources)]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("NVIDIA GB10", "GB10"),
        ("Orin (nvgpu)", "Orin"),
        ("NVIDIA", ""),
        ("", ""),
        ("x" * 500, "x" * 13),
    ],
)
def test_a_long_name_is_cut_to_what_tells_a_model_from_others(name: str, short: str) -> None:
    assert short_name(name) == short


def test_gpus_are_called_by_index_and_name_and_slices_by_gpu_and_profile() -> None:
    assert labels(gpu(1), gpu(0)) == ["#0 H100", "#1 H100"]
    assert labels(mig_slice(7, "1g.10gb"), mig_parent()) == ["#0 H100", "0/1g.10gb"]
    assert labels(gpu(0, entity={"index": None, "name": None})) == ["GPU-0"]


def test_several_of_one_name_are_told_apart() -> None:
    same = [mig_slice(number, "1g.10gb") for number in range(3)]
    assert labels(mig_parent(), *same) == ["#0 H100", "0/1g.10gb a", "0/1g.10gb b", "0/1g.10gb c"]
    many = [mig_slice(number, "1g.10gb") for number in range(30)]
    assert len(set(labels(mig_parent(), *many))) == 31


def test_one_device_seen_by_two_sources_is_one_device() -> None:
    exporter = replace(gpu(0), id="dcgm/GPU-0", collector="devices.dcgm", window=30.0)
    [one] = devices(told(exporter, gpu(0)).sources)
    assert one.busy == "nvml/GPU-0"
    assert set(one.sources) == {"nvml/GPU-0", "dcgm/GPU-0"}
    [alone] = devices(told(exporter).sources)
    assert alone.busy == "dcgm/GPU-0"


def test_an_exporters_other_name_for_a_slice_is_no_second_slice() -> None:
    entity = {"uuid": "GPU-0 instance 7", "parent": "GPU-0", "slice": "1g.10gb"}
    second = replace(gpu(0, entity=entity), id="dcgm/GPU-0 instance 7", collector="devices.dcgm")
    assert labels(mig_parent(), mig_slice(0, "1g.10gb"), second) == ["#0 H100", "0/1g.10gb"]
    assert labels(mig_parent(), second) == ["#0 H100", "0/1g.10gb"]
    whole = replace(gpu(0), id="dcgm/GPU-0", collector="devices.dcgm")
    found = devices(told(mig_parent(), mig_slice(0, "1g.10gb"), whole).sources)
    assert [bool(one.busy) for one in found] == [False, True]


def test_the_servers_own_devices_are_the_ones_to_speak_of() -> None:
    others = [gpu(index, entity={"pids": []}) for index in (0, 2, 3)]
    found = devices(told(SERVER, *others, gpu(1)).sources)
    assert [one.label for one in working(found)] == ["#1 H100"]
    unknown = devices(told(SERVER, *(gpu(index, entity={"pids": None}) for index in range(3))).sources)
    assert len(working(unknown)) == 3
    cpu = replace(gpu(0), id="cpu/server", collector="devices.cpu", entity={"uuid": "cpu", "kind2": "cpu", "name": "x"})
    assert [one.label for one in working(devices(told(SERVER, cpu).sources))] == ["CPU"]
    assert [one.is_cpu for one in working(devices(told(SERVER, cpu, gpu(0)).sources))] == [False]


def test_a_changed_description_is_seen() -> None:
    timeline = told(SERVER, gpu(0, entity={"pids": None}))
    assert mapping_unknown(devices(timeline.sources), timeline.sources)
    timeline.apply(gpu(0))
    assert not mapping_unknown(devices(timeline.sources), timeline.sources)


@pytest.mark.parametrize(
    ("fleet_name", "words"),
    [("two", "2x RTX 3090"), ("eight", "8x H100"), ("mig", "H100 #0: 3 MIG slices"), ("gpm", "H100 80GB HBM3 #0")],
)
def test_the_header_names_them_in_a_few_words(fleet_name: str, words: str) -> None:
    sources = FLEETS[fleet_name]
    found = working(devices(told(SERVER, *sources).sources))
    assert named(found, str(sources[0].entity["name"]), short=False) == words


def test_resolution_is_the_worst_of_them_and_says_whether_it_was_measured() -> None:
    fine, coarse = gpu(0), gpu(1, window=0.5, window_measured=False)
    assert resolution([fine], way=True) == "resolution 200 ms (measured, ring)"
    assert resolution([fine], short=True) == "W 200 ms (measured)"
    assert resolution([coarse]) == "resolution 500 ms (assumed)"
    assert resolution([fine, coarse]) == "resolution 500 ms (1 of 2 measured)"
    assert resolution([replace(fine, refresh="polled")], way=True) == "resolution 200 ms (measured, polled)"
    assert resolution([mig_slice(0, "1g.10gb")], way=True) == "resolution 200 ms (measured, GPM)"
    exporter = replace(gpu(0), collector="devices.dcgm", window=30.0)
    assert resolution([exporter], way=True) == "resolution 30 s (measured, dcgm)"
    assert resolution([replace(fine, window_by_signal={"device.busy": 0.1})]) == "resolution 100 ms (measured)"
    sparse = replace(exporter, window=0.2, period=30.0)
    assert resolution([sparse], way=True) == "200 ms of every 30 s seen"
    assert blind_below(sparse) == "dcgm-exporter shows 200 ms of every 30 s: what lies between is unseen."
    assert resolution([replace(fine, window=None)]) == "polled every 250 ms"
    assert resolution([mig_parent()]) == "utilisation N/A"
    assert resolution([]) == "utilisation N/A"


def test_what_no_reading_can_show_is_said_with_the_devices_own_window() -> None:
    assert blind_below(gpu(0)) == "NVML cannot see gaps shorter than 200 ms one by one; a kernel trace can."
    assert "dcgm-exporter cannot see gaps shorter than 30 s" in blind_below(
        replace(gpu(0), collector="devices.dcgm", window=30.0)
    )


def test_an_unknown_mapping_is_said_with_its_reason_and_only_beside_a_server() -> None:
    [source] = FLEETS["unmapped"]
    beside = told(SERVER, source)
    assert mapping_unknown(devices(beside.sources), beside.sources) == f"mapping unknown: {NO_PIDS}"
    alone = told(source)
    assert mapping_unknown(devices(alone.sources), alone.sources) == ""
    bare = told(SERVER, gpu(0, entity={"pids": None}, says="No process list here."))
    assert mapping_unknown(devices(bare.sources), bare.sources) == "mapping unknown: No process list here."


def test_own_calls_are_counted_over_all_devices_and_unknown_where_none_tells() -> None:
    sources = FLEETS["two"]
    lines: list[Line] = [*sources]
    for source in sources:
        for t in range(11):
            lines += [Batch(source.id, [float(t)], {"device.own_calls": [t * 0.0015]}), Watermark(source.id, float(t))]
    timeline = told(*lines, Tick(10.0))
    cost = monitor_cost(timeline, devices(timeline.sources))
    assert cost == pytest.approx(0.003, rel=0.01)
    assert monitor_cost(told(*sources, Tick(1.0)), devices(timeline.sources)) is None


def test_what_is_missing_for_one_reason_is_told_in_one_line() -> None:
    gone = {"device.busy": "MIG is on", "device.memory_busy": "MIG is on", "device.power": "no sensor"}
    assert missing(gpu(0, unsupported=gone)) == ["busy, memory_busy: MIG is on", "power: no sensor"]


def test_the_facts_of_a_device_name_its_clock_jitter_and_what_is_missing() -> None:
    timeline = told(
        SERVER,
        *FLEETS["mig"],
        gpu(5, entity={"pids": None}, unsupported={"device.foreign_processes": NO_PIDS}),
        Tick(1.0),
    )
    scene = scene_of(timeline)
    text = "\n".join(value for _, value in device_facts(scene))
    for part in ("stamps of the boot clock", "jitter 4 ms", "(measured, GPM)", f"N/A busy: {NO_MIG}", NO_PIDS, "MIG-2"):
        assert part in text
