"""Xid errors, as the driver reports them: waited for on a thread of its own, for the wait blocks.

The thread never touches what samples. It alone calls NVML for events, and looks between two waits whether it is to end,
so that it is done before nvmlShutdown: a call after that would crash the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from gaptop_collectors.collector import Json, Note
from gaptop_collectors.devices.nvml_xids import meaning

WAIT_MS: Final = 250
"""How long one wait blocks, and so how long closing may take."""
PAUSE_S: Final = 1.0
"""After a wait that failed: a lost GPU fails each at once."""
PATIENCE_S: Final = 0.6
STORM_S: Final = 10.0
"""The same error of the same GPU is told once in so many seconds, then with how often it came."""
_ENDS: Final = frozenset({"NVML_ERROR_UNINITIALIZED", "NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_INVALID_ARGUMENT"})

_WHOLE: Final = 0xFFFFFFFF
"""In the place of a GPU instance: the event is of the whole GPU."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A GPU: its handle, and how it is called on the stream and by people."""

    handle: Any
    uuid: str
    source: str
    label: str


class XidWatch:
    """``unsupported``: GPUs that report no Xids (a MIG slice, vGPU, WSL2, Jetson), which is ordinary there."""

    def __init__(self, nvml: ModuleType) -> None:
        self._nvml = nvml
        self.unsupported: dict[str, str] = {}
        self._notes: queue.SimpleQueue[Note] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._wanted: Sequence[Watched] | None = None
        self._stopping = False
        self._told: dict[tuple[str, int], tuple[float, int]] = {}
        self._thread: threading.Thread | None = None

    def watch(self, gpus: Sequence[Watched]) -> None:
        """Watch these from now on, instead of those before. Comes back at once."""
        with self._changed:
            self._wanted = gpus
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nvml-xids", daemon=True)
            self._thread.start()

    def notes(self) -> list[Note]:
        """What was reported since the last time."""
        notes: list[Note] = []
        with contextlib.suppress(queue.Empty):
            while True:
                notes.append(self._notes.get_nowait())
        return notes

    def close(self) -> bool:
        """Whether the thread has ended, so that NVML may be shut down. A call that hangs in the driver keeps it."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(PATIENCE_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (gpus := self._next()) is not None:
            self.unsupported = {}
            try:
                events = self._nvml.nvmlEventSetCreate()
            except (self._nvml.NVMLError, self._nvml.NVMLLibraryMismatchError) as error:
                self.unsupported = dict.fromkeys((gpu.uuid for gpu in gpus), str(error))
                continue
            try:
                known = {address(gpu.handle): gpu for gpu in gpus if self._registered(gpu, events)}
                while known and not self._interrupted() and self._wait(events, known):
                    pass
            finally:
                with contextlib.suppress(self._nvml.NVMLError):
                    self._nvml.nvmlEventSetFree(events)

    def _next(self) -> Sequence[Watched] | None:
        """The GPUs to watch next, once there are others than before; None to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._wanted is not None)
            gpus, self._wanted = self._wanted, None
            return None if self._stopping else gpus

    def _interrupted(self) -> bool:
        with self._changed:
            return self._stopping or self._wanted is not None

    def _registered(self, gpu: Watched, events: Any) -> bool:
        if self._interrupted():
            return False
        try:
            self._nvml.nvmlDeviceRegisterEvents(gpu.handle, self._nvml.nvmlEventTypeXidCriticalError, events)
        except (self._nvml.NVMLError, self._nvml.NVMLLibraryMismatchError) as error:
            self.unsupported[gpu.uuid] = str(error)
            return False
        return True

    def _wait(self, events: Any, known: dict[int | None, Watched]) -> bool:
        """Wait once; False where no wait can succeed any more."""
        try:
            event = self._nvml.nvmlEventSetWait_v2(events, WAIT_MS)
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_TIMEOUT:
                return True
            if error.value in {getattr(self._nvml, name) for name in _ENDS}:
                self.unsupported = dict.fromkeys((gpu.uuid for gpu in known.values()), str(error))
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._wanted is not None, PAUSE_S)
            return True
        if event.eventType & self._nvml.nvmlEventTypeXidCriticalError:
            self._tell(int(event.eventData), known.get(address(event.device)), int(event.gpuInstanceId))
        return True

    def _tell(self, number: int, gpu: Watched | None, instance: int) -> None:
        now = time.monotonic()
        key = (gpu.uuid if gpu else "", number)
        told, kept = self._told.get(key, (float("-inf"), 0))
        if now - told < STORM_S:
            self._told[key] = told, kept + 1
            return
        self._told[key] = now, 0
        says = f"{gpu.label if gpu else 'A GPU'}: {meaning(number)}"
        data: dict[str, Json] = {"xid": number, "uuid": gpu.uuid if gpu else None}
        if instance != _WHOLE:
            data["gpu_instance"] = instance
            says += f" It is of the MIG slices of GPU instance {instance}."
        if kept:
            data["not_noted"] = kept
            says += f" It came {kept} more times since it was last told."
        self._notes.put(Note(time.monotonic_ns(), "xid", says, gpu.source if gpu else None, data))


def address(handle: Any) -> int | None:
    """What tells two of the binding's device handles apart: the pointer in them."""
    return ctypes.cast(handle, ctypes.c_void_p).value
