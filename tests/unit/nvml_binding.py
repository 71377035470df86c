"""A binding in pure Python: one healthy GPU in virtual time, of which any call can be made to fail.

Every reading is above zero, so that a 0 on the stream can only be an invented one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pynvml
import pytest

from gaptop_collectors.collector import Batch, CollectorError, Message
from gaptop_collectors.devices import nvml_calls
from gaptop_collectors.devices.nvml import NvmlDevices
from gaptop_collectors.target import Processes, ServerProcess

UUID: Final = "GPU-python"
SOURCE: Final = f"nvml/{UUID}"
DRIVER: Final = "595.1"
CALL_NS: Final = 10_000
"""What each call takes."""


class Server(Processes):
    """Process 1, which exists everywhere."""

    def current(self) -> Sequence[ServerProcess]:
        return [ServerProcess(1, "engine", "engine", True, 0)]

    def why_empty(self) -> str:
        return ""


class Binding:
    """``fails``: function name to what it raises. ``field_codes``: field to nvmlReturn. ``now_ns`` is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, window_ms: int = 200, name: str = "NVIDIA Python GPU") -> None:
        self.start_ns = self.now_ns = 5_000 * 10**9
        self.window_ns = window_ms * 1_000_000
        self.fails: dict[str, Exception] = {}
        self.field_codes: dict[int, int] = {}
        self.called: dict[str, int] = {}
        self.call_ns: dict[str, int] = {}
        self.name = name
        self.busy = 60
        module = ModuleType("pynvml")
        vars(module).update(vars(pynvml))
        for function, answer in self._answers().items():
            setattr(module, function, self._wrapped(function, answer))
        monkeypatch.setitem(sys.modules, "pynvml", module)
        monkeypatch.setattr(nvml_calls, "waited_ns", lambda: 0)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_ns / 1e9)
        monkeypatch.setattr(time, "time_ns", lambda: self.now_ns + 1_800_000_000 * 10**9)
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: self.now_ns + 86_400 * 10**9)

    def error(self, code: int) -> Exception:
        made: Exception = pynvml.NVMLError(code)
        return made

    def _wrapped(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.called[name] = self.called.get(name, 0) + 1
            self.now_ns += self.call_ns.get(name, CALL_NS)
            if name in self.fails:
                raise self.fails[name]
            return answer(*arguments)

        call.__name__ = name
        return call

    def _answers(self) -> dict[str, Callable[..., Any]]:
        unsupported = dict.fromkeys(
            (
                "nvmlGpmQueryDeviceSupport",
                "nvmlEventSetCreate",
                "nvmlDeviceGetMigDeviceHandleByIndex",
                "nvmlDeviceGetGpuInstanceId",
            ),
            self._refuse,
        )
        return unsupported | {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: DRIVER,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: "handle",
            "nvmlDeviceGetHandleByUUID": lambda uuid: "handle",
            "nvmlDeviceGetUUID": lambda handle: UUID,
            "nvmlDeviceGetName": lambda handle: self.name,
            "nvmlDeviceGetMigMode": lambda handle: [0, 0],
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 0,
            "nvmlDeviceGetVirtualizationMode": lambda handle: 0,
            "nvmlDeviceGetPersistenceMode": lambda handle: 1,
            "nvmlDeviceGetSamples": self._samples,
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=self.busy, memory=30),
            "nvmlDeviceGetFieldValues": self._fields,
            "nvmlDeviceGetPowerUsage": lambda handle: 250_000,
            "nvmlDeviceGetClockInfo": lambda handle, which: 1500,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 4,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 4,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 55,
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 300_000,
            "nvmlDeviceGetMemoryInfo": lambda handle, version=None: SimpleNamespace(total=80 * 2**30, used=20 * 2**30),
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=1), SimpleNamespace(pid=2)],
        }

    def _refuse(self, *arguments: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def _samples(self, handle: Any, kind: int, after: int) -> Any:
        boot_ns = 86_400 * 10**9
        out = (self.now_ns - 10_000_000) // self.window_ns
        first = max(out - 71, (after * 1000 - boot_ns - 10_000_000) // self.window_ns)
        stamps = [(k * self.window_ns + 10_000_000 + boot_ns) // 1000 for k in range(first, out + 1)]
        value = self.busy if kind == pynvml.NVML_GPU_UTILIZATION_SAMPLES else 30
        fresh = [SimpleNamespace(timeStamp=s, sampleValue=SimpleNamespace(uiVal=value)) for s in stamps if s > after]
        if not fresh:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return 1, fresh

    def _fields(self, handle: Any, fields: Sequence[Any]) -> list[Any]:
        answers = []
        for one in fields:
            number = one if isinstance(one, int) else one[0]
            code = self.field_codes.get(number, 0)
            answers.append(
                SimpleNamespace(
                    fieldId=number,
                    scopeId=0 if isinstance(one, int) else one[1],
                    nvmlReturn=code,
                    valueType=3,
                    # Where a field fails, its value is what lay in memory: 0.
                    value=SimpleNamespace(ullVal=0 if code else number * 1000 + self.now_ns // 1000),
                    latencyUsec=0 if code else 30,
                )
            )
        return answers


@dataclass
class Seen:
    """What a session told, and the sentence that ended it, if one did."""

    messages: list[Message] = field(default_factory=list)
    error: CollectorError | None = None

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.messages if isinstance(message, kind)]

    def values(self, signal: str, after_ns: int = 0) -> list[float]:
        return [
            value
            for batch in self.of(Batch)
            for key, column in batch.values.items()
            if key.partition("{")[0] == signal
            for time_ns, value in zip(batch.times_ns, column, strict=True)
            if time_ns > after_ns and value is not None
        ]


def run(devices: NvmlDevices, binding: Binding, seconds: float, seen: Seen | None = None) -> Seen:
    """As its runner would, in virtual time. Whatever is no CollectorError fails the test by itself."""
    told = seen or Seen()
    end = binding.now_ns + int(seconds * 1e9)
    try:
        if seen is None:
            told.messages += devices.open()
        while binding.now_ns < end:
            binding.now_ns += int(devices.period * 1e9)
            told.messages += devices.sample()
    except CollectorError as error:
        told.error = error
    return told
