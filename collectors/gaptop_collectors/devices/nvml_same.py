"""A check on the driver: several GPUs that answer the same utilisation, window for window, are one answer copied.

One report tells of a driver whose utilisation call gave every GPU of the host the value of one. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from gaptop_collectors.devices.nvml_utilization import Row

ENOUGH: Final = 20
NEAR_NS: Final = 200_000_000
"""Windows whose ends lie within one W of each other are the same one."""
SAYS: Final = (
    "Every GPU here answers the very same utilisation, window for window: this driver seems to give one GPU's value "
    "for all, so trust none of these lanes; power, clocks and GPM are each GPU's own."
)


class SameReadings:
    """Counts windows in which all GPUs read the same. Only telling ones count: neither idle nor full, and another value
    than in the window before, for ranks that work in step agree for long in what does not change."""

    def __init__(self) -> None:
        self._rows: dict[str, deque[Row]] = {}
        self._before: float | None = None
        self.count = 0

    @property
    def found(self) -> bool:
        return self.count >= ENOUGH

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """The new windows of each whole GPU that has any, ascending, by its UUID."""
        if self._rows.keys() != rows.keys():
            self._rows = {uuid: deque(maxlen=ENOUGH) for uuid in rows}
            self.count, self._before = 0, None
        for uuid, new in rows.items():
            self._rows[uuid].extend(new)
        if len(self._rows) < 2:
            return
        while all(self._rows.values()):
            heads = [kept[0] for kept in self._rows.values()]
            newest = max(row.stamp_ns for row in heads)
            late = [kept for kept in self._rows.values() if newest - kept[0].stamp_ns >= NEAR_NS]
            if late:
                late[0].popleft()  # a window that not all have
                continue
            self._compare([kept.popleft().busy for kept in self._rows.values()])

    def _compare(self, values: Sequence[float]) -> None:
        first = values[0]
        if any(value != first for value in values):
            self.count = 0
        elif 0 < first < 1 and first != self._before:
            self.count += 1
        self._before = first
