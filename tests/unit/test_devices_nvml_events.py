"""The thread that waits for Xids, against a driver whose waits a test answers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gaptop_collectors.collector import Note
from gaptop_collectors.devices import nvml_events
from gaptop_collectors.devices.nvml_events import Watched, XidWatch
from gaptop_collectors.devices.nvml_xids import meaning
from tests.unit.nvml_scripted import error, handle, pynvml


class Driver:
    """``answers`` is what the waits give in turn: an event, or an error's code; without one they time out at once.
    ``refuse``: uuid and code of GPUs that report none. ``threads``: who called."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.refuse: dict[int, int] = {}
        self.waits = 0
        self.sets = 0
        self.registered: list[Any] = []
        self.hang: threading.Event | None = None
        self.over = False
        self.late: list[str] = []
        self.library = ModuleType("pynvml")
        vars(self.library).update(vars(pynvml))
        for name in ("nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2", "nvmlEventSetFree"):
            setattr(self.library, name, self._noting(name, getattr(self, name)))

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self.over:
                self.late.append(name)
            return function(*arguments)

        return call

    def nvmlEventSetCreate(self) -> object:
        self.sets += 1
        return object()

    def nvmlEventSetFree(self, events: object) -> None:
        self.sets -= 1

    def nvmlDeviceRegisterEvents(self, device: Any, types: int, events: object) -> None:
        assert types == pynvml.nvmlEventTypeXidCriticalError
        if id(device) in self.refuse:
            raise error(self.refuse[id(device)])
        self.registered.append(device)

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> Any:
        assert timeout_ms <= 1000
        self.waits += 1
        if self.hang:
            self.hang.wait(30)
        try:
            answer = self.answers.get(timeout=0.01)
        except queue.Empty:
            raise error(pynvml.NVML_ERROR_TIMEOUT) from None
        if isinstance(answer, int):
            raise error(answer)
        return answer


def xid(device: Any, number: int, instance: int = 0xFFFFFFFF) -> Any:
    return SimpleNamespace(device=device, eventType=8, eventData=number, gpuInstanceId=instance)


def gpu(number: int) -> Watched:
    return Watched(handle(), f"GPU-{number}", f"nvml/GPU-{number}", f"GPU {number} (H100)")


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def watch(driver: Driver) -> Iterator[XidWatch]:
    made = XidWatch(driver.library)
    yield made
    made.close()


def until(condition: Callable[[], Any]) -> None:
    late = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.005)


def told(watch: XidWatch, count: int) -> list[Note]:
    notes: list[Note] = []

    def enough() -> bool:
        notes.extend(watch.notes())
        return len(notes) >= count

    until(enough)
    return notes


def test_an_xid_is_a_note_with_its_number_gpu_and_meaning(driver: Driver, watch: XidWatch) -> None:
    one, two = gpu(0), gpu(1)
    watch.watch([one, two])
    driver.answers.put(xid(two.handle, 79))
    (note,) = told(watch, 1)
    assert (note.what, note.source) == ("xid", "nvml/GPU-1")
    assert note.data == {"xid": 79, "uuid": "GPU-1"}
    assert note.says.startswith("GPU 1 (H100): Xid 79: the GPU has fallen off the bus")
    assert abs(note.time_ns - time.monotonic_ns()) < 30e9


def test_an_event_of_a_mig_slice_names_its_gpu_instance(driver: Driver, watch: XidWatch) -> None:
    one = gpu(0)
    watch.watch([one])
    driver.answers.put(xid(one.handle, 43, instance=9))
    (note,) = told(watch, 1)
    assert note.data["gpu_instance"] == 9
    assert "GPU instance 9" in note.says


def test_an_event_of_an_unknown_device_is_told_without_one(driver: Driver, watch: XidWatch) -> None:
    watch.watch([gpu(0)])
    driver.answers.put(xid(handle(), 13))
    (note,) = told(watch, 1)
    assert note.source is None
    assert note.data["uuid"] is None


def test_timeouts_and_a_lost_gpu_end_nothing_and_do_not_spin(
    driver: Driver, watch: XidWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_events, "PAUSE_S", 0.2)
    one = gpu(0)
    watch.watch([one])
    until(lambda: driver.waits >= 3)
    for _ in range(5):
        driver.answers.put(pynvml.NVML_ERROR_GPU_IS_LOST)
    began, before = time.monotonic(), driver.waits
    driver.answers.put(xid(one.handle, 31))
    assert told(watch, 1)[0].data["xid"] == 31
    assert time.monotonic() - began >= 0.8
    assert driver.waits - before <= 7


def test_gpus_that_report_none_are_an_ordinary_state(driver: Driver, watch: XidWatch) -> None:
    one, two = gpu(0), gpu(1)
    driver.refuse = {id(one.handle): pynvml.NVML_ERROR_NOT_SUPPORTED}
    watch.watch([one, two])
    until(lambda: driver.waits)
    assert watch.unsupported.keys() == {"GPU-0"}
    driver.refuse[id(two.handle)] = pynvml.NVML_ERROR_NOT_SUPPORTED
    watch.watch([one, two])
    until(lambda: watch.unsupported.keys() == {"GPU-0", "GPU-1"})
    until(lambda: driver.sets == 0)
    waits = driver.waits
    time.sleep(0.1)  # nothing is waited for any more: there is no condition that this would become
    assert driver.waits == waits
    assert watch.close()


def test_after_a_gpu_came_back_its_new_handle_is_registered(driver: Driver, watch: XidWatch) -> None:
    watch.watch([gpu(0)])
    until(lambda: driver.waits)
    again = gpu(0)
    watch.watch([again])
    until(lambda: driver.registered[-1] is again.handle)
    driver.answers.put(xid(again.handle, 43))
    assert told(watch, 1)[0].source == "nvml/GPU-0"
    until(lambda: driver.sets == 1)


def test_a_storm_of_one_error_is_told_once_with_its_number(
    driver: Driver, watch: XidWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = gpu(0)
    watch.watch([one])
    for _ in range(50):
        driver.answers.put(xid(one.handle, 13))
    driver.answers.put(xid(one.handle, 31))
    assert [note.data["xid"] for note in told(watch, 2)] == [13, 31]
    monkeypatch.setattr(nvml_events, "STORM_S", 0.0)
    driver.answers.put(xid(one.handle, 13))
    (note,) = told(watch, 1)
    assert note.data["not_noted"] == 49


def test_closing_is_prompt_and_no_call_comes_after_it(driver: Driver, watch: XidWatch) -> None:
    before = set(threading.enumerate())
    watch.watch([gpu(0)])
    until(lambda: driver.waits)
    assert watch.close()
    driver.over = True
    assert driver.sets == 0
    assert set(threading.enumerate()) <= before
    assert driver.late == []


def test_closing_before_anything_was_watched(watch: XidWatch) -> None:
    assert watch.close()


def test_a_wait_that_hangs_is_told_so_that_the_session_stays_open(
    driver: Driver, watch: XidWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_events, "PATIENCE_S", 0.05)
    driver.hang = threading.Event()
    watch.watch([gpu(0)])
    until(lambda: driver.waits)
    assert not watch.close()
    driver.hang.set()
    monkeypatch.setattr(nvml_events, "PATIENCE_S", 30)
    assert watch.close()


@pytest.mark.parametrize("number", [13, 31, 43, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 109, 119, 120])
def test_well_known_numbers_have_a_meaning_and_a_remedy(number: int) -> None:
    assert meaning(number).startswith(f"Xid {number}: ")
    assert "Remedy: " in meaning(number)
    assert "NVIDIA's list" not in meaning(number)


def test_an_unknown_number_says_where_to_look() -> None:
    assert "NVIDIA's list" in meaning(999)
