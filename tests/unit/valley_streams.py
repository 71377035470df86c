"""Builds streams line by line for the tests of the valleys: a device, a server's metrics, threads, run states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaptop.recording.lines import (
    Batch,
    Event,
    Frames,
    Header,
    Health,
    Hole,
    Json,
    Line,
    Source,
    Spans,
    Tick,
    Watermark,
    decode,
    encode,
)
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment, Valley

URL = "http://127.0.0.1:8000"
METRICS = f"metrics/{URL}"
GPU = "nvml/GPU-a"
API, ENGINE, WORKER = 100, 200, 300
REFRESH = {"vllm": {"tokens.prompt": "prompt_end", "sched.preemptions": "late", "sched.finished": "finish"}}
"""What the engines' collectors say of signals that do not move with every step."""

Curve = Callable[[float], float | None]
"""A value at a time; None is "no reading"."""


def classify(frames: Sequence[tuple[str, str, int]]) -> str:
    """The stacks of these tests name their activity in their innermost function."""
    return frames[-1][0] if frames else "other"


def stairs(*parts: tuple[float, float | None]) -> Curve:
    """A piecewise constant curve: each part holds from its time on."""

    def value(t: float) -> float | None:
        found: float | None = parts[0][1]
        for start, level in parts:
            if t >= start:
                found = level
        return found

    return value


def total(*parts: tuple[float, float]) -> Curve:
    """A counter whose rate is piecewise constant."""

    def value(t: float) -> float:
        counted = 0.0
        for index, (start, rate) in enumerate(parts):
            end = parts[index + 1][0] if index + 1 < len(parts) else max(t, start)
            counted += rate * max(0.0, min(t, end) - start)
        return counted

    return value


@dataclass
class Stream:
    """Collects readings, then gives them as lines in the order in which a probe would deliver them."""

    seconds: float
    engine: str = "vllm"
    simulated: bool = False
    outer: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By activity: the function and file of a frame around it."""
    _timed: list[tuple[float, int, Line]] = field(default_factory=list)
    _stacks: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, t: float, line: Line) -> None:
        self._timed.append((t, len(self._timed), line))

    def device(
        self,
        busy: Curve,
        *,
        source: str = GPU,
        window: float = 0.2,
        every: float = 0.25,
        kind2: str = "gpu",
        power: Curve | None = None,
        more: Mapping[str, Curve] | None = None,
        outages: Iterable[tuple[float, float]] = (),
        pids: Sequence[int] | None = (ENGINE,),
        rounding: str = "nearest",
        info: Mapping[str, Any] | None = None,
        entity: Mapping[str, Json] | None = None,
    ) -> Stream:
        """A device whose true busy state is ``busy`` (0..1), seen through windows; drained every ``every`` seconds.

        ``info`` and ``entity`` change what its source line says."""
        name = source.partition("/")[2]
        signals = ["device.busy", "device.power", *(key.partition("{")[0] for key in more or {})]
        known: Json = None if pids is None else list(pids)
        thing = {"uuid": name, "name": "Test GPU", "kind2": kind2, "index": 0, "pids": known, **(entity or {})}
        stated = {"window": window, "window_measured": True, "rounding": rounding, **(info or {})}
        self.add(0.0, Source(0.0, source, "devices.nvml", "device", thing, signals, every, **stated))
        holes = list(outages)
        pending: list[tuple[float, float]] = []
        count, drained = 1, every
        while count * window <= self.seconds + 1e-9:
            end = count * window
            value = _share(busy, end - window, end)
            if value is not None and not any(a < end and b > end - window for a, b in holes):
                pending.append((end, round(value, 2)))
            count += 1
            while drained <= count * window and drained <= self.seconds + 1e-9:
                ready = [item for item in pending if item[0] <= drained + 1e-9]
                pending = pending[len(ready) :]
                if ready:
                    times, values = zip(*ready, strict=True)
                    self.add(drained, Batch(source, times, {"device.busy": values}))
                    slow = {"device.power": power, **(more or {})}
                    read = {key: [curve(drained)] for key, curve in slow.items() if curve is not None}
                    if read:
                        self.add(drained, Batch(source, [drained], read))
                    self.add(drained, Watermark(source, drained))
                drained += every
        for start, end in holes:
            self.add(end, Hole(source, start, end, "driver gone"))
        return self

    def metrics(
        self,
        curves: Mapping[str, Curve],
        *,
        every: float = 0.5,
        offset: float = 0.1,
        source: str = METRICS,
        pids: Sequence[int] = (API, ENGINE),
        refresh: Mapping[str, str] | None = None,
        outages: Iterable[tuple[float, float]] = (),
        more: Mapping[str, Json] | None = None,
    ) -> Stream:
        """A server's metrics endpoint."""
        url = source.partition("/")[2]
        entity = {"url": url, "engine": self.engine, "version": "1", "model": "m", **(more or {})}
        names = sorted({key.partition("{")[0] for key in curves})
        info = Source(
            0.0,
            source,
            f"engines.{self.engine}",
            "server",
            {**entity, "pids": list(pids)},
            names,
            every,
            refresh="step",
            refresh_by_signal=dict(REFRESH.get(self.engine, {}) if refresh is None else refresh),
        )
        self.add(0.0, info)
        holes = list(outages)
        count = 0
        while (t := offset + count * every) <= self.seconds + 1e-9:
            count += 1
            if any(a <= t < b for a, b in holes):
                continue
            values = {key: [curve(t)] for key, curve in curves.items()}
            self.add(t, Batch(source, [t], values))
            self.add(t, Watermark(source, t))
        for start, end in holes:
            self.add(end, Hole(source, start, end, "the server did not answer"))
        return self

    def stacks(
        self,
        pid: int,
        role: str,
        activity: Callable[[float], str],
        *,
        window: float = 2.0,
        tid: int | None = None,
        name: str = "",
        still: bool = False,
        error: float = 0.0,
    ) -> Stream:
        """py-spy on one process: rolling windows, delivered at their end. Code that runs is seen at another line each
        time, unless it stands ``still``. ``error``: how far off the edges of its states may be, as it says."""
        source = f"threads/{pid}"
        tid = pid if tid is None else tid
        entity = {
            "pid": pid,
            "role": role,
            "name": name or role,
            "critical_tid": pid,
            "threads": [{"tid": tid, "name": role}],
        }
        signals = ["host.thread_activity"]
        self.add(0.0, Source(0.0, source, "host.threads_pyspy", "process", entity, signals, 0.02, error=error))
        start = 0.0
        while start < self.seconds - 1e-9:
            end = min(start + window, self.seconds)
            edges = [round(start + 0.05 * i, 3) for i in range(round((end - start) / 0.05) + 1)]
            lines = [0 if still else index % 2 for index in range(len(edges) - 1)]
            ids = [self._stack(source, activity(a + 0.025), line) for a, line in zip(edges, lines, strict=False)]
            self.add(end, Spans(source, (start, end), [tid] * len(ids), edges[:-1], edges[1:], ids))
            self.add(end, Watermark(source, end))
            start = end
        return self

    def states(
        self, pid: int, role: str, on_cpu: Curve, *, wants: Curve | None = None, every: float = 0.1, name: str = ""
    ) -> Stream:
        """/proc on the critical thread of one process."""
        source = f"proc/{pid}"
        entity = {
            "pid": pid,
            "role": role,
            "name": name or role,
            "critical_tid": pid,
            "threads": [{"tid": pid, "name": role}],
        }
        names = ["host.oncpu", "host.runqueue_wait"]
        self.add(0.0, Source(0.0, source, "host.threads_proc", "process", entity, names, every, window=every))
        for count in range(1, round(self.seconds / every) + 1):
            t = round(count * every, 6)
            values = {f"host.oncpu{{tid={pid}}}": [on_cpu(t)]}
            if wants is not None:
                values[f"host.runqueue_wait{{tid={pid}}}"] = [wants(t)]
            self.add(t, Batch(source, [t], values))
            self.add(t, Watermark(source, t))
        return self

    def host(self, curves: Mapping[str, Curve], *, source: str = f"process/{URL}", every: float = 1.0) -> Stream:
        """Slow readings of processes, cgroup or host."""
        names = sorted({key.partition("{")[0] for key in curves})
        self.add(0.0, Source(0.0, source, "host.process", "host", {}, names, every))
        for count in range(round(self.seconds / every) + 1):
            t = count * every
            self.add(t, Batch(source, [t], {key: [curve(t)] for key, curve in curves.items()}))
            self.add(t, Watermark(source, t))
        return self

    def event(self, t: float, what: str) -> Stream:
        self.add(t, Event(t, what, what))
        return self

    def health(self, t: float, src: str, state: str, says: str) -> Stream:
        self.add(t, Health(t, src, src, state, says=says))
        return self

    def lines(self) -> list[Line]:
        """All lines, ticks included, as decoded from their wire form."""
        timed = list(self._timed)
        for count in range(1, int(self.seconds / 0.25) + 1):
            timed.append((count * 0.25, 10**9 + count, Tick(count * 0.25)))
        host: dict[str, Json] = {"name": "testhost", "kernel": "6", "cores": 2}
        header = Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00+00:00", 1, host, simulated=self.simulated)
        out: list[Line] = []
        for line in [header, *(item[2] for item in sorted(timed, key=lambda item: item[:2]))]:
            decoded = decode(encode(line))
            assert decoded is not None
            out.append(decoded)
        return out

    def _stack(self, source: str, activity: str, line: int) -> int:
        if (activity, line) not in self._stacks:
            number = self._stacks[activity, line] = len(self._stacks) + 1
            around: list[list[str | int]] = [[*self.outer[activity], 3]] if activity in self.outer else []
            self.add(0.0, Frames(source, {str(number): [["main", "m.py", 1], *around, [activity, "a.py", 2 + line]]}))
        return self._stacks[activity, line]


def _share(curve: Curve, start: float, end: float) -> float | None:
    """The mean of a curve over a window, from 40 points."""
    points = [curve(start + (i + 0.5) * (end - start) / 40) for i in range(40)]
    known = [value for value in points if value is not None]
    return sum(known) / len(known) if known else None


def analyse(lines: Iterable[Line]) -> tuple[Timeline, Assessment]:
    """Run a whole stream through a real timeline and the analyst."""
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    for line in lines:
        timeline.apply(line)
        analyst.apply(line)
    return timeline, analyst.finish()


def valleys_of(stream: Stream) -> tuple[Valley, ...]:
    return analyse(stream.lines())[1].valleys


def only(valleys: Sequence[Valley], **wanted: Any) -> Valley:
    """The one valley with these attributes."""
    found = [item for item in valleys if all(getattr(item, key) == value for key, value in wanted.items())]
    assert len(found) == 1, [(item.kind, item.start_s, item.end_s, item.verdict.cause) for item in valleys]
    return found[0]
