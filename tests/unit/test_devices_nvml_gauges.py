"""The slowly asked gauges against a scripted driver."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gaptop_collectors.devices import nvml_calls
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls
from gaptop_collectors.devices.nvml_gauges import PROCESSES_S, SELDOM_S, Gauges
from gaptop_collectors.target import Processes, ServerProcess

pynvml = pytest.importorskip("pynvml")


class Server(Processes):
    def current(self) -> Sequence[ServerProcess]:
        return [ServerProcess(1, "engine", "engine", True, 0)]

    def why_empty(self) -> str:
        return ""


class Driver:
    """Answers everything; ``now`` is moved by hand, ``listing_s`` is how long the process list takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.listing_s = 0.001
        self.listings = 0
        self.fails: dict[str, int] = {}
        library = ModuleType("pynvml")
        vars(library).update(vars(pynvml))
        answers: dict[str, Any] = {
            "nvmlDeviceGetClockInfo": 1000,
            "nvmlDeviceGetCurrentClocksEventReasons": 4,
            "nvmlDeviceGetTemperature": 55,
            "nvmlDeviceGetEnforcedPowerLimit": 300_000,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80, used=20),
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=1)],
        }
        for name, answer in answers.items():
            setattr(library, name, self._function(name, answer))
        clock = SimpleNamespace(monotonic=lambda: self.now, monotonic_ns=lambda: int(self.now * 1e9))
        monkeypatch.setattr(nvml_calls, "time", clock)
        monkeypatch.setattr(nvml_calls, "waited_ns", lambda: 0)
        self.gauges = Gauges(Calls(library), Server())

    def _function(self, name: str, answer: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if name in self.fails:
                raise pynvml.NVMLError(self.fails[name])
            if name == "nvmlDeviceGetComputeRunningProcesses":
                self.now += self.listing_s
                self.listings += 1
            return answer

        return call

    def read(self, seconds_later: float = 0.0) -> dict[str, float]:
        self.now += seconds_later
        values: dict[str, float] = {}
        self.gauges.read(None, self.now, values)
        return values


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(monkeypatch)


def test_each_group_has_its_own_distance(driver: Driver) -> None:
    assert len(driver.read()) == 8
    assert driver.read(0.25) == {}
    assert set(driver.read(0.25)) == {"device.clock_sm", "device.clock_memory", "device.limit_reasons"}
    assert "device.memory_used" in driver.read(1.5)
    assert "device.foreign_processes" not in driver.read(1.0)
    assert driver.read(2.0)["device.foreign_processes"] == 0


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH])
def test_an_old_drivers_memory_is_read_in_its_own_way(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    library = driver.gauges._nvml

    def older(handle: Any, version: Any = None) -> Any:
        if version is not None:
            raise pynvml.NVMLError(code)
        return SimpleNamespace(total=80, used=21)

    monkeypatch.setattr(library, "nvmlDeviceGetMemoryInfo", older)
    assert driver.read()["device.memory_used"] == 21


def test_a_process_list_that_takes_long_is_asked_for_seldom(driver: Driver) -> None:
    driver.listing_s = 0.005
    driver.read()
    driver.read(5)
    assert driver.listings == 2
    driver.read(20)
    assert driver.listings == 2
    assert driver.gauges.periods["device.foreign_processes"] == SELDOM_S
    driver.listing_s = 0.001
    driver.read(10)
    driver.read(5)
    assert driver.listings == 4
    assert driver.gauges.periods["device.foreign_processes"] == PROCESSES_S


def test_gpus_that_share_the_hosts_memory_say_so(driver: Driver) -> None:
    driver.fails = {"nvmlDeviceGetMemoryInfo": pynvml.NVML_ERROR_NOT_SUPPORTED}
    gauges = Gauges(driver.gauges._calls, Server(), shares_memory=True)
    gauges.read(None, driver.now, {})
    assert "shares the host's memory" in gauges.unsupported["device.memory_used"]
    driver.read()
    assert "shares" not in driver.gauges.unsupported["device.memory_used"]


def test_a_process_list_that_is_slow_twice_is_given_up(driver: Driver) -> None:
    driver.listing_s = 0.05
    driver.read()
    assert "device.foreign_processes" not in driver.gauges.unsupported
    driver.read(20)
    assert "50 ms" in driver.gauges.unsupported["device.foreign_processes"]
    driver.read(100)
    assert driver.listings == 2


def test_what_is_not_supported_is_asked_once_and_a_lost_gpu_is_told(driver: Driver) -> None:
    driver.fails = {"nvmlDeviceGetMemoryInfo": pynvml.NVML_ERROR_NOT_SUPPORTED}
    values = driver.read()
    assert "device.memory_total" not in values
    assert driver.gauges.unsupported.keys() == {"device.memory_total", "device.memory_used"}
    driver.fails = {"nvmlDeviceGetTemperature": pynvml.NVML_ERROR_GPU_IS_LOST}
    with pytest.raises(CallFailed):
        driver.read(10)
