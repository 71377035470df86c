"""The contract between a collector and whoever runs it.

A collector is driven by one thread of its own: ``open()`` once, then ``sample()`` every ``period`` seconds, then
``close()``. It may raise :class:`CollectorError` (a sentence for people) from any of them; anything else that it raises
is a bug which its runner reports as such. It never presents an old value as new and never writes 0 for a missing one:
a value that was not observed is ``None`` or left out.

All times are CLOCK_MONOTONIC nanoseconds of this host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

EntityKind = Literal["device", "server", "process", "host"]
State = Literal["starting", "ok", "late", "failing", "absent", "refused", "backoff", "ended"]
Rounding = Literal["nearest", "down", "percent", ""]
Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


class CollectorError(Exception):
    """What is wrong, what it means for what people see, and the exact remedy, in one sentence.

    ``state`` is what the health line shows: ``absent`` (the thing is not there), ``refused`` (no right to see it),
    ``failing`` (it is there and answers wrongly) or ``ended`` (there is nothing to measure and that is no news: no
    sentence, and nothing is shown). ``retry`` says whether trying again can help.
    """

    def __init__(self, says: str, *, state: State = "failing", retry: bool = True) -> None:
        super().__init__(says)
        self.says = says
        self.state: State = state
        self.retry = retry


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One thing that is measured, and how. Sent again whenever any of it changes.

    ``source`` is stable over restarts of the collector (``nvml/GPU-…``, ``metrics/http://127.0.0.1:8000``).
    ``entity`` describes the thing; by kind it has the keys

    * device: ``uuid, name, kind2`` (``gpu`` or ``cpu``), ``index, pids`` (server pids seen on it, or null = unknown);
      a MIG slice also ``parent`` (its GPU's uuid) and ``slice`` (profile, such as ``1g.10gb``)
    * server: ``url, engine, version, model, pids``; vLLM also ``engines`` (scheduler processes, null = unknown) and
      ``several_api_servers`` (then each of them counts every step)
    * process: ``pid, role`` (``api | engine | worker | server | other``), ``name, critical_tid``,
      ``threads`` (list of ``{tid, name}``)
    * host: ``cores``

    ``signals`` are the signal names it delivers, ``unsupported`` maps the ones it cannot deliver to the reason.
    ``window`` and ``lag`` (seconds): a *window* reading at t covers (t - lag - window, t - lag].
    ``window_by_signal`` (seconds) names the window signals whose window is another than the source's. ``jitter``
    (seconds) is the spread of the measured window. ``rounding`` says how readings of ``device.busy`` were made whole
    per cents: to the ``nearest``, ``down``, ``percent`` (whole, but not known which way), or "" (not rounded).
    ``clock`` names the clock domain of the source's own stamps (``epoch, boot, monotonic, anchored``; "" where it has
    none).
    ``error`` (seconds) bounds the mapping of its clock onto ours. ``refresh`` says when values can move
    (``step``, ``scrape``, ``window``, ``finish`` …), per signal where it differs from the source's own rule.
    ``period_by_signal`` (seconds) names the signals that are read more rarely than the source's own ``period``.
    ``paused``: deliberately not measured now, and ``says`` tells why.
    """

    source: str
    collector: str
    kind: EntityKind
    entity: Mapping[str, Json]
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
    rounding: Rounding = ""
    clock: str = ""
    paused: bool = False
    says: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings of one source, by column: ``values[key][i]`` was read at ``times_ns[i]`` (ascending), or is ``None``."""

    source: str
    times_ns: Sequence[int]
    values: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame. ``file`` is the path as py-spy prints it, ``function`` is qualified on Python 3.11+."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class StackSpan:
    """A thread had this stack (outermost frame first) during [start_ns, end_ns)."""

    tid: int
    start_ns: int
    end_ns: int
    stack: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stack spans of one source (a process); ``covered`` is the interval that the recorder really watched."""

    source: str
    covered: tuple[int, int]
    spans: Sequence[StackSpan]


@dataclass(frozen=True, slots=True)
class Hole:
    """A source did not deliver over [start_ns, end_ns); ``reason`` is a short phrase for people."""

    source: str
    start_ns: int
    end_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something happened at one instant: ``what`` is a word (``server_restarted``, ``pid_changed``, ``xid`` …)."""

    time_ns: int
    what: str
    says: str
    source: str | None = None
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The source has delivered everything up to this time: what is not there now will not come later."""

    source: str
    time_ns: int


Message = SourceInfo | Batch | Stacks | Hole | Note | Delivered


class Collector(Protocol):
    """See the module's text. ``name`` is ``area.file`` (``devices.nvml``)."""

    name: str
    period: float
    """Seconds between two calls of sample(); the collector may change it (back-off, boost)."""
    deadline: float
    """Seconds after which a call of sample() counts as late, and as our own slow call."""

    def open(self) -> Sequence[Message]: ...

    def sample(self) -> Sequence[Message]: ...

    def boost(self, seconds: float) -> None:
        """Look closer for a while: something is happening. Called from another thread; must not block."""

    def close(self) -> None: ...


class Recorder(Collector, Protocol):
    """A collector that delivers in windows, so that what it saw last is not delivered yet when it is to end."""

    def finish(self) -> Sequence[Message]:
        """End watching, and deliver what was seen until now; takes at most about a second. close() comes next."""
        ...
