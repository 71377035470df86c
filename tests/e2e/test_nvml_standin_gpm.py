"""The stand-in library itself, through the unmodified binding: GPM, and MIG slices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.nvml.ask import answer

GPM = """
def taken(seconds, device=None, instance=None):
    at(seconds)
    sample = nv.nvmlGpmSampleAlloc()
    if instance is None:
        return nv.nvmlGpmSampleGet(gpu if device is None else device, sample)
    return nv.nvmlGpmMigSampleGet(gpu, instance, sample)

def between(first, second, ids):
    get = nv.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics, get.sample1, get.sample2 = 1, len(ids), first, second
    for i, number in enumerate(ids):
        get.metrics[i].metricId = number
    nv.nvmlGpmMetricsGet(get)
    return [[get.metrics[i].nvmlReturn, round(get.metrics[i].value, 6)] for i in range(len(ids))]
"""
WORK: dict[str, Any] = {"gpm": True, "intervals": [(0, 1.0), (1.05, 1.2), (2.0, 3.0)], "sm": 0.8, "tensor": 0.3}


pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def test_metrics_are_what_was_done_between_two_samples() -> None:
    text = f"{GPM}\nout = between(taken(0.9), taken(1.1), [1, 2, 3, 5, 7, 10, 11])"
    busy = 75.0
    assert answer(text, {**WORK, "dram": 0.4}) == [
        [0, busy],
        [0, pytest.approx(0.8 * busy)],
        [0, pytest.approx(0.4 * busy)],
        [0, pytest.approx(0.3 * busy)],
        [0, pytest.approx(0.3 * busy)],
        [0, pytest.approx(0.4 * busy)],
        [0, 0],
    ]


def test_samples_closer_than_100_ms_give_wrong_numbers_without_an_error() -> None:
    pairs = [(0.31, 0.37), (0.38, 0.42), (0.30, 0.40), (0.31, 0.43)]
    text = f"{GPM}\nout = [between(taken(a), taken(b), [1])[0] for a, b in {pairs}]"
    never, twice, *right = answer(text, WORK)
    assert never == [0, 0]
    assert twice == [0, 250]
    assert right == [[0, 100], [0, 100]]


def test_traffic_and_cycles() -> None:
    device = {**WORK, "pcie_rate": 3 * 2**20, "nvlink_links": 4, "nvlink_rate": (5 * 2**20, 2**20), "nvlink_down": [3]}
    text = f"{GPM}\nout = between(taken(0.5), taken(1.0), [20, 21, 60, 61, 62, 63, 68, 248, 249])"
    got = answer(text, device)
    assert [value for _, value in got] == [3, 3, 15, 3, 5, 1, 0, pytest.approx(1.98e9), pytest.approx(0.8 * 1.98e9)]


def test_a_metric_that_the_driver_does_not_know_fails_alone() -> None:
    text = f"{GPM}\nout = between(taken(0.1), taken(0.3), [1, 248, 249, 10, 400])"
    got = answer(text, {**WORK, "gpm_missing": [248, (249, 2)]})
    assert [status for status, _ in got] == [0, 3, 2, 0, 3]
    assert got[0] == [0, 100]


def test_what_is_not_supported_or_not_permitted() -> None:
    support = "nv.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice"
    get = "code(nv.nvmlGpmSampleGet, gpu, nv.nvmlGpmSampleAlloc())"
    assert answer(f"out = [{support}, {get}]", {"gpm": False}) == [0, 3]
    assert answer(f"out = [{support}, {get}]", {"gpm": True, "unsupported": [("nvmlGpmSampleGet", 4)]}) == [1, 4]
    metrics = f"{GPM}\nout = code(between, taken(0.1), taken(0.3), [1])"
    assert answer(metrics, {"gpm": True, "unsupported": [("nvmlGpmMetricsGet", 4)]}) == 4
    without = ("nvmlGpmQueryDeviceSupport",)
    assert answer("out = code(nv.nvmlGpmQueryDeviceSupport, gpu)", {"gpm": True}, without=without) == 13


def test_wrong_uses_are_refused() -> None:
    text = f"""{GPM}
first, second = taken(0.1), taken(0.3)
other = nv.nvmlGpmSampleGet(nv.nvmlDeviceGetHandleByIndex(1), nv.nvmlGpmSampleAlloc())
get = nv.c_nvmlGpmMetricsGet_t()
get.version, get.sample1, get.sample2 = 7, first, second
newer = code(nv.nvmlGpmMetricsGet, get)
get.version, get.sample1, get.sample2 = 1, first, None
none = code(nv.nvmlGpmMetricsGet, get)
out = [newer, none, code(between, first, other, [1]), code(between, second, first, [1])]
out.append(code(nv.nvmlGpmSampleFree, first))
"""
    assert answer(text, WORK, WORK) == [25, 2, 2, 2, 0]


SLICES = [
    {"uuid": "MIG-a", "profile": "1g.10gb", "gpu_instance": 9, "share": 1.0, "pids": [11], "memory_used": 7},
    None,
    {"uuid": "MIG-b", "profile": "3g.40gb", "gpu_instance": 2, "intervals": [(0.5, 0.6)], "pids": [12, 13]},
]
MIG = {**WORK, "name": "H100", "mig": True, "mig_slices": SLICES, "pids": [10]}


def test_slices_are_devices_with_handles_of_their_own() -> None:
    text = """
def told(one):
    memory = nv.nvmlDeviceGetMemoryInfo(one)
    processes = nv.nvmlDeviceGetComputeRunningProcesses(one)
    return [
        nv.nvmlDeviceGetUUID(one), nv.nvmlDeviceGetName(one), nv.nvmlDeviceIsMigDeviceHandle(one).value,
        nv.nvmlDeviceGetGpuInstanceId(one), nv.nvmlDeviceGetComputeInstanceId(one), memory.used,
        [[p.pid, p.gpuInstanceId] for p in processes],
        nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(one)),
        nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByUUID(nv.nvmlDeviceGetUUID(one))),
        nv.nvmlDeviceGetAttributes_v2(one).gpuInstanceSliceCount,
    ]
count = nv.nvmlDeviceGetMaxMigDeviceCount(gpu)
there = [code(nv.nvmlDeviceGetMigDeviceHandleByIndex, gpu, i) for i in range(count)]
slices = [told(nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i)) for i in (0, 2)]
whole = [[p.pid, p.gpuInstanceId] for p in nv.nvmlDeviceGetComputeRunningProcesses(gpu)]
out = nv.nvmlDeviceGetMigMode(gpu)[0], there, slices, whole, nv.nvmlDeviceIsMigDeviceHandle(gpu).value
out = [*out, code(nv.nvmlDeviceGetGpuInstanceId, gpu)]
"""
    mode, there, (first, second), whole, is_slice, no_instance = answer(text, MIG)
    assert mode == 1
    assert there == [0, 6, 0, 6, 6, 6, 6]
    assert first == ["MIG-a", "H100 MIG 1g.10gb", 1, 9, 0, 7, [[11, 9]], "GPU-fake-0", "MIG-a", 1]
    assert second[:5] == ["MIG-b", "H100 MIG 3g.40gb", 1, 2, 0]
    assert second[-1] == 3
    assert whole == [[10, 0xFFFFFFFF], [11, 9], [12, 2], [13, 2]]
    assert (is_slice, no_instance) == (0, 3)


def test_utilisation_is_not_supported_under_mig() -> None:
    text = """
one = nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
out = [code(nv.nvmlDeviceGetUtilizationRates, d) for d in (gpu, one)]
out += [code(nv.nvmlDeviceGetSamples, d, 1, 0) for d in (gpu, one)]
out += [code(nv.nvmlDeviceGetPowerUsage, d) for d in (gpu, one)]
"""
    assert answer(text, MIG) == [3, 3, 3, 3, 0, 3]


def test_gpm_of_a_slice_by_its_handle_and_by_its_instance() -> None:
    text = f"""{GPM}
one, two = (nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i) for i in (0, 2))
out = [between(taken(0.4, one), taken(0.6, one), [1, 2]), between(taken(0.4, two), taken(0.6, two), [1])]
out.append(between(taken(0.4, instance=2), taken(0.6, instance=2), [1]))
out.append(code(taken, 0.6, None, 5))
"""
    first, second, by_instance, unknown = answer(text, MIG)
    assert first == [[0, 100], [0, 80]]
    assert second == by_instance == [[0, 50]]
    assert unknown == 2


def test_slices_without_gpm_and_a_gpu_without_mig() -> None:
    handle = "nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)"
    text = f"out = [nv.nvmlGpmQueryDeviceSupport({handle}).isSupportedDevice, nv.nvmlDeviceGetName({handle})]"
    assert answer(text, {"profile": "a100_mig"}) == [0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]
    assert answer("out = code(nv.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0)", {}) == 3


def test_a_slice_is_lost_with_its_gpu() -> None:
    text = """
one = nv.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
out = [code(nv.nvmlDeviceGetName, one)]
at(6)
out.append(code(nv.nvmlDeviceGetName, one))
"""
    assert answer(text, {**MIG, "fail": (15, 5, 0)}) == [0, 15]
