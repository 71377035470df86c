"""Calling NVML: what its errors mean, and how long its calls take."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, Final, TypeVar

from gaptop_collectors.collector import Json, Message, Note
from gaptop_collectors.devices.nvml_cost import SLOW_S, OwnCost, sentence
from gaptop_collectors.devices.nvml_machine import ORDINARY, Machine

T = TypeVar("T")
NAME: Final = "devices.nvml"
NOTE_EVERY_S: Final = 1.0
"""One note of a slow call a second is enough for a valley to tell that they coincide."""
STRIKES: Final = 3
"""Failures in a row of one call, on a GPU that answers others, after which it is asked no more."""


class Trouble(Enum):
    """What a failed call means for the thing asked for."""

    NOTHING_NEW = "nothing new"
    UNSUPPORTED = "not supported"
    LOST = "lost"


class CallFailed(Exception):
    """An NVML call failed: ``trouble``, the driver's words and the code."""

    def __init__(self, trouble: Trouble, says: str, code: int) -> None:
        super().__init__(says)
        self.trouble = trouble
        self.says = says
        self.code = code


class Calls:
    """Calls with their errors sorted out and their time taken. Used by one thread. ``machine``: where they are made."""

    def __init__(self, nvml: ModuleType, machine: Machine = ORDINARY) -> None:
        self.nvml = nvml
        self.machine = machine
        self.last_seconds = 0.0
        """What the last call took, without what this thread waited for a core in it."""
        self.cost = OwnCost()
        self.source: str | None = None
        """The source for which is being asked."""
        self._waited_ns = waited_ns()
        self._waited_s = 0.0
        self._unseen = {
            nvml.NVML_ERROR_NOT_FOUND,
            nvml.NVML_ERROR_NOT_READY,
            nvml.NVML_ERROR_TIMEOUT,
            nvml.NVML_ERROR_IN_USE,
            nvml.NVML_ERROR_MEMORY,
            nvml.NVML_ERROR_NO_DATA,
            nvml.NVML_ERROR_INSUFFICIENT_SIZE,  # a list that grew between asking for its size and for itself
            nvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
        }
        self._too_old = {
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        }
        self._unsupported = self._too_old | {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_CORRUPTED_INFOROM,
            nvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
            nvml.NVML_ERROR_FREQ_NOT_SUPPORTED,
            nvml.NVML_ERROR_DEPRECATED,
        }
        self._notes: list[Message] = []
        self._noted_at = float("-inf")
        self._noted_seconds = 0.0
        self._not_noted = 0

    @property
    def stretch(self) -> int:
        """How many times less often than usual to ask, for our calls cost too much: see OwnCost."""
        return self.cost.stretch

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """Raises CallFailed. NVMLError is unhashable and compares only with its like, so codes are compared instead."""
        began = time.monotonic()
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            code = int(error.value)
            raise CallFailed(self.trouble(code), str(error).rstrip("."), code) from None
        except self.nvml.NVMLLibraryMismatchError as error:
            raise CallFailed(Trouble.UNSUPPORTED, str(error), self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND) from None
        finally:
            seconds = self.last_seconds = time.monotonic() - began
            if seconds > SLOW_S:
                self.last_seconds = max(0.0, seconds - self._waited())
            self.cost.add(seconds, self.last_seconds)
            if self.last_seconds > SLOW_S:
                self._slow(getattr(function, "__name__", "NVML").lstrip("_"), seconds)

    def trouble(self, code: int) -> Trouble:
        if code in self._unseen:
            return Trouble.NOTHING_NEW
        return Trouble.UNSUPPORTED if code in self._unsupported else Trouble.LOST

    def why(self, failed: CallFailed) -> str:
        """The reason for a signal's absence, as a phrase."""
        if failed.code == self.nvml.NVML_ERROR_NO_PERMISSION:
            return "this user may not read it; run gaptop with sudo"
        if failed.code in self._too_old:
            return "this driver is too old to offer it"
        if failed.trouble is Trouble.UNSUPPORTED:
            return "this GPU does not offer it"
        return f"asking for it fails ({failed.says})"

    def begin(self) -> None:
        """A round of calls begins: what this thread waited for a core until now was not in a call."""
        self._waited_ns, self._waited_s, self.source = waited_ns(), 0.0, None

    def _waited(self) -> float:
        """Seconds that this thread waited for a core since it was last asked: a busy host is no slow driver."""
        before, self._waited_ns = self._waited_ns, waited_ns()
        waited = (self._waited_ns - before) / 1e9
        self._waited_s += waited
        return waited

    def _slow(self, name: str, seconds: float) -> None:
        now = time.monotonic()
        if now - self._noted_at < NOTE_EVERY_S and seconds < 10 * self._noted_seconds:
            self._not_noted += 1
            return
        says = f"gaptop's own call of {name} took {seconds * 1000:.0f} ms and may have held the driver's lock"
        data: dict[str, Json] = {
            "collector": NAME,
            "call": name,
            "seconds": round(seconds, 4),
            "not_noted": self._not_noted,
        }
        self._notes.append(Note(time.monotonic_ns(), "our_slow_call", f"{says}.", self.source, data))
        self._noted_at, self._noted_seconds, self._not_noted = now, seconds, 0

    def notes(self) -> list[Message]:
        """What there is to tell of our own calls since the last time; to be asked after each round of them.

        A slow call's note has the time of its end, and its length in ``seconds``: one a second, and more only for much
        slower ones. A change of ``stretch`` is a note of its own.
        """
        notes, self._notes = self._notes, []
        self._waited()
        change = self.cost.judge(time.monotonic(), self._waited_s)
        if change:
            data: dict[str, Json] = {"stretch": change.stretch, "slowest": round(change.slowest, 4)}
            if change.share is not None:
                data["share"] = round(change.share, 5)
            notes.append(Note(time.monotonic_ns(), "nvml_backoff", sentence(change), None, data))
        return notes


def waited_ns() -> int:
    """How long this thread has waited for a core so far; 0 where the kernel does not tell."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


class Timer:
    """When a group of calls is due again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due = float("-inf")

    def due(self, now: float) -> bool:
        return now >= self._due

    def asked(self, now: float, stretch: float = 1) -> None:
        """It was asked now; the next time is ``stretch`` times its usual distance later."""
        # A little early still counts, so that the caller's own grid does not double the distance.
        self._due = now + self.seconds * stretch - 0.03
