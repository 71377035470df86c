"""Every error of NVML at every call: never past the collector but as a sentence, never a 0, never pending for ever."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

pynvml = pytest.importorskip("pynvml")

from gaptop_collectors.collector import (  # noqa: E402
    Batch,
    Delivered,
    Hole,
    Message,
    Note,
    SourceInfo,
)
from gaptop_collectors.devices.nvml import NvmlDevices  # noqa: E402
from gaptop_collectors.devices.nvml_calls import Calls, Trouble  # noqa: E402
from gaptop_collectors.devices.nvml_fields import FIELDS  # noqa: E402
from tests.unit.nvml_binding import Binding, Seen, Server, run  # noqa: E402

CODES = sorted(value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_"))
MISMATCH = -1
"""The binding's other class: a symbol of another version than it wants."""
AT_START = (
    "nvmlInit",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlGpmQueryDeviceSupport",
    "nvmlShutdown",
)
WHILE_RUNNING = (
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetHandleByUUID",
)
SIGNALS = {
    "nvmlDeviceGetFieldValues": ("device.energy", "device.pcie_rx", "device.pcie_tx"),
    "nvmlDeviceGetClockInfo": ("device.clock_sm", "device.clock_memory"),
    "nvmlDeviceGetTemperature": ("device.temperature",),
    "nvmlDeviceGetEnforcedPowerLimit": ("device.power_limit",),
    "nvmlDeviceGetMemoryInfo": ("device.memory_used", "device.memory_total"),
    "nvmlDeviceGetComputeRunningProcesses": ("device.foreign_processes",),
}
"""What cannot be read while that call fails."""


def zeros(messages: Iterable[Message]) -> list[str]:
    return [
        key
        for message in messages
        if isinstance(message, Batch)
        for key, column in message.values.items()
        if any(value == 0 for value in column)
    ]


def failure(code: int) -> Exception:
    made: Exception = pynvml.NVMLLibraryMismatchError("unversioned") if code == MISMATCH else pynvml.NVMLError(code)
    return made


def settled(seen: Seen, now_ns: int) -> bool:
    """Nothing is pending: delivered or a hole up to some seconds ago, or the collector says that it is failing."""
    marks = [mark.time_ns for mark in seen.of(Delivered)]
    return seen.error is not None or (bool(marks) and now_ns - marks[-1] < 4 * 10**9 and marks == sorted(marks))


@pytest.mark.parametrize("function", [*AT_START, *WHILE_RUNNING])
def test_a_call_that_fails_from_the_start(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    for code in (*CODES, MISMATCH):
        fails_from_the_start(Binding(monkeypatch), function, code)


def fails_from_the_start(binding: Binding, function: str, code: int) -> None:
    binding.fails[function] = failure(code)
    devices = NvmlDevices(Server())
    seen = run(devices, binding, 2.6)
    devices.close()
    assert zeros(seen.messages) == []
    assert settled(seen, binding.now_ns)
    for signal in SIGNALS.get(function, ()):
        assert seen.values(signal) == []
    if seen.error:
        assert len(seen.error.says) > 40
    elif unsupported(code):
        lacking = seen.of(SourceInfo)[-1].unsupported
        assert all(lacking[signal] for signal in SIGNALS.get(function, ()))


@pytest.mark.parametrize("function", WHILE_RUNNING)
def test_a_call_that_fails_for_a_while(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    for code in (*CODES, MISMATCH):
        fails_for_a_while(Binding(monkeypatch), function, code)


def fails_for_a_while(binding: Binding, function: str, code: int) -> None:
    devices = NvmlDevices(Server())
    seen = run(devices, binding, 1.5)
    assert seen.error is None
    binding.fails[function] = failure(code)
    failed_ns = binding.now_ns
    run(devices, binding, 4.0, seen)
    assert zeros(seen.messages) == []
    assert settled(seen, binding.now_ns)
    for signal in SIGNALS.get(function, ()):
        assert seen.values(signal, failed_ns) == []
    del binding.fails[function]
    seen.error = None
    run(devices, binding, 5.0, seen)
    devices.close()
    assert seen.error is None
    assert zeros(seen.messages) == []
    # Whatever happened in between, it is read again now: windows always are.
    assert seen.values("device.busy", binding.now_ns - 2 * 10**9)
    assert not seen.of(SourceInfo)[-1].says.startswith("GPU 0 (NVIDIA Python GPU) does not answer")


@pytest.mark.parametrize("number", sorted(FIELDS))
def test_a_single_field_that_fails_is_no_reading(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for code in (code for code in CODES if code):
        binding = Binding(monkeypatch)
        binding.field_codes = {number: code}
        devices = NvmlDevices(Server())
        seen = run(devices, binding, 0.6)
        devices.close()
        assert seen.error is None
        assert zeros(seen.messages) == []
        key, _, label = FIELDS[number][0].partition("{")
        others = [one for one in FIELDS if one != number and FIELDS[one][0] == FIELDS[number][0]]
        legacy = key == "device.power" and unsupported(code)  # then it is asked for in the older way
        if not label:
            assert bool(seen.values(key)) == bool(others or legacy)


def unsupported(code: int) -> bool:
    return code == MISMATCH or Calls(pynvml).trouble(code) is Trouble.UNSUPPORTED


@pytest.mark.parametrize("code", [*CODES, MISMATCH])
def test_a_driver_that_fails_altogether_is_a_hole_and_then_a_sentence_and_comes_back(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    binding = Binding(monkeypatch)
    devices = NvmlDevices(Server())
    seen = run(devices, binding, 1.5)
    binding.fails = {name: failure(code) for name in (*AT_START, *WHILE_RUNNING)}
    failed_ns = binding.now_ns
    run(devices, binding, 6.0, seen)
    assert zeros(seen.messages) == []
    assert settled(seen, binding.now_ns)
    assert seen.values("device.busy", failed_ns + 10**9) == []
    binding.fails = {}
    for _ in range(18 if unsupported(code) else 4):  # its runner tries again after each sentence
        seen.error = None
        run(devices, binding, 2.0, seen)
    devices.close()
    assert seen.values("device.busy", binding.now_ns - 2 * 10**9)
    assert zeros(seen.messages) == []


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_GPU_IS_LOST])
@pytest.mark.parametrize("function", SIGNALS)
def test_one_call_that_fails_on_a_gpu_that_is_well_loses_its_signal_only(
    monkeypatch: pytest.MonkeyPatch, function: str, code: int
) -> None:
    """Partial NVML (WSL2) fails single calls with codes that mean a lost GPU elsewhere."""
    binding = Binding(monkeypatch)
    binding.fails[function] = failure(code)
    devices = NvmlDevices(Server())
    seen = run(devices, binding, 12.0)
    asked = binding.called[function]
    run(devices, binding, 12.0, seen)
    devices.close()
    assert seen.error is None
    assert not [note for note in seen.of(Note) if note.what == "gpu_lost"]
    assert not seen.of(Hole)
    unsupported_now = seen.of(SourceInfo)[-1].unsupported
    assert all("fails" in unsupported_now[signal] for signal in SIGNALS[function])
    assert binding.called[function] == asked  # it is given up
    assert seen.values("device.busy")
    assert seen.values("device.power")
