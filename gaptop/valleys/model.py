"""What a valley and a verdict are. Plain immutable data; ``report.py`` gives its JSON form with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from gaptop.valleys.member import Member, Watched
from gaptop.valleys.recurrence import Period, Sample, Trend
from gaptop.valleys.remedy import Remedy

Cause = Literal[
    "no_demand",
    "admission_stall",
    "prefill_interference",
    "cache_pressure",
    "host_starvation",
    "synchronisation",
    "external_wait",
    "compiling",
    "device_limit",
    "stalled_busy",
    "artefact",
    "unknown",
]
Confidence = Literal["high", "medium", "low"]
ValleyKind = Literal["utilisation", "progress"]
LinkState = Literal["fine", "blocked", "not_seen"]

LETTERS: Final[dict[Cause, str]] = {
    "no_demand": "N",
    "admission_stall": "A",
    "prefill_interference": "P",
    "cache_pressure": "K",
    "host_starvation": "H",
    "synchronisation": "S",
    "external_wait": "X",
    "compiling": "C",
    "device_limit": "L",
    "stalled_busy": "W",
    "artefact": "a",
    "unknown": "?",
}
"""One letter a cause, so that it reads without colour."""

CAUSE_NAMES: Final[dict[str, str]] = {
    "no_demand": "no demand",
    "admission_stall": "admission stall",
    "prefill_interference": "prefill interference",
    "cache_pressure": "cache pressure",
    "host_starvation": "host starvation",
    "synchronisation": "synchronisation",
    "external_wait": "external wait",
    "compiling": "compiling",
    "device_limit": "device limit",
    "stalled_busy": "stalled while busy",
    "artefact": "artefact",
    "unknown": "unknown",
}
"""The causes in words, lower case, as they stand inside a sentence."""

LINKS: Final = (
    "arrivals",
    "front end",
    "queue",
    "admission",
    "KV blocks",
    "step preparation",
    "launch and sync",
    "device",
)
"""The dependency chain: a verdict is the first link that holds the others up."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number that speaks for a cause. ``value`` is None where it was not measured."""

    signal: str
    value: float | None
    unit: str
    says: str

    @property
    def told(self) -> str:
        """In words, or where there are none its signal with the number, or with that it was not measured."""
        return self.says or f"{self.signal} {'not measured' if self.value is None else f'{self.value:g} {self.unit}'}"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A cause that was ruled out, and on what number."""

    cause: Cause
    because: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one cause says of a valley: a score in 0..1, the numbers for and against it, what it could not see."""

    cause: Cause
    score: float
    detail: str = ""
    facts: tuple[Fact, ...] = ()
    against: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    remedy: Remedy = Remedy.USUAL


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the dependency chain during a valley."""

    link: str
    state: LinkState
    signal: str
    value: float | None
    says: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a valley with a cause of its own (seconds since the stream's start)."""

    start_s: float
    end_s: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class Verdict:
    """The argument: cause, runner-up, the numbers for it, what was excluded on what number, what was unseen.

    ``doubt`` says what keeps the confidence low ("" where it is not low).
    """

    cause: Cause
    detail: str
    confidence: Confidence
    score: float
    runner_up: tuple[Cause, float] | None
    evidence: tuple[Fact, ...]
    excluded: tuple[Exclusion, ...]
    unseen: tuple[str, ...]
    advice: str
    chain: tuple[Link, ...]
    segments: tuple[Segment, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class HotPath:
    """Where a thread was: the innermost frames (function, file, line) of a path, outermost first, what that is, and the
    share of the thread's seen time that was spent in the last of them, called along this path."""

    frames: tuple[tuple[str, str, int], ...]
    activity: str
    share_ratio: float


@dataclass(frozen=True, slots=True)
class ThreadStacks:
    """The heaviest merged paths of one critical thread during a valley; ``unseen_s`` is the time without its stack."""

    process: str
    pid: int
    role: str
    thread: str
    tid: int
    seen_s: float
    unseen_s: float
    paths: tuple[HotPath, ...]


@dataclass(frozen=True, slots=True)
class Valley:
    """One valley. ``end_s`` is None while it is open; ``final`` is false while the verdict is provisional.

    ``idle_s`` are device-seconds (± ``idle_error_s``), None where no device was seen; ``tokens_lost`` is 0 for a valley
    that cost none and None where it is not known; ``confirmed`` means that two independent signals agree.
    ``agreeing`` names the signals that do, its own one first. ``longest_gap_s`` bounds the longest contiguous time that
    any of its devices was idle to within 2 % (windows that read no more are idle here: a device at rest shows as much):
    certainly so long, at most so long (None: no device, or its windows are forgotten).
    ``tokens_shared_with`` are the valleys of the same standstill that tell a part of its tokens, so that a sum over
    valleys counts each token once. ``became_level``: it did not end by a rise, but what it fell to lasted so long that
    it counts as the usual from then on; what is lost after it is no valley's. ``stacks`` are those of its critical
    threads, where they were seen; told once nothing changes them any more. ``members`` are its parts by device.
    ``server`` is the address of the server whose it is ("" where no server is known).
    """

    id: str
    kind: ValleyKind
    devices: tuple[str, ...]
    start_s: float
    end_s: float | None
    start_error_s: float
    end_error_s: float
    depth_ratio: float | None
    idle_s: float | None
    idle_error_s: float | None
    confirmed: bool
    tokens_lost: float | None
    final: bool
    verdict: Verdict
    tokens_shared_with: tuple[str, ...] = ()
    became_level: bool = False
    longest_gap_s: tuple[float, float] | None = None
    agreeing: tuple[str, ...] = ()
    stacks: tuple[ThreadStacks, ...] = ()
    members: tuple[Member, ...] = ()
    server: str = ""


@dataclass(frozen=True, slots=True)
class ShallowDip:
    """A few windows of one device clearly under their steady neighbours: a gap shorter than a window, or several.

    Too little for a valley: nine windows at most, one or two of them for a single gap. ``idle_s`` is idle time over
    what is usual, and part of the ledger's spread idle.
    ``confirmed``: a second independent signal fell too (``agreeing``).
    """

    device: str
    start_s: float
    end_s: float
    start_error_s: float
    end_error_s: float
    idle_s: float
    idle_error_s: float
    longest_gap_s: tuple[float, float]
    confirmed: bool = False
    agreeing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DipCount:
    """All shallow dips of one device so far, also those that are not listed any more."""

    device: str
    dips: int
    confirmed: int
    idle_s: float
    idle_error_s: float


@dataclass(frozen=True, slots=True)
class Rounded:
    """How a device's busy readings are made whole per cents; ``learnt`` from its own gaps, or as its source says."""

    device: str
    rounding: str
    learnt: bool


@dataclass(frozen=True, slots=True)
class Plateau:
    """Distributed idle: steady under 97 % with no valley, i.e. recurring gaps shorter than the window.

    ``continues`` is the id of the valley that became this level, if it follows on one.
    """

    device: str
    start_s: float
    end_s: float
    busy_ratio: float
    idle_per_step_s: float | None
    continues: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Where a device's time went: one row a device and cause.

    ``valleys`` counts the valleys with that main cause; ``device_seconds`` are those of every part with that cause.
    ``tokens_lost`` adds up what is known, None where nothing is; ``tokens_unknown`` valleys are not in it.
    """

    device: str
    cause: str
    valleys: int
    device_seconds: float
    tokens_lost: float | None
    share_ratio: float | None
    tokens_unknown: int = 0


@dataclass(frozen=True, slots=True)
class Assessment:
    """Everything that the analysis says at one tick; ``ended`` says that it was the last one."""

    now: float
    valleys: tuple[Valley, ...] = ()
    plateaus: tuple[Plateau, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    sentence: str = ""
    hints: tuple[str, ...] = field(default=())
    ended: bool = False
    dips: tuple[ShallowDip, ...] = ()
    dip_counts: tuple[DipCount, ...] = ()
    rounding: tuple[Rounded, ...] = ()
    watched: tuple[Watched, ...] = ()
    samples: tuple[Sample, ...] = ()
    trends: tuple[Trend, ...] = ()
    periods: tuple[Period, ...] = ()
