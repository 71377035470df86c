"""NVML's small parts: wrapping counters, schedules, whose processes, a foreign pynvml."""

from __future__ import annotations

import sys
import types

import pytest

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.devices import nvml_calls
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_fields import Unwrap
from gaptop_collectors.devices.nvml_processes import Occupants, occupants

pynvml = pytest.importorskip("pynvml")


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ([10, 20, 30], [10, 20, 30]),
        ([2**32 - 5, 7, 9], [2**32 - 5, 2**32 + 7, 2**32 + 9]),
        ([2**32 - 5, 7, 2**32 - 1, 1], [2**32 - 5, 2**32 + 7, 2**33 - 1, 2**33 + 1]),
        ([1000, 3], [1000, 3]),
        ([2**40, 5], [2**40, 5]),
    ],
)
def test_a_wrap_is_no_restart_and_a_restart_no_wrap(raw: list[int], seen: list[int]) -> None:
    counter = Unwrap()
    assert [counter.read(number) for number in raw] == seen


def test_slow_calls_are_made_less_often_and_then_as_before() -> None:
    timer = Timer(0.5)
    assert timer.due(0.0)
    timer.done(0.0, 0.001)
    assert not timer.due(0.4)
    assert timer.due(0.48)  # a little early is in time
    timer.done(0.5, 0.1)
    assert not timer.due(1.4)
    timer.done(1.5, 0.1)
    timer.done(3.5, 0.1)
    timer.done(7.5, 0.1)
    assert not timer.due(7.5 + 3.9)
    assert timer.due(7.5 + 4.0)
    for moment in (11.5, 13.5, 14.5):
        timer.done(moment, 0.001)
    assert timer.due(15.0)


@pytest.mark.parametrize(
    ("listed", "ours", "here", "pids", "foreign"),
    [
        ([], [5], [5], (), 0),
        ([5, 6], [5], [5, 6], (5,), 1),
        ([7], [5], [5, 7], (), 1),
        ([70000], [5], [5], None, None),
        ([5, 70000], [5], [5], None, None),
        ([5], [], [5], None, None),
        ([], [], [], (), 0),
    ],
)
def test_occupants(
    listed: list[int], ours: list[int], here: list[int], pids: tuple[int, ...] | None, foreign: int | None
) -> None:
    found = occupants(listed, ours, here.__contains__)
    assert (found.pids, found.foreign) == (pids, foreign)
    assert bool(found.why) == (foreign is None)
    assert found.foreign is None or isinstance(found, Occupants)


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_NO_PERMISSION, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_NOT_FOUND, Trouble.NOTHING_NEW),
        (pynvml.NVML_ERROR_GPU_IS_LOST, Trouble.LOST),
        (pynvml.NVML_ERROR_UNKNOWN, Trouble.LOST),
        (12345, Trouble.LOST),
    ],
)
def test_every_error_has_a_meaning(code: int, trouble: Trouble) -> None:
    def call() -> None:
        raise pynvml.NVMLError(code)

    with pytest.raises(CallFailed) as failed:
        Calls(pynvml)(call)
    assert failed.value.trouble is trouble
    assert failed.value.code == code
    assert failed.value.says


def test_the_bindings_other_error_class_is_an_old_driver() -> None:
    def call() -> None:
        raise pynvml.NVMLLibraryMismatchError("unversioned")

    calls = Calls(pynvml)
    with pytest.raises(CallFailed) as failed:
        calls(call)
    assert failed.value.trouble is Trouble.UNSUPPORTED
    assert "too old" in calls.why(failed.value)


def test_slow_calls_are_noted_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(nvml_calls, "time", types.SimpleNamespace(monotonic=lambda: now[0], monotonic_ns=lambda: 0))

    def slow() -> None:
        now[0] += 0.03

    calls = Calls(pynvml)
    for _ in range(5):
        calls(slow)
    (note,) = calls.notes()
    assert note.what == "our_slow_call"  # type: ignore[union-attr]
    assert calls.notes() == []
    now[0] += 20
    calls(slow)
    (note,) = calls.notes()
    assert note.data["not_noted"] == 4  # type: ignore[union-attr]


def test_another_package_called_pynvml_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", types.ModuleType("pynvml"))
    with pytest.raises(CollectorError, match="pip uninstall"):
        nvml_calls.load()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(CollectorError, match="pip install nvidia-ml-py"):
        nvml_calls.load()
