"""NVML's small parts: wrapping counters, schedules, whose processes, a foreign pynvml."""

from __future__ import annotations

import sys
import types
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gaptop_collectors.collector import CollectorError, Note
from gaptop_collectors.devices import nvml_calls, nvml_start
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_fields import ENERGY, PCIE_RX, PCIE_TX, TOTAL_ENERGY, Fields, Unwrap
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


def test_a_timer_is_due_after_its_distance_stretched() -> None:
    timer = Timer(0.5)
    assert timer.due(0.0)
    timer.asked(0.0)
    assert not timer.due(0.4)
    assert timer.due(0.48)  # a little early is in time
    timer.asked(0.5, 8)
    assert not timer.due(4.4)
    assert timer.due(4.5)


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
    ("listed", "pids", "foreign"), [([], None, None), ([6], None, None), ([5], (5,), 0), ([5, 6], (5,), 1)]
)
def test_in_a_container_only_a_list_that_has_our_own_is_believed(
    listed: list[int], pids: tuple[int, ...] | None, foreign: int | None
) -> None:
    """An empty list may be all that NVML shows there, and a number of the host may exist here by chance."""
    found = occupants(listed, [5], [5, 6].__contains__, away=True)
    assert (found.pids, found.foreign) == (pids, foreign)
    assert ("mapping unknown" in found.why) == (pids is None)


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_NO_PERMISSION, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_CORRUPTED_INFOROM, Trouble.UNSUPPORTED),
        (pynvml.NVML_ERROR_NOT_FOUND, Trouble.NOTHING_NEW),
        (pynvml.NVML_ERROR_TIMEOUT, Trouble.NOTHING_NEW),
        (pynvml.NVML_ERROR_NOT_READY, Trouble.NOTHING_NEW),
        (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, Trouble.NOTHING_NEW),
        (pynvml.NVML_ERROR_GPU_IS_LOST, Trouble.LOST),
        (pynvml.NVML_ERROR_RESET_REQUIRED, Trouble.LOST),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Trouble.LOST),
        (pynvml.NVML_ERROR_OPERATING_SYSTEM, Trouble.LOST),
        (pynvml.NVML_ERROR_UNINITIALIZED, Trouble.LOST),
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
    monkeypatch.setattr(nvml_calls, "waited_ns", lambda: 0)

    def slow() -> None:
        now[0] += 0.03

    def noted() -> list[Note]:
        return [note for note in calls.notes() if isinstance(note, Note) and note.what == "our_slow_call"]

    calls = Calls(pynvml)
    for _ in range(5):
        calls(slow)
    (note,) = noted()
    assert note.data["collector"] == "devices.nvml"  # by which a valley knows that it was a device's
    assert note.data["seconds"] == pytest.approx(0.03)  # it ended at the note's time
    assert noted() == []
    now[0] += 20
    calls(slow)
    (note,) = noted()
    assert note.data["not_noted"] == 4


@pytest.mark.parametrize("waited_s", [0.0, 0.02, 0.2])
def test_a_call_in_which_we_waited_for_a_core_is_not_the_drivers(
    monkeypatch: pytest.MonkeyPatch, waited_s: float
) -> None:
    now, waited = [100.0], [7.0]
    monkeypatch.setattr(nvml_calls, "time", SimpleNamespace(monotonic=lambda: now[0], monotonic_ns=lambda: 0))
    monkeypatch.setattr(nvml_calls, "waited_ns", lambda: int(waited[0] * 1e9))
    calls = Calls(pynvml)
    waited[0] += 5  # before the round, for instance until it was woken
    calls.begin()

    def call() -> None:
        now[0] += 0.03
        waited[0] += waited_s

    calls(call)
    assert bool(calls.notes()) == (waited_s < 0.01)


def test_the_time_waited_for_a_core_is_a_number() -> None:
    assert nvml_calls.waited_ns() >= 0


def test_a_lost_gpus_counters_begin_again_and_did_not_wrap() -> None:
    answers = [[(PCIE_TX, 3_000_000_000.0)], [(PCIE_TX, 5.0)]]
    fields = Fields(Calls(fields_library(answers)))
    assert fields.read(None)["device.pcie_tx"] == 3e9
    fields.restart()
    assert fields.read(None)["device.pcie_tx"] == 5.0


def test_the_drivers_own_latency_is_a_mean_of_what_it_tells() -> None:
    fields = Fields(Calls(fields_library([[(PCIE_TX, 1.0), (PCIE_RX, 2.0)], [(PCIE_TX, 3.0)]], [[20, 40], [0]])))
    assert fields.read(None)["device.own_latency"] == pytest.approx(30e-6)
    values = fields.read(None)
    assert "device.own_latency" not in values  # not told is not zero
    assert "does not tell" in fields.unsupported["device.own_latency"]


def test_energy_is_not_lost_when_only_the_older_field_answers_at_first() -> None:
    """The newer one is not ready once: the older one must not be given up for that."""
    late = SimpleNamespace(field=ENERGY, code=pynvml.NVML_ERROR_NOT_READY)
    fields = Fields(Calls(fields_library([[(TOTAL_ENERGY, 7000.0), late], [(TOTAL_ENERGY, 8000.0), late]])))
    assert fields.read(None)["device.energy"] == 7.0
    assert fields.read(None)["device.energy"] == 8.0


def fields_library(answers: list[list[Any]], latencies: list[list[int]] | None = None) -> Any:
    """A binding whose GetFieldValues gives these answers in turn: (field, number), or what has a field and a code."""
    library = ModuleType("pynvml")
    vars(library).update(vars(pynvml))
    rounds = iter(zip(answers, latencies or [[0] * len(one) for one in answers], strict=True))

    def ask(handle: Any, fields: list[Any]) -> list[Any]:
        given = {}
        for one, latency in zip(*next(rounds), strict=True):
            field, number = one if isinstance(one, tuple) else (one.field, 0.0)
            code = 0 if isinstance(one, tuple) else one.code
            given[field] = (code, number, latency)
        return [
            SimpleNamespace(
                fieldId=field[0] if isinstance(field, tuple) else field,
                scopeId=field[1] if isinstance(field, tuple) else 0,
                nvmlReturn=given.get(field, (pynvml.NVML_ERROR_NOT_READY, 0, 0))[0],
                valueType=0,
                value=SimpleNamespace(dVal=given.get(field, (0, 0.0, 0))[1]),
                latencyUsec=given.get(field, (0, 0.0, 0))[2],
            )
            for field in fields
        ]

    library.nvmlDeviceGetFieldValues = ask  # type: ignore[attr-defined]
    return library


def test_another_package_called_pynvml_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", types.ModuleType("pynvml"))
    with pytest.raises(CollectorError, match="pip uninstall"):
        nvml_start.load()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(CollectorError, match="pip install nvidia-ml-py"):
        nvml_start.load()
