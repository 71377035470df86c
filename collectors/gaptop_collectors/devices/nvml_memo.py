"""What is known of one GPU across runs: its window, and how its driver rounds. Kept, used at once, and corrected."""

from __future__ import annotations

from collections.abc import Iterable

from gaptop_collectors.collector import Rounding
from gaptop_collectors.devices.nvml_periods import Kept, Periods
from gaptop_collectors.devices.nvml_ring import LAG_S, Period
from gaptop_collectors.devices.nvml_rounding import RoundingLearner
from gaptop_collectors.devices.nvml_utilization import Row
from gaptop_collectors.devices.nvml_window import MOVED_S, Window

_LAG_NS = int(LAG_S * 1e9)


class Memo:
    """``period`` is what an earlier run measured. ``rounding``: how device.busy is made whole per cents, if told."""

    def __init__(self, periods: Periods, uuid: str, driver: str) -> None:
        self._periods = periods
        self._uuid, self._driver = uuid, driver
        self._kept = periods.get(uuid, driver)
        self._learner = RoundingLearner(self._kept.rounding)

    @property
    def period(self) -> Period | None:
        kept = self._kept
        return None if kept.window is None else Period(kept.window, kept.jitter, 0)

    @property
    def rounding(self) -> Rounding:
        return self._learner.told or "percent"

    def windows(self, rows: Iterable[Row], window_s: float) -> None:
        """Windows of the ring, ascending."""
        for row in rows:
            end = row.stamp_ns - _LAG_NS
            self._learner.window(end - int(window_s * 1e9), end, round(row.busy * 100))

    def gpm(self, start_ns: int, end_ns: int, active: float) -> None:
        """GPM's graphics activity over (start, end]."""
        self._learner.gpm(start_ns, end_ns, active)

    def keep(self, window: Window) -> None:
        """Write down what this run has learnt, where it is news."""
        kept, found = self._kept, window.measured
        told = self._learner.told
        measured = found is not None and window.by in ("ring", "changes")
        news = measured and found and (kept.window is None or abs(window.seconds - kept.window) > MOVED_S)
        if not news and told == kept.rounding:
            return
        if measured and found:
            kept = Kept(window.seconds, round(found.jitter, 4), told)
        else:
            kept = Kept(kept.window, kept.jitter, told)
        self._kept = kept
        self._periods.put(self._uuid, self._driver, kept)
