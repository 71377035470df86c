"""Calling NVML: what its errors mean, how long its calls take, and the sentences for a session that cannot start."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, Final, TypeVar

from gaptop_collectors.collector import CollectorError, Json, Message, Note

T = TypeVar("T")
SLOW_S: Final = 0.02
"""A call longer than this may hold the driver's lock against the server itself: noted, and asked less often."""
NOTE_EVERY_S: Final = 10.0


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


def load() -> ModuleType:
    """The official binding; CollectorError when something else, or nothing, is called pynvml."""
    try:
        import pynvml
    except ImportError:
        raise CollectorError(
            "The Python package nvidia-ml-py is missing, so no GPU can be seen: pip install nvidia-ml-py.",
            state="absent",
            retry=False,
        ) from None
    module: ModuleType = pynvml
    if not hasattr(module, "nvmlDeviceGetFieldValues") or not hasattr(module, "NVMLLibraryMismatchError"):
        raise CollectorError(
            "Another package than nvidia-ml-py (or a very old one) is installed as 'pynvml', so no GPU can be seen: "
            "pip uninstall nvidia-ml-py3 py3nvml pynvml, then pip install --force-reinstall nvidia-ml-py.",
            retry=False,
        )
    return module


def start(nvml: ModuleType) -> int:
    """Open the session; the number of devices. Raises CollectorError with the remedy."""
    try:
        nvml.nvmlInit()
        count = int(nvml.nvmlDeviceGetCount())
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError) as error:
        raise _start_error(nvml, error) from None
    if count == 0:
        raise CollectorError(
            "The NVIDIA driver is loaded but shows no GPU here, so no device lane can be drawn: in a container start "
            "it with --gpus all, else check nvidia-smi -L.",
            state="absent",
        )
    return count


def _start_error(nvml: ModuleType, error: Exception) -> CollectorError:
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return CollectorError(
            "No NVIDIA driver library (libnvidia-ml.so.1) on this machine, so no GPU can be seen: install the driver, "
            "or in a container start it with --gpus all.",
            state="absent",
            retry=False,
        )
    if code == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return CollectorError(
            "The NVIDIA kernel driver is not loaded, so no GPU can be seen: sudo modprobe nvidia (or start the machine "
            "again after installing the driver).",
            state="absent",
        )
    if code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return CollectorError(
            "The NVIDIA library and the loaded kernel driver have different versions (the driver was upgraded), so no "
            "GPU can be seen: reboot, or unload and load the nvidia modules, then start gaptop again.",
            retry=False,
        )
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return CollectorError(
            "This user may not open the NVIDIA devices, so no GPU can be seen: check the rights of /dev/nvidia* (often "
            "the group 'video' or 'render'), or run gaptop with sudo.",
            state="refused",
        )
    if code == nvml.NVML_ERROR_FUNCTION_NOT_FOUND or isinstance(error, nvml.NVMLLibraryMismatchError):
        return CollectorError(
            "The NVIDIA driver is too old for its Python binding, so no GPU can be seen: update the driver.",
            retry=False,
        )
    return CollectorError(
        f"NVML does not start ({error}), so no GPU can be seen: check that nvidia-smi works, and in a container "
        "restart it (a systemctl daemon-reload on the host takes its devices away)."
    )


class Calls:
    """Calls with their errors sorted out and their time taken. Used by one thread."""

    def __init__(self, nvml: ModuleType) -> None:
        self.nvml = nvml
        self.last_seconds = 0.0
        self._unseen = {nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_NOT_READY}
        self._unsupported = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        }
        self._notes: list[Message] = []
        self._noted_at = float("-inf")
        self._noted_seconds = 0.0
        self._not_noted = 0

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
            self.last_seconds = time.monotonic() - began
            if self.last_seconds > SLOW_S:
                self._slow(getattr(function, "__name__", "NVML").lstrip("_"))

    def trouble(self, code: int) -> Trouble:
        if code in self._unseen:
            return Trouble.NOTHING_NEW
        return Trouble.UNSUPPORTED if code in self._unsupported else Trouble.LOST

    def why(self, failed: CallFailed) -> str:
        """The reason for a signal's absence, as a phrase."""
        if failed.code == self.nvml.NVML_ERROR_NO_PERMISSION:
            return "this user may not read it"
        if failed.code in (self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND, self.nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH):
            return "this driver is too old to offer it"
        return "this GPU does not offer it"

    def _slow(self, name: str) -> None:
        now = time.monotonic()
        if now - self._noted_at < NOTE_EVERY_S and self.last_seconds < 10 * self._noted_seconds:
            self._not_noted += 1
            return
        says = f"gaptop's own call of {name} took {self.last_seconds * 1000:.0f} ms and may have held the driver's lock"
        data: dict[str, Json] = {"call": name, "seconds": round(self.last_seconds, 4), "not_noted": self._not_noted}
        self._notes.append(Note(time.monotonic_ns(), "our_slow_call", f"{says}.", None, data))
        self._noted_at, self._noted_seconds, self._not_noted = now, self.last_seconds, 0

    def notes(self) -> list[Message]:
        """The notes since the last time: one in NOTE_EVERY_S seconds, and more only for much slower calls."""
        notes, self._notes = self._notes, []
        return notes


class Timer:
    """When a group of calls is due; doubles its distance (to eight-fold) while the calls are slow."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._factor = 1
        self._due = float("-inf")

    def due(self, now: float) -> bool:
        return now >= self._due

    def done(self, now: float, took: float) -> None:
        self._factor = min(8, self._factor * 2) if took > SLOW_S else max(1, self._factor // 2)
        # A little early still counts, so that the caller's own grid does not double the distance.
        self._due = now + self.seconds * self._factor - 0.03
