"""The stand-in library itself, through the unmodified binding: fields, NVLink, events, counted calls, profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.nvml import build
from tests.fakes.nvml.ask import answer
from tests.fakes.nvml.profiles import PROFILES

FIELDS = """
def fields(*ids):
    got = nv.nvmlDeviceGetFieldValues(gpu, list(ids))
    return [[f.nvmlReturn, f.value.uiVal if f.valueType == 1 else f.value.ullVal] for f in got]
"""
ALL = 0xFFFFFFFF
XID = "nv.nvmlEventTypeXidCriticalError"


pytestmark = pytest.mark.usefixtures("stand_in_nvml")


def test_nvlink_counters_of_each_link_and_of_all() -> None:
    device = {"nvlink_links": 3, "nvlink_rate": (2048000, 1024000), "nvlink_down": 1}
    links = "[nv.nvmlDeviceGetNvLinkState(gpu, i) for i in range(3)], code(nv.nvmlDeviceGetNvLinkState, gpu, 3)"
    asked = ", ".join(f"({number}, {scope})" for number, scope in [(138, 0), (139, 2), (139, 1), (139, ALL), (204, 0)])
    text = f"{FIELDS}\nat(10)\nout = [fields(91, {asked}), {links}]"
    assert answer(text, device) == [[[0, 3], [0, 10000], [0, 20000], [3, 0], [0, 40000], [3, 0]], [1, 0, 1], 3]
    text = f"{FIELDS}\nat(10)\nout = fields((201, 0), (202, 0), (203, 0), (204, {ALL}), (138, 0), (204, 40))"
    newer = answer(text, {**device, "nvlink_version": 5})
    assert newer == [[0, 40000], [0, 10240000], [0, 80000], [0, 40960000], [3, 0], [2, 0]]
    assert answer(f"{FIELDS}\nout = fields(91, (139, 0))", {}) == [[0, 0], [3, 0]]


def test_nvlink_counters_of_32_bits_wrap() -> None:
    device = {"nvlink_links": 1, "nvlink_rate": 1024 * 1e6, "wrap32": True}
    text = f"{FIELDS}\nout = fields((139, 0))\nat(0.9)\nout += fields((139, 0))\nat(1.1)\nout += fields((139, 0))"
    (_, first), (_, second), (_, third) = answer(text, device)
    assert second - first == 900_000
    assert third - second + 2**32 == 200_000


def test_each_field_says_how_long_it_took_and_when() -> None:
    text = "at(2)\nout = [[f.latencyUsec, f.timestamp] for f in nv.nvmlDeviceGetFieldValues(gpu, [186, 191, 197])]"
    got = answer(text, {"latency_us": [(186, 900), ("all", 40)]})
    assert [latency for latency, _ in got] == [900, 40, 40]
    assert {stamp for _, stamp in got} == {1_767_225_602_000_000}
    assert [latency for latency, _ in answer(text, {})] == [20, 20, 20]


def test_xid_events_come_once_to_whom_they_were_promised() -> None:
    text = f"""
events = nv.nvmlEventSetCreate()
nv.nvmlDeviceRegisterEvents(gpu, nv.nvmlDeviceGetSupportedEventTypes(gpu), events)
second = nv.nvmlDeviceGetHandleByIndex(1)
nv.nvmlDeviceRegisterEvents(second, {XID}, events)

def wait():
    try:
        event = nv.nvmlEventSetWait_v2(events, 0)
    except nv.NVMLError as error:
        return error.value
    return [nv.nvmlDeviceGetUUID(event.device), event.eventType, event.eventData, event.gpuInstanceId]

out = [wait()]
for t in (4, 5):
    at(t)
    out += [wait(), wait()]
late = nv.nvmlEventSetCreate()
nv.nvmlDeviceRegisterEvents(gpu, {XID}, late)
out += [code(nv.nvmlEventSetWait_v2, late, 0), code(nv.nvmlDeviceRegisterEvents, gpu, nv.nvmlEventTypePState, events)]
out += [code(nv.nvmlEventSetFree, events), code(nv.nvmlEventSetWait_v2, events, 0)]
"""
    got = answer(text, {"uuid": "A", "xid": [(31, 5), (79, 3)]}, {"uuid": "B", "xid": (43, 4.5, 2)})
    assert got[0] == 10
    assert got[1:3] == [["A", 8, 79, ALL], 10]
    assert got[3:5] == [["B", 8, 43, 2], ["A", 8, 31, ALL]]
    assert got[5:] == [10, 3, 0, 2]


def test_waiting_for_a_lost_gpu_fails_at_once_after_its_xid() -> None:
    text = f"""
events = nv.nvmlEventSetCreate()
nv.nvmlDeviceRegisterEvents(gpu, {XID}, events)
at(3)
out = [nv.nvmlEventSetWait_v2(events, 60000).eventData, *(code(nv.nvmlEventSetWait_v2, events, 60000) for _ in "12")]
"""
    assert answer(text, {"xid": (79, 2), "fail": (15, 2, 0)}) == [79, 15, 15]


def test_a_blocked_wait_has_its_event_before_virtual_time_goes_on() -> None:
    text = f"""
events = nv.nvmlEventSetCreate()
nv.nvmlDeviceRegisterEvents(gpu, {XID}, events)
seen = []

def waiter():
    while len(seen) < 2:
        try:
            seen.append(nv.nvmlEventSetWait_v2(events, 60000).eventData)
        except nv.NVMLError as error:
            seen.append(-error.value)

thread = threading.Thread(target=waiter)
thread.start()
out = []
for t in range(1, 30):
    while not waiting() and len(seen) < 2:
        time.sleep(0.001)
    at(t)
    out.append(code(nv.nvmlEventSetWait_v2, events, 0))
thread.join()
out = seen, out
"""
    taken, left = answer(text, {"xid": [(62, 1.5), (63, 20)]})
    assert taken == [62, 63]
    assert left == [10] * 29


def test_a_wait_in_real_time_ends_with_the_event_or_its_timeout_even_when_its_set_is_freed() -> None:
    text = f"""
events = nv.nvmlEventSetCreate()
nv.nvmlDeviceRegisterEvents(gpu, {XID}, events)
out = [nv.nvmlEventSetWait_v2(events, 60000).eventData]
answers = []
thread = threading.Thread(target=lambda: answers.append(code(nv.nvmlEventSetWait_v2, events, 700)))
thread.start()
nv.nvmlEventSetFree(events)
nv.nvmlShutdown()
thread.join()
out += answers
"""
    got = answer(text, {"xid": (94, 0.4)}, virtual=False)
    assert got[0] == 94
    assert got[1] in (10, 2)  # 2 when the thread began to wait after the set was freed


def test_calls_are_counted_by_name(tmp_path: Path) -> None:
    text = """
for _ in range(3):
    nv.nvmlDeviceGetName(gpu)
code(nv.nvmlDeviceGetFanSpeed, gpu)
nv.nvmlDeviceGetPcieThroughput(gpu, nv.NVML_PCIE_UTIL_TX_BYTES)
nv.nvmlEventSetFree(nv.nvmlEventSetCreate())
nv.nvmlGpmSampleFree(nv.nvmlGpmSampleAlloc())
nv.nvmlShutdown()
out = None
"""
    answer(text, {}, calls=tmp_path / "calls")
    counts = build.calls_in(tmp_path / "calls")
    once = ("InitWithFlags", "DeviceGetHandleByIndex_v2", "DeviceGetFanSpeed", "DeviceGetPcieThroughput", "Shutdown")
    rest = ("EventSetCreate", "EventSetFree", "GpmSampleAlloc", "GpmSampleFree")
    assert counts == {"nvmlDeviceGetName": 3, **{f"nvml{name}": 1 for name in (*once, *rest)}}


def test_slow_calls_take_virtual_time() -> None:
    text = "before = time.monotonic()\nnv.nvmlDeviceGetName(gpu)\nout = time.monotonic() - before, time.time()"
    took, wall = answer(text, {"slow": ("nvmlDeviceGetName", 5000, 0, 0)}, init_ms=1470)
    assert took == pytest.approx(5)
    assert wall == pytest.approx(1_767_225_600 + 6.47)


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_plays(name: str) -> None:
    text = """
asked = (nv.nvmlDeviceGetName, nv.nvmlDeviceGetUtilizationRates, nv.nvmlDeviceGetMemoryInfo, nv.nvmlDeviceGetPowerUsage)
at(3)
out = [code(one, gpu) for one in asked]
at(9)
out.append(code(nv.nvmlDeviceGetName, gpu))
"""
    device = {"profile": name, "intervals": [(0, 100)]}
    if name == "driver_replaced":
        with pytest.raises(RuntimeError, match="Mismatch"):
            answer(text, device)
        return
    refused = {"h100_mig": 1, "a100_mig": 1, "vgpu_mig": 1, "gb10": 2, "jetson_thor": 2}
    codes = [0, 0, 0, 0, 999 if name == "container_reload" else 0]
    if name in refused:
        codes[refused[name]] = 3
    if name == "jetson_thor":
        codes[3] = 3
    if name == "jetson_orin":
        codes[1:4] = [3, 3, 3]
    assert answer(text, device) == codes


def test_what_profiles_say_of_the_rest() -> None:
    asked = "out = [code(nv.nvmlDeviceGetMigMode, gpu), nv.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice]"
    gpm = {name: answer(asked, {"profile": name}) for name in ("rtx_4090", "rtx_5090", "a100", "h100")}
    assert gpm == {"rtx_4090": [3, 0], "rtx_5090": [3, 1], "a100": [0, 0], "h100": [0, 1]}
    asked = "out = [nv.nvmlDeviceGetPersistenceMode(gpu), nv.nvmlDeviceGetVirtualizationMode(gpu), time.monotonic()]"
    assert answer(asked, {"profile": "persistence_off"}) == [0, 0, 1001.47]
    assert answer(asked, {"profile": "vgpu"}) == [1, 2, 1000]
    asked = "out = [code(nv.nvmlGpmQueryDeviceSupport, gpu), code(nv.nvmlDeviceGetCurrentClocksEventReasons, gpu)]"
    asked += "\nout.append(nv.nvmlSystemGetDriverVersion())"
    assert answer(asked, {"profile": "old_driver"}) == [13, 13, "470.256.02"]
    asked = "out = [code(nv.nvmlDeviceGetTemperature, gpu, 0), code(nv.nvmlDeviceGetUtilizationRates, gpu)]"
    more = {"profile": "rtx_3090", "unsupported": [("nvmlDeviceGetTemperature", 4)]}
    assert answer(f"{asked}\nout.append(code(nv.nvmlDeviceGetMigMode, gpu))", more) == [4, 0, 3]
