"""The MIG slices of one GPU: which there are, followed while they come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gaptop_collectors.collector import Message, Note
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_slice import Cut, NvmlSlice, Parent
from gaptop_collectors.target import Processes

SCAN_S: Final = 5.0
_PROFILE: Final = re.compile(r"\bMIG (\S+)$")


class MigSlices:
    """``on``: MIG is on. ``reached``: how far each slice, also of an earlier session, has been told."""

    def __init__(
        self, calls: Calls, uuid: str, label: str, index: int, processes: Processes | None, reached: Mapping[str, int]
    ) -> None:
        self._calls = calls
        self._uuid, self._label, self._index = uuid, label, index
        self._processes = processes
        self.on = False
        self._asked = True
        self._slices: dict[str, NvmlSlice] = {}
        self._reached = dict(reached)
        self._was_on = False
        self._timer = Timer(SCAN_S)

    @property
    def pids(self) -> Sequence[int]:
        """For any thread."""
        return [pid for one in list(self._slices.values()) for pid in one.pids]

    @property
    def gpm(self) -> bool:
        """Whether a slice tells its utilisation."""
        return any(one.gpm for one in self._slices.values())

    @property
    def count(self) -> int:
        return len(self._slices)

    @property
    def reached(self) -> dict[str, int]:
        return self._reached | {uuid: one.last_ns for uuid, one in self._slices.items()}

    def look(self, handle: Any, now: int) -> list[Message]:
        """Every SCAN_S seconds, or sooner when a slice is doubtful: see whether MIG is on, and which slices there are.

        A failure that may pass changes nothing: whether the GPU itself is lost, other calls tell. Raises CallFailed
        where GPM says so.
        """
        if not self._asked:
            return []
        early = SCAN_S - 1 if any(one.doubtful for one in self._slices.values()) else 0
        if not self._timer.due(now / 1e9 + early):
            return []
        self._timer.asked(now / 1e9, self._calls.stretch)
        self._was_on = self.on
        try:
            on = self._is_on(handle)
            found = {cut.uuid: cut for cut in self._cuts(handle)} if on else {}
        except CallFailed:
            return []
        self.on = on
        return self._follow(handle, found, now)

    def _is_on(self, handle: Any) -> bool:
        try:
            return bool(self._calls(self._calls.nvml.nvmlDeviceGetMigMode, handle)[0] == 1)
        except CallFailed as failed:
            if failed.trouble is not Trouble.UNSUPPORTED:
                raise
            self._asked = False
            return False

    def sample(self, now: int) -> list[Message]:
        return [message for one in self._slices.values() for message in one.sample(now)]

    def fail(self, now: int) -> list[Message]:
        """The GPU does not answer, so its slices have a hole; the next look finds them again."""
        self._timer = Timer(SCAN_S)
        return [message for one in self._slices.values() for message in one.fail(now, "the GPU does not answer")]

    def close(self) -> None:
        """Free what was opened: before nvmlShutdown."""
        for one in self._slices.values():
            one.close()

    def _follow(self, handle: Any, found: Mapping[str, Cut], now: int) -> list[Message]:
        messages: list[Message] = []
        for uuid, one in list(self._slices.items()):
            if uuid not in found:
                messages += one.fail(now, "the MIG slice was taken away")
                messages.append(self._note(now, one, "is gone"))
            elif not one.lost and one.cut.instance == found[uuid].instance:
                continue
            else:
                one.close()
            self._reached[uuid] = self._slices.pop(uuid).last_ns
        for uuid, cut in found.items():
            if uuid not in self._slices:
                messages += self._open(handle, cut, now)
        instances = [cut.instance for cut in found.values()]
        for one in self._slices.values():
            one.shared = instances.count(one.cut.instance) > 1
        return messages

    def _open(self, handle: Any, cut: Cut, now: int) -> list[Message]:
        parent = Parent(self._uuid, self._label, self._index, handle)
        known = cut.uuid in self._reached
        one = NvmlSlice(self._calls, parent, cut, self._processes, self._reached.get(cut.uuid, now))
        one.open()
        self._slices[cut.uuid] = one
        return [self._note(now, one, "appeared")] if self._was_on and not known else []

    def _note(self, now: int, one: NvmlSlice, what: str) -> Note:
        says = f"MIG slice {one.cut.profile} ({one.cut.uuid}) of {self._label} {what}."
        return Note(now, "mig_changed", says, one.source, {"uuid": one.cut.uuid, "slice": one.cut.profile})

    def _cuts(self, handle: Any) -> Iterator[Cut]:
        nvml = self._calls.nvml
        for index in range(self._calls(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)):
            try:
                device = self._calls(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
                uuid = str(self._calls(nvml.nvmlDeviceGetUUID, device))
                name = str(self._calls(nvml.nvmlDeviceGetName, device))
                instance = int(self._calls(nvml.nvmlDeviceGetGpuInstanceId, device))
            except CallFailed as failed:
                if failed.trouble is not Trouble.UNSUPPORTED and failed.code != nvml.NVML_ERROR_NOT_FOUND:
                    raise
                continue  # a place without a slice, or one that was just taken away
            profile = _PROFILE.search(name)
            yield Cut(uuid, name, profile[1] if profile else f"slice {index}", instance, device)
