"""A public case as plain data, and the stream that gaptop would have recorded of it, also with sources taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gaptop.recording.lines import Batch, Event
from gaptop.valleys.model import Assessment, Cause, Confidence, Valley, ValleyKind
from gaptop_collectors.signals import SIGNALS, series_key, split_key

from .valley_host import EVERY, run_states
from .valley_server import BACK, END, LOW
from .valley_streams import API, REFRESH, Curve, Stream, analyse, stairs, total

Does = Callable[[float], str]


@dataclass(frozen=True)
class Thread:
    """The critical thread of one process: what its stacks say (None: nobody could take them) and its run states."""

    pid: int
    role: str
    does: Does | None = None
    states: Mapping[str, Curve] = field(default_factory=dict)
    runnable: Curve | None = None
    """Threads of its process that ran or waited for a core."""


@dataclass(frozen=True)
class View:
    """What of a case is seen, and how coarsely. ``refresh``: the server's numbers move only every so often."""

    name: str
    stacks: bool = True
    states: bool = True
    nvml: bool = True
    power: bool = True
    host: bool = True
    scrape: float | None = None
    refresh: tuple[Literal["steps", "s"], float] | None = None


FULL = View("full")


@dataclass(frozen=True)
class Case:
    """One row. ``causes`` are the right ones, the best first; ``never`` may not be named in any view."""

    name: str
    causes: tuple[Cause, ...]
    metrics: Mapping[str, Curve]
    detail: str = ""
    advises: str = ""
    excluded: tuple[Cause, ...] = ()
    never: tuple[Cause, ...] = ()
    confidence: tuple[Confidence, ...] = ("high", "medium")
    kind: ValleyKind = "utilisation"
    span: tuple[float, float] = (LOW, BACK)
    seconds: float = END
    engine: str = "vllm"
    busy: tuple[Curve, ...] = ()
    power: Curve | None = None
    device: Mapping[str, Curve] = field(default_factory=dict)
    threads: tuple[Thread, ...] = ()
    host: Mapping[str, Curve] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    outages: tuple[tuple[float, float], ...] = ()
    scrape: float = 0.5


def level(usual: float, during: float, span: tuple[float, float] = (LOW, BACK)) -> Curve:
    """A value that is another one in the case's time."""
    return stairs((0, usual), (span[0], during), (span[1], usual))


def rate(usual: float, during: float, span: tuple[float, float] = (LOW, BACK)) -> Curve:
    """A counter whose rate is another one in the case's time."""
    return total((0, usual), (span[0], during), (span[1], usual))


def does(during: str, otherwise: str = "device_sync", span: tuple[float, float] = (LOW, BACK)) -> Does:
    """What a thread does in the case's time, and else."""
    return lambda t: during if span[0] <= t < span[1] else otherwise


def idle(pid: int = API, role: str = "api") -> Thread:
    """A front end with nothing to do, its run states seen as well."""
    return Thread(pid, role, lambda t: "idle", {"running": stairs((0, 0.05))})


def stream(case: Case, view: View = FULL) -> Stream:
    """The case as its stream."""
    made = Stream(case.seconds, engine=case.engine)
    if view.nvml:
        for index, busy in enumerate(case.busy):
            power = case.power if view.power else None
            made.device(busy, source=f"nvml/GPU-{index}", power=power, more=case.device)
    stated = dict(REFRESH.get(case.engine, {}))
    metrics = dict(case.metrics)
    if view.refresh is not None:
        word = f"{view.refresh[1]:.0f} {view.refresh[0]}"
        held = [name for name in metrics if _is_gauge(name)]
        metrics |= {name: _held(metrics[name], view.refresh, case.metrics.get("step.count")) for name in held}
        stated |= {name: word for name in held if name not in stated}
    pids = tuple(thread.pid for thread in case.threads)
    made.metrics(metrics, every=view.scrape or case.scrape, refresh=stated, outages=case.outages, pids=pids)
    for thread in case.threads:
        if view.stacks and thread.does is not None:
            made.stacks(thread.pid, thread.role, thread.does)
        if view.states and thread.states:
            run_states(made, thread.pid, thread.role, **thread.states)
        if view.states and thread.runnable is not None:
            _runnable(made, thread.pid, thread.runnable)
    if view.host and case.host:
        made.host(case.host)
    for event in case.events:
        made.add(event.t, event)
    return made


def _runnable(made: Stream, pid: int, curve: Curve) -> None:
    for count in range(1, round(made.seconds / EVERY) + 1):
        t = count * EVERY
        key = series_key("host.runnable_threads", pid=pid)
        made.add(t - 1e-3, Batch(f"proc/{pid}", [t - 1e-3], {key: [curve(t - EVERY / 2)]}))


def _is_gauge(key: str) -> bool:
    """Whether a lazy server holds it back: its counters it counts as it goes, and the scrape is our own reading."""
    name = split_key(key)[0]
    return SIGNALS[name].kind == "gauge" and name not in ("latency.scrape", "sched.limit")


def _held(curve: Curve, refresh: tuple[str, float], steps: Curve | None) -> Curve:
    """The curve as it stood when the server refreshed its numbers last."""
    kind, every = refresh
    if kind == "s":
        return lambda t: curve(t // every * every)
    if steps is None:
        return curve

    def value(t: float) -> float | None:
        wanted = (steps(t) or 0.0) // every * every
        low, high = 0.0, t
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if (steps(middle) or 0.0) >= wanted else (middle, high)
        return curve(high)

    return value


def assess(case: Case, view: View = FULL) -> Assessment:
    return analyse(stream(case, view).lines())[1]


def found(case: Case, view: View = FULL) -> list[Valley]:
    """The valleys that lie in the case's time."""
    low, back = case.span
    return [item for item in assess(case, view).valleys if item.start_s < back and (item.end_s or case.seconds) > low]
