"""What the timeline hands out: plain arrays and immutable views."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaptop.recording.lines import Health, Source
from gaptop.timeline.stacks import Frame

Floats = npt.NDArray[np.float64]
States = npt.NDArray[np.uint8]


class Cover(IntEnum):
    """Why a column shows what it shows. Four kinds of absence stay apart."""

    NOTHING = 0
    """Nothing could be there (before the source appeared)."""
    DATA = 1
    HOLE = 2
    """The source did not deliver."""
    PENDING = 3
    """Beyond the source's watermark: not delivered yet."""


class SeriesId(NamedTuple):
    """A series: its source's id, and its key (signal name with labels)."""

    source: str
    key: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Observations as the intervals that they describe: ``value[i]`` held over (start[i], end[i]].

    Counters are given as rates (units a second) over the interval between two readings.
    """

    start: Floats
    end: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class Columns:
    """A range cut into n equal columns: time-weighted mean, lowest and highest value (NaN: no data), and cover."""

    start: float
    end: float
    mean: Floats
    low: Floats
    high: Floats
    cover: States


@dataclass(frozen=True, slots=True)
class Span:
    """A thread did one thing during [start, end)."""

    start: float
    end: float
    activity: str
    stack: int


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source as known now. ``newest`` is the time of its newest reading, ``watermark`` how far it has delivered."""

    info: Source
    health: Health | None
    newest: float | None
    watermark: float


class ThreadId(NamedTuple):
    """A thread, as one source sees it."""

    source: str
    tid: int


@dataclass(frozen=True, slots=True)
class ShareColumns:
    """What a thread did in each of n equal columns of a range.

    ``seconds[i, j]`` is the time of ``activities[j]`` in column i, ``watched[i]`` the time that its source watched it.
    """

    start: float
    end: float
    activities: tuple[str, ...]
    seconds: Floats
    watched: Floats


@dataclass(frozen=True, slots=True)
class StackTime:
    """How long a thread had one stack. ``frames`` are outermost first; none where they never came (stack -1)."""

    stack: int
    activity: str
    frames: tuple[Frame, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class StackTimes:
    """What a thread did during [start, end) by stack, the longest first, and why the rest is not told (seconds).

    ``absent``: its recorder watched, but the thread was not there. ``hole``: the recorder did not deliver. ``pending``:
    not delivered yet. ``unwatched``: no recorder ran, and no hole was declared. ``dropped``: it was seen once, or may
    have been, and is forgotten. With ``seen`` these add up to the range.
    """

    start: float
    end: float
    stacks: tuple[StackTime, ...]
    absent: float = 0.0
    hole: float = 0.0
    pending: float = 0.0
    unwatched: float = 0.0
    dropped: float = 0.0

    @property
    def seen(self) -> float:
        """Seconds in which the thread's stack was seen."""
        return sum(item.seconds for item in self.stacks)
