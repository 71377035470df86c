"""One device's utilisation: each window from the driver's ring, or polled where there is no ring or it stands still."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Timer, Trouble
from gaptop_collectors.devices.nvml_polling import CLOSE_S, PollGrid
from gaptop_collectors.devices.nvml_ring import (
    LAG_S,
    ClockMap,
    Clocks,
    Entry,
    Period,
    beside,
    clean,
    clock_map,
    refreshed,
)
from gaptop_collectors.devices.nvml_window import Window

DRAIN_S: Final = 0.25
RAREST_DRAIN_S: Final = 1.0
"""However much our calls cost: a ring holds ten seconds or more, and a verdict should not wait."""
DRY_S: Final = 1.0
"""A ring without a new entry for this long is dry (an idle GPU's may be, for minutes): poll until it flows again."""
LATEST_DRY_S: Final = 5.0
LAG_NS: Final = int(LAG_S * 1e9)
FUTURE_NS: Final = 100_000_000
"""A stamp further in the future than this is not of the clock it was taken for."""

Mode = Literal["ring", "polled", "unsupported"]


class Row(NamedTuple):
    """A window's reading: stamp (CLOCK_MONOTONIC ns), busy and memory-busy ratios."""

    stamp_ns: int
    busy: float
    memory_busy: float | None


class Gap(NamedTuple):
    """No window was observed from start to end (CLOCK_MONOTONIC ns)."""

    start_ns: int
    end_ns: int
    reason: str


def read_clocks() -> Clocks:
    """The clocks side by side; read again (at most twice) when this thread was interrupted between two of them."""
    for _ in range(3):
        before = time.monotonic_ns()
        boot, epoch = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
        after = time.monotonic_ns()
        if after - before < 100_000:
            break
    return Clocks((before + after) // 2, boot, epoch)


class Utilization:
    """Reads one device. ``window`` knows W, ``mode`` is how it is read now, ``delivered_ns`` how far it is complete.

    The watermark never waits for a ring that stands still: after DRY_S without an entry, polling takes over; where
    polling is impossible too, the time is declared a gap. What was declared is not taken back: entries that a late
    ring brings for that time are dropped, and the ring is given more time from then on.
    """

    def __init__(self, calls: Calls, opened_ns: int, kept: Period | None = None) -> None:
        """``kept``: the period that an earlier run measured for this GPU with this driver."""
        self._calls = calls
        self.window = Window(kept)
        self.mode: Mode = "ring"
        self.clock: ClockMap | None = None
        self.memory_unsupported = ""
        self.ring_unsupported = ""
        self.rates_unsupported = ""
        self._last = opened_ns  # newest stamp given out; at first the opening
        self._last_was_polled = False
        self._after = 0  # newest stamp of the ring, in its own clock
        self._drained_ns = opened_ns
        self._grid: PollGrid | None = None
        self._polled_ns = opened_ns
        self._dry_s = DRY_S
        self._drain_timer = Timer(DRAIN_S)

    @property
    def window_s(self) -> float:
        return self.window.seconds

    @property
    def measured(self) -> Period | None:
        return self.window.measured

    @property
    def period(self) -> float:
        """Seconds between two calls of read()."""
        stretch = self._calls.stretch
        drain = min(self._drain_timer.seconds * stretch, RAREST_DRAIN_S)
        if self.mode != "polled":
            return drain
        return CLOSE_S if self.closely else min(drain, self.window_s / 2 * stretch)

    @property
    def closely(self) -> bool:
        """It is polled closely for a few seconds, to learn its window."""
        return self.mode == "polled" and self._calls.stretch == 1 and self.window.look.looking(self._polled_ns)

    @property
    def polled_error_s(self) -> float:
        """How wrong the stamp of a polled window may be, in seconds."""
        return self.window_s / 2 if self._grid is None else self._grid.error_s

    def drain_every(self, seconds: float) -> None:
        """Drain in step with the other calls to the device."""
        self._drain_timer.seconds = seconds

    @property
    def delivered_ns(self) -> int:
        return self._last - LAG_NS

    def start(self, handle: Any) -> None:
        """See what the device offers. Raises CallFailed when it is lost, that is when nothing answers."""
        nvml = self._calls.nvml
        ring, ring_lost = self._why_not(nvml.nvmlDeviceGetSamples, handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
        rates, rates_lost = self._why_not(nvml.nvmlDeviceGetUtilizationRates, handle)
        if ring_lost and rates_lost:
            raise rates_lost
        self.ring_unsupported, self.rates_unsupported = ring, rates
        if self.ring_unsupported:
            self.mode = "unsupported" if self.rates_unsupported else "polled"

    def _why_not(self, function: Callable[..., Any], *arguments: Any) -> tuple[str, CallFailed | None]:
        """The reason why this is not offered, or "", and the failure if it is one of the whole device."""
        try:
            self._calls(function, *arguments)
        except CallFailed as failed:
            lost = failed if failed.trouble is Trouble.LOST else None
            return ("" if failed.trouble is Trouble.NOTHING_NEW else self._calls.why(failed)), lost
        return "", None

    def answers(self, handle: Any) -> bool:
        """Whether the device still answers at all, asked after another call has failed as if it did not."""
        for ask in (self._ask_rates, self._ask_ring):
            try:
                ask(handle)
            except CallFailed as failed:
                if failed.code != self._calls.nvml.NVML_ERROR_FUNCTION_NOT_FOUND:  # the driver itself answers
                    return failed.trouble is not Trouble.LOST
                continue
            return True
        return False

    def _ask_rates(self, handle: Any) -> tuple[int, int]:
        rates = self._calls(self._calls.nvml.nvmlDeviceGetUtilizationRates, handle)
        return int(rates.gpu), int(rates.memory)

    def _ask_ring(self, handle: Any) -> None:
        nvml = self._calls.nvml
        self._calls(nvml.nvmlDeviceGetSamples, handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, self._after)

    def read(self, handle: Any, now: int) -> tuple[list[Row], list[Gap]]:
        """The windows since the last call, ascending, and what was missed between them.

        Raises CallFailed: the device is lost, or refuses the ring that it had.
        """
        rows: list[Row] = []
        gaps: list[Gap] = []
        if self.mode == "unsupported":
            self._last = now
            return rows, gaps
        if not self.ring_unsupported and self._drain_timer.due(now / 1e9):
            self._read_ring(handle, rows, gaps)
            self._drain_timer.asked(now / 1e9, min(self._calls.stretch, RAREST_DRAIN_S / self._drain_timer.seconds))
            if not rows and now - self._last > self._dry_s * 1e9:
                self.mode = "polled"
        if self.mode == "polled" and not rows:
            self._read_rates(handle, now, rows, gaps)
        if not rows and now - self._last > (self._dry_s + 1) * 1e9:
            gaps.append(Gap(self.delivered_ns, now - LAG_NS, "the driver offers no reading"))
            self._last = now
        return rows, gaps

    def lost(self, now: int) -> Gap:
        """Declare everything since the last window missed: the device does not answer."""
        gap = Gap(self.delivered_ns, now - LAG_NS, "the GPU does not answer")
        self._last, self._grid = now, None
        self.window.look.stop()
        return gap

    def _read_ring(self, handle: Any, rows: list[Row], gaps: list[Gap]) -> None:
        nvml, before = self._calls.nvml, read_clocks()
        step = 0 if self.clock is None else before.monotonic - before.epoch - self.clock.offset_ns
        set_back = self.clock is not None and self.clock.domain == "epoch" and step > FUTURE_NS
        if set_back:
            self._after = 0  # the wall clock was set back, so newer entries have smaller stamps
        entries = self._drain(handle, nvml.NVML_GPU_UTILIZATION_SAMPLES)
        memory = self._drain_memory(handle) if entries else []
        clocks = read_clocks()  # again: a slow call may have taken seconds
        since, self._drained_ns = self._drained_ns, clocks.monotonic
        clock = refreshed(self.clock, entries[-1].stamp_us, clocks) if self.clock and entries else None
        if clock:
            past = [one for one in entries if clock.monotonic_ns(one.stamp_us) <= clocks.monotonic + FUTURE_NS]
            entries = past if past or set_back else entries
        if not entries:
            return
        self._after = entries[-1].stamp_us
        self.window.entries(entries, clocks.monotonic)
        # At first the ring's past: an idle one may have stood still for days.
        max_age_s = (clocks.monotonic - since) / 1e9 + 2 if self.clock else 30 * 86400.0
        clock = self._fresh_clock(clock, clocks, max_age_s)
        # Polled readings already speak for the windows that overlap them by more than half; and an entry that comes
        # again with another stamp (a driver may map its clock anew each time) is no window of its own.
        floor = self._last + int(self.window_s * (5e8 if self._last_was_polled else 2.5e8))
        for entry, memory_percent in zip(entries, beside(entries, memory), strict=True):
            stamp = clock.monotonic_ns(entry.stamp_us)
            if stamp > floor:
                ratio = None if memory_percent is None else memory_percent / 100
                self._give(Row(stamp, entry.percent / 100, ratio), "the driver's ring had no entry", rows, gaps)
        if rows and self.mode == "polled":
            if len(entries) - len(rows) > 1:  # not dry but late
                self._dry_s = min(LATEST_DRY_S, self._dry_s * 2)
            self.mode, self._grid = "ring", None
        if rows:
            self._last_was_polled = False

    def _fresh_clock(self, clock: ClockMap | None, clocks: Clocks, max_age_s: float) -> ClockMap:
        """The clock of new entries, so at most ``max_age_s`` old; found anew where the known one contradicts."""
        if clock:
            age = (clocks.monotonic - clock.monotonic_ns(self._after)) / 1e9
            if not -FUTURE_NS / 1e9 <= age <= max_age_s:
                clock = None
        self.clock = clock or clock_map(self._after, clocks, max_age_s)
        return self.clock

    def _drain_memory(self, handle: Any) -> list[Entry]:
        if self.memory_unsupported:
            return []
        try:
            return self._drain(handle, self._calls.nvml.NVML_MEMORY_UTILIZATION_SAMPLES)
        except CallFailed as failed:
            self._unless_lost(failed)
            self.memory_unsupported = self._calls.why(failed)
            return []

    def _read_rates(self, handle: Any, now: int, rows: list[Row], gaps: list[Gap]) -> None:
        self._polled_ns = now
        if self.rates_unsupported:
            return
        try:
            busy, memory = self._ask_rates(handle)
        except CallFailed as failed:
            self._unless_lost(failed)
            return
        polled = read_clocks().monotonic
        self.window.polled(polled, (busy, memory), not self.ring_unsupported)
        window_ns = int(self.window_s * 1e9)
        if self._grid is None:
            self._grid = PollGrid(window_ns)
        self._grid.window_ns = window_ns  # it may just have been learnt; the phase stays
        stamp = self._grid.read(polled, (busy, memory))
        if stamp is not None and stamp > self._last and 0 <= busy <= 100:
            self._give(Row(stamp, busy / 100, memory / 100), "no poll came in time", rows, gaps)
            self._last_was_polled = True

    def _give(self, row: Row, reason: str, rows: list[Row], gaps: list[Gap]) -> None:
        window_ns = int(max(self.window_s, self.window.spacing) * 1e9)
        if row.stamp_ns - self._last > 1.5 * window_ns:
            start = row.stamp_ns - int(self.window_s * 1e9)
            gaps.append(Gap(self.delivered_ns, start - LAG_NS, reason))
        rows.append(row)
        self._last = row.stamp_ns

    def _drain(self, handle: Any, kind: int) -> list[Entry]:
        """Raises CallFailed where this ring is not offered (any more), or the device lost."""
        try:
            _, samples = self._calls(self._calls.nvml.nvmlDeviceGetSamples, handle, kind, self._after)
        except CallFailed as failed:
            if failed.trouble is Trouble.UNSUPPORTED or (failed.trouble is Trouble.LOST and not self.answers(handle)):
                raise
            return []
        return clean((Entry(int(one.timeStamp), int(one.sampleValue.uiVal)) for one in samples), self._after)

    @staticmethod
    def _unless_lost(failed: CallFailed) -> None:
        if failed.trouble is Trouble.LOST:
            raise failed
