"""The lines of a stream: immutable messages, and their JSON form.

Times are seconds since the stream's start (CLOCK_MONOTONIC differences). On the wire each line is one JSON object whose
``k`` names its kind. Unknown kinds and unknown fields are skipped, so that older readers open newer minor versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Final

from gaptop.recording import shapes

FORMAT: Final = "gaptop"
VERSION: Final = (1, 0)

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


class BadLine(ValueError):
    """A line that is not JSON, or whose fields have not the shape that its kind must have."""


@dataclass(frozen=True, slots=True)
class Header:
    """First line of every stream. ``host`` has ``name, kernel, cores``; ``simulated`` is true for the lab."""

    k: ClassVar[str] = "header"
    format: str
    version: tuple[int, int]
    gaptop: str
    start_utc: str
    start_monotonic_ns: int
    host: Mapping[str, Json] = field(default_factory=dict)
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A source appears or changes; the fields are those of ``gaptop_collectors.collector.SourceInfo``."""

    k: ClassVar[str] = "source"
    t: float
    id: str
    collector: str
    kind: str
    entity: Mapping[str, Any]
    signals: Sequence[str]
    period: float
    unsupported: Mapping[str, str] = field(default_factory=dict)
    window: float | None = None
    window_measured: bool = False
    lag: float = 0.0
    error: float = 0.0
    refresh: str = "window"
    refresh_by_signal: Mapping[str, str] = field(default_factory=dict)
    period_by_signal: Mapping[str, float] = field(default_factory=dict)
    window_by_signal: Mapping[str, float] = field(default_factory=dict)
    jitter: float = 0.0
    rounding: str = ""
    clock: str = ""
    paused: bool = False
    says: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings by column: ``values[key][i]`` was read at ``t[i]``; null is "no observation", never zero."""

    k: ClassVar[str] = "batch"
    src: str
    t: Sequence[float]
    values: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Frames:
    """Interned stacks: ``stacks[str(id)]`` is a list of ``[function, file, line]``, outermost first."""

    k: ClassVar[str] = "frames"
    src: str
    stacks: Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Spans:
    """Stack spans by column: thread ``tid[i]`` had stack ``stack[i]`` during [start[i], end[i])."""

    k: ClassVar[str] = "spans"
    src: str
    covered: tuple[float, float]
    tid: Sequence[int]
    start: Sequence[float]
    end: Sequence[float]
    stack: Sequence[int]


@dataclass(frozen=True, slots=True)
class Hole:
    """A source did not deliver over [start, end)."""

    k: ClassVar[str] = "hole"
    src: str
    start: float
    end: float
    reason: str


@dataclass(frozen=True, slots=True)
class Clock:
    """Once a minute: the clocks side by side, so that steps of the wall clock show."""

    k: ClassVar[str] = "clock"
    t: float
    utc: str
    boot_ns: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened: ``what`` is a word, ``says`` a sentence."""

    k: ClassVar[str] = "event"
    t: float
    what: str
    says: str
    src: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Health:
    """State of one source at t. ``newest`` is the time of its newest reading (null: none yet), ``cost`` the share of a
    core that collecting it takes (null: not measured), ``says`` what is missing and how to get it."""

    k: ClassVar[str] = "health"
    t: float
    src: str
    collector: str
    state: str
    newest: float | None = None
    period: float | None = None
    cost: float | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Self:
    """What measuring itself costs: the probe with its children since its start, in CPU seconds and bytes of RSS."""

    k: ClassVar[str] = "self"
    t: float
    cpu_seconds: float
    rss_bytes: int
    py_spy_cpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The only clock that the analysis knows."""

    k: ClassVar[str] = "tick"
    t: float


@dataclass(frozen=True, slots=True)
class Watermark:
    """The source has delivered everything up to t."""

    k: ClassVar[str] = "watermark"
    src: str
    t: float


@dataclass(frozen=True, slots=True)
class Range:
    """In a snapshot: the range that was on screen. What lies outside is context for the detector."""

    k: ClassVar[str] = "range"
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """In a snapshot: a valley as the gaptop that wrote it judged it, in the report's form."""

    k: ClassVar[str] = "verdict"
    valley: Mapping[str, Any]


Line = (
    Header | Source | Batch | Frames | Spans | Hole | Clock | Event | Health | Self | Tick | Watermark | Range | Verdict
)

_KINDS: Final[Mapping[str, Any]] = {
    kind.k: kind
    for kind in (
        Header,
        Source,
        Batch,
        Frames,
        Spans,
        Hole,
        Clock,
        Event,
        Health,
        Self,
        Tick,
        Watermark,
        Range,
        Verdict,
    )
}


def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (item.name, item.default if item.default_factory is MISSING else item.default_factory())
        for item in fields(kind)
    )


_FIELDS: Final = {name: _defaults(kind) for name, kind in _KINDS.items()}
_JSON: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False)
"""ASCII only: people look into a stream with zcat, and a name in it may hold what a terminal obeys."""


def encode(line: Line) -> bytes:
    """One line of the stream, with its newline. NaN and infinities are refused (ValueError): they are not readings."""
    body: dict[str, Any] = {"k": line.k}
    for name, default in _FIELDS[line.k]:
        value = getattr(line, name)
        if value != default:
            body[name] = value
    return _JSON.encode(body).encode("ascii") + b"\n"


def kind_of(raw: bytes) -> str:
    """The kind of a line that :func:`encode` made, without parsing it; "" when it starts otherwise."""
    if not raw.startswith(b'{"k":"'):
        return ""
    return raw[6 : raw.find(b'"', 6)].decode("ascii", "replace")


def decode(text: bytes) -> Line | None:
    """The message of one line; None for a kind that this version does not know. Raises BadLine.

    What comes back has the shape that its kind promises, whatever was read: numbers are finite, columns equally long,
    times ascend. Whether a header's format and version can be read is left to the reader.
    """
    try:
        body = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadLine("not a JSON object")
    name = body.get("k")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return None
    try:
        line: Line = kind(**shapes.checked(kind.k, body))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadLine(f"a {kind.k} line: {error}") from None
    return line


def times(line: Line) -> tuple[float, float] | None:
    """First and last time that the line tells of; None for one without a time of its own."""
    match line:
        case Batch(t=at):
            return (at[0], at[-1]) if at else None
        case Spans(covered=covered):
            return (min(covered[0], *line.start), max(covered[1], *line.end)) if line.start else covered
        case Hole(start=start, end=end):
            return start, end
        case Header() | Frames() | Range() | Verdict():
            return None
        case _:
            return line.t, line.t


def _refuse_constant(name: str) -> float:
    raise BadLine(f"{name} is not a reading")
