"""What a driver's ring of utilisation samples says: cleaning it, its clock, its period. Pure.

Facts used here (public recordings and the binding's own behaviour): the ring is not sorted, holds slots with stamp 0 or
values over 100, repeats entries; its stamps are microseconds of the wall clock on some drivers and of the boot clock on
others; a reading is the share of the last W in which a kernel ran, and W (167 or 200 ms) is also the spacing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final, Literal, NamedTuple

ASSUMED_WINDOW_S: Final = 0.2
"""W of every card measured since 2020; what is drawn until the ring has told its own."""
LAG_S: Final = 0.01
"""A reading describes a window that ended 5 to 10 ms before its stamp."""
ENOUGH: Final = 8
"""Ring entries needed before a period is believed."""
FITTING: Final = 0.8

Domain = Literal["epoch", "boot", "monotonic", "anchored"]


class Entry(NamedTuple):
    """One ring slot: the driver's stamp in microseconds, and percent."""

    stamp_us: int
    percent: int


class Clocks(NamedTuple):
    """The host's clocks at one moment, in nanoseconds."""

    monotonic: int
    boot: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ClockMap:
    """How a driver's stamps become CLOCK_MONOTONIC nanoseconds; ``error_s`` bounds the mapping."""

    domain: Domain
    offset_ns: int
    error_s: float

    def monotonic_ns(self, stamp_us: int) -> int:
        return stamp_us * 1000 + self.offset_ns


@dataclass(frozen=True, slots=True)
class Period:
    """Spacing of the ring's entries in seconds, and its jitter (range of the middle half)."""

    seconds: float
    jitter: float
    count: int


def clean(entries: Iterable[Entry], after_us: int) -> list[Entry]:
    """The entries newer than ``after_us``, ascending, without empty slots, impossible values and repeats."""
    kept: dict[int, Entry] = {}
    for entry in entries:
        if entry.stamp_us > max(after_us, 0) and 0 <= entry.percent <= 100:
            kept.setdefault(entry.stamp_us, entry)
    return sorted(kept.values())


def beside(entries: Sequence[Entry], others: Sequence[Entry], tolerance_us: int = 20_000) -> list[int | None]:
    """For each entry the percent of the other ring's entry of the same window (both ascending), or None."""
    found: list[int | None] = []
    position = 0
    for entry in entries:
        while position < len(others) and others[position].stamp_us < entry.stamp_us - tolerance_us:
            position += 1
        near = position < len(others) and others[position].stamp_us <= entry.stamp_us + tolerance_us
        found.append(others[position].percent if near else None)
    return found


def clock_map(newest_us: int, clocks: Clocks, max_age_s: float) -> ClockMap:
    """Which clock the driver stamps with, from its newest stamp: the one by which it is youngest, not in the future.

    ``max_age_s``: how old the newest stamp may be (an idle ring stands still for hours; a new entry is seconds old).
    No clock fits: the stamp is taken as now, which is wrong by as much as an entry may lag (W and a drain).
    """
    ages: dict[Domain, int] = {
        "monotonic": clocks.monotonic - newest_us * 1000,
        "boot": clocks.boot - newest_us * 1000,
        "epoch": clocks.epoch - newest_us * 1000,
    }
    possible = [domain for domain, age in ages.items() if -100_000_000 <= age <= max_age_s * 1e9]
    if not possible:
        return ClockMap("anchored", ages["monotonic"], ASSUMED_WINDOW_S + 0.25)
    best = min(possible, key=lambda domain: abs(ages[domain]))
    return refreshed(ClockMap(best, 0, LAG_S), newest_us, clocks)


def refreshed(known: ClockMap, newest_us: int, clocks: Clocks) -> ClockMap:
    """The same map, with the clocks' distance as it is now: the wall clock may be stepped or slewed at any time.

    An anchored map learns: the shortest lag ever seen is nearest to none.
    """
    offsets: dict[Domain, int] = {
        "monotonic": 0,
        "boot": clocks.monotonic - clocks.boot,
        "epoch": clocks.monotonic - clocks.epoch,
        "anchored": min(known.offset_ns, clocks.monotonic - newest_us * 1000),
    }
    return ClockMap(known.domain, offsets[known.domain], known.error_s)


def period(entries: Sequence[Entry]) -> Period | None:
    """The ring's period from cleaned, ascending entries; None unless at least ENOUGH of them say so while non-idle.

    An interval counts when one of its ends is above 0: an idle ring slows down or stands still. Lost entries make
    intervals of whole multiples, so the period is the longest of three candidates (median, lower quarter, lower tenth)
    that FITTING of the intervals are a multiple of, within a tenth.
    """
    spacings = sorted(
        (later.stamp_us - earlier.stamp_us) / 1e6
        for earlier, later in zip(entries, entries[1:], strict=False)
        if earlier.percent > 0 or later.percent > 0
    )
    count = len(spacings)
    if count < ENOUGH - 1:
        return None
    for candidate in (spacings[count // 2], spacings[count // 4], spacings[count // 10]):
        if not 0.02 <= candidate <= 2:
            continue
        times = [(one, round(one / candidate)) for one in spacings]
        fitting = [one / k for one, k in times if k and abs(one - k * candidate) <= candidate / 10]
        if len(fitting) >= FITTING * count:
            lower, middle, upper = quantiles(fitting, n=4)
            return Period(middle, upper - lower, count + 1)
    return None


def spacing(entries: Sequence[Entry]) -> float:
    """Median distance of entries in seconds, idle or not; 0 with fewer than three. For telling a gap from slowness."""
    if len(entries) < 3:
        return 0.0
    return median(later.stamp_us - earlier.stamp_us for earlier, later in zip(entries, entries[1:], strict=False)) / 1e6
