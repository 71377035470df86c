"""A binding that a test scripts: GPUs with GPM, MIG slices and events, in time that is moved by hand."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gaptop_collectors.devices import nvml, nvml_calls, nvml_device, nvml_events, nvml_gpm, nvml_utilization
from gaptop_collectors.devices.nvml_ring import Clocks

pynvml = pytest.importorskip("pynvml")
START = 1_000 * 10**9
_numbers = iter(range(4096, 1 << 40, 16))


def handle() -> Any:
    """As the binding's: a pointer."""
    return ctypes.cast(next(_numbers), pynvml.c_nvmlDevice_t)


def error(code: int) -> Exception:
    made: Exception = pynvml.NVMLError(code)
    return made


def address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


@dataclass
class Gpu:
    """``busy``: what GPM's metrics answer, by id; one from 1000 on is a code (less 1000) of that metric alone.
    ``rates``: utilisation, None: NOT_SUPPORTED. ``fails``: code by function, "*": all of them. ``takes_s``: seconds by
    function. ``slices`` by GPU instance. ``cycles``: GPM counts them; ``frozen``: GPM gives old samples."""

    uuid: str
    name: str = "NVIDIA H100"
    gpm: bool = True
    busy: dict[int, float] = field(default_factory=lambda: {1: 60.0, 2: 40.0, 5: 10.0, 10: 20.0})
    cycles: bool = True
    frozen: bool = False
    rates: int | None = 60
    mig: int | None = None
    slices: dict[int, Gpu] = field(default_factory=dict)
    fails: dict[str, int] = field(default_factory=dict)
    takes_s: dict[str, float] = field(default_factory=dict)
    handle: Any = field(default_factory=handle)


class Binding:
    """``library`` stands for pynvml; ``calls`` are (name, time) of what was called, ``samples`` what is allocated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> None:
        self.now = START
        self.gpus = list(gpus)
        self.calls: list[tuple[str, int]] = []
        self.samples: dict[int, tuple[str, int]] = {}
        self.sessions = 0
        self.library = ModuleType("pynvml")
        vars(self.library).update(vars(pynvml))
        for name, answer in self._answers():
            setattr(self.library, name, self._function(name, answer))
        clock = SimpleNamespace(monotonic=lambda: self.now / 1e9, monotonic_ns=lambda: self.now)
        for module in (nvml, nvml_calls, nvml_device, nvml_gpm):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(nvml_utilization, "read_clocks", lambda: Clocks(self.now, self.now + 10**15, self.now * 2))
        monkeypatch.setattr(nvml_events, "PAUSE_S", 0.01)

    def times(self, name: str) -> list[int]:
        return [at for called, at in self.calls if called == name]

    @property
    def _all(self) -> list[Gpu]:
        return [*self.gpus, *(one for gpu in self.gpus for one in gpu.slices.values())]

    def _function(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            of_gpu = bool(arguments) and isinstance(arguments[0], pynvml.c_nvmlDevice_t)
            gpu = self._gpu(arguments[0]) if of_gpu else None
            self.calls.append((name, self.now))
            if gpu and name in gpu.takes_s:
                self.now += int(gpu.takes_s[name] * 1e9)
            for one in [gpu] if gpu else self.gpus:
                if name in one.fails or (gpu and "*" in one.fails):
                    raise error(one.fails.get(name, one.fails.get("*", 0)))
            return answer(gpu, *arguments[1:]) if gpu else answer(*arguments)

        call.__name__ = name
        return call

    def _gpu(self, argument: Any) -> Gpu:
        for gpu in self._all:
            if address(gpu.handle) == address(argument):
                return gpu
        raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)  # a handle of what is there no more

    def _answers(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        def refuse(*arguments: Any) -> Any:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)

        for name in dir(pynvml):
            if name.startswith("nvmlDeviceGet"):
                yield name, refuse
        yield "nvmlInit", lambda: setattr(self, "sessions", self.sessions + 1)
        yield "nvmlShutdown", lambda: setattr(self, "sessions", self.sessions - 1)
        yield "nvmlSystemGetDriverVersion", lambda: "595.45"
        yield "nvmlDeviceGetCount", lambda: len(self.gpus)
        yield "nvmlDeviceGetHandleByIndex", lambda index: self.gpus[index].handle
        yield "nvmlDeviceGetHandleByUUID", self._by_uuid
        yield "nvmlDeviceGetUUID", lambda gpu: gpu.uuid
        yield "nvmlDeviceGetName", lambda gpu: gpu.name
        yield "nvmlDeviceGetUtilizationRates", self._rates
        yield "nvmlDeviceGetMemoryInfo", lambda gpu, version=None: SimpleNamespace(total=80, used=20)
        yield "nvmlDeviceGetMigMode", self._mig_mode
        yield "nvmlDeviceGetMaxMigDeviceCount", lambda gpu: 7
        yield "nvmlDeviceGetMigDeviceHandleByIndex", self._slice
        yield "nvmlDeviceGetGpuInstanceId", self._instance
        yield "nvmlGpmQueryDeviceSupport", lambda gpu: SimpleNamespace(isSupportedDevice=int(gpu.gpm))
        yield "nvmlGpmSampleAlloc", self._alloc
        yield "nvmlGpmSampleFree", lambda sample: self.samples.pop(address(sample))
        yield "nvmlGpmSampleGet", self._take
        yield "nvmlGpmMigSampleGet", lambda gpu, instance, sample: self._take(self._cut(gpu, instance), sample)
        yield "nvmlGpmMetricsGet", self._metrics
        yield "nvmlEventSetCreate", refuse

    def _by_uuid(self, uuid: str) -> Any:
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                if "*" in gpu.fails:
                    raise error(gpu.fails["*"])
                return gpu.handle
        raise error(pynvml.NVML_ERROR_NOT_FOUND)

    def _rates(self, gpu: Gpu) -> Any:
        if gpu.rates is None or gpu.mig:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=gpu.rates, memory=gpu.rates // 2)

    def _mig_mode(self, gpu: Gpu) -> list[int]:
        if gpu.mig is None:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [gpu.mig, gpu.mig]

    def _slice(self, gpu: Gpu, index: int) -> Any:
        if index >= len(gpu.slices):
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return list(gpu.slices.values())[index].handle

    def _instance(self, gpu: Gpu) -> int:
        """Instances from 100 on stand for a second compute instance of the GPU instance with 100 less."""
        return next(number for one in self.gpus for number, cut in one.slices.items() if cut is gpu) % 100

    def _cut(self, gpu: Gpu, instance: int) -> Gpu:
        if instance not in gpu.slices:
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return gpu.slices[instance]

    def _alloc(self) -> Any:
        sample = ctypes.cast(next(_numbers), pynvml.c_nvmlGpmSample_t)
        self.samples[address(sample)] = "", 0
        return sample

    def _take(self, gpu: Gpu, sample: Any) -> None:
        if "nvmlGpmSampleGet" in gpu.fails:
            raise error(gpu.fails["nvmlGpmSampleGet"])
        self.samples[address(sample)] = gpu.uuid, self.now

    def _metrics(self, request: Any) -> None:
        before_uuid, before = self.samples[address(request.sample1)]
        uuid, at = self.samples[address(request.sample2)]
        assert uuid == before_uuid, "samples of two devices"
        assert at - before >= 0.1e9, "a pair that is too close, or the wrong way round"
        gpu = next(one for one in self._all if one.uuid == uuid)
        for index in range(request.numMetrics):
            answer = request.metrics[index]
            if answer.metricId == 248:
                answer.nvmlReturn = 0 if gpu.cycles else pynvml.NVML_ERROR_NOT_SUPPORTED
                answer.value = 1e9 if gpu.frozen else float(at)
                continue
            number = gpu.busy.get(answer.metricId, 1000.0 + pynvml.NVML_ERROR_NOT_SUPPORTED)
            answer.nvmlReturn, answer.value = (int(number) - 1000, 0.0) if 1000 <= number < 2000 else (0, number)
