"""A made-up minute beside a vLLM server, the same each time: what the screen's tests and pictures are drawn from."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gaptop.recording.lines import Batch, Frames, Header, Health, Hole, Line, Self, Source, Spans, Tick, Watermark

DEVICE, METRICS, ENGINE, API, HOST = "nvml/GPU-1", "metrics/http://127.0.0.1:8000", "threads/210", "threads/200", "host"
LENGTH: Final = 64.0
STACKS: Final = ("schedule", "prepare_batch", "launch", "sample", "device_sync", "idle", "tokenize", "http", "gc")
EPISODES: Final = (
    (11.0, 14.0, "silence"),
    (22.0, 24.6, "prefill"),
    (32.0, 39.0, "cache"),
    (47.0, 48.8, "host"),
    (55.2, 56.0, "silence"),
)
_STEP: Final = 0.05
_THREAD_LAG: Final = 3.0


def episode(t: float) -> str:
    return next((name for start, end, name in EPISODES if start <= t < end), "steady")


def opening(simulated: bool = False) -> list[Line]:
    """The header and every source."""
    return [
        Header("gaptop", (1, 0), "0.1.0", "2025-03-14T14:02:20Z", 0, {"name": "host"}, simulated),
        Source(
            0.0,
            DEVICE,
            "devices.nvml",
            "device",
            {"uuid": "GPU-1", "name": "NVIDIA GeForce RTX 3090", "kind2": "gpu", "index": 0, "pids": [210]},
            ("device.busy", "device.power", "device.power_limit"),
            0.2,
            window=0.2,
            window_measured=True,
        ),
        Source(
            0.0,
            METRICS,
            "engines.vllm",
            "server",
            {
                "url": "http://127.0.0.1:8000",
                "engine": "vllm",
                "version": "0.32.0",
                "model": "meta/mid-8b",
                "pids": [200, 210],
            },
            ("sched.running", "sched.waiting", "sched.preemptions", "tokens.decode", "tokens.prompt", "kv.used"),
            0.5,
        ),
        _process(ENGINE, 210, "engine", "VLLM::EngineCore"),
        _process(API, 200, "api", "vllm serve"),
        Source(0.0, HOST, "host.process", "host", {"cores": 16}, ("host.busy",), 1.0),
        *(
            Frames(src, {str(index): [[name, "/srv/vllm/engine.py", 10]] for index, name in enumerate(STACKS)})
            for src in (ENGINE, API)
        ),
    ]


def stream(length: float = LENGTH, simulated: bool = False, threads: bool = True) -> Iterator[Line]:
    """The lines of so many seconds, in the order in which a probe would have written them."""
    noise = random.Random(7)
    yield from opening(simulated)
    counts = {"decode": 0.0, "prompt": 0.0, "preempted": 0.0}
    steps = round(length / _STEP)
    for index in range(1, steps + 1):
        t = round(index * _STEP, 6)
        what = episode(t)
        _count(counts, what, t)
        if index % 4 == 0:
            busy = 0.0 if 40.0 < t < 40.3 else _busy(what, t) + noise.uniform(-0.02, 0.02)
            power = 110 + 235 * max(0.0, min(1.0, _busy(episode(t - 0.15), t))) + noise.uniform(-4, 4)
            if not 17.0 <= t < 19.0:
                values = {"device.busy": [round(max(0.0, min(1.0, busy)), 2)], "device.power": [round(power, 1)]}
                yield Batch(DEVICE, [t], {**values, "device.power_limit": [350.0]})
            if abs(t - 19.0) < 1e-6:
                yield Hole(DEVICE, 17.0, 19.0, "the driver did not answer")
            yield Watermark(DEVICE, t)
        if index % 10 == 0:
            yield Batch(METRICS, [t], _metrics(what, t, counts))
            yield Watermark(METRICS, t)
        if index % 20 == 0:
            yield Batch(HOST, [t], {"host.busy": [0.2]})
            yield Watermark(HOST, t)
            yield from _health(t)
            if threads and t > _THREAD_LAG:
                yield from _stacks(t - _THREAD_LAG - 1.0, t - _THREAD_LAG)
        if index % 40 == 0:
            yield Self(t, 0.03 * t, 90_000_000)
        if index % 5 == 0:
            yield Tick(t)


class CannedFeed:
    """Lines from a list. ``per_drain`` bounds what one call gives, to play a slow stream."""

    def __init__(self, lines: Sequence[Line], *, live: bool = True, ends: str | None = None) -> None:
        self.live = live
        self.closed = False
        self.saved: list[tuple[float, float, list[Mapping[str, Any]]]] = []
        self.refuse: OSError | None = None
        self._lines = list(lines)
        self._next = 0
        self._ends = ends

    def add(self, *lines: Line) -> None:
        self._lines.extend(lines)

    def drain(self, limit: int) -> list[Line]:
        part = self._lines[self._next : self._next + limit]
        self._next += len(part)
        return part

    def ended(self) -> str | None:
        return self._ends if self._next >= len(self._lines) else None

    def send(self, command: Mapping[str, Any]) -> None:
        del command

    def save(self, start: float, end: float, verdicts: Sequence[Mapping[str, Any]]) -> Path:
        if self.refuse is not None:
            raise self.refuse
        self.saved.append((start, end, list(verdicts)))
        return Path("/tmp/host-140312.gaptop")

    def close(self) -> None:
        self.closed = True


def classify(frames: Sequence[tuple[str, str, int]]) -> str:
    """The canned stacks are called by their activity."""
    return frames[-1][0] if frames else "other"


def _process(source: str, pid: int, role: str, name: str) -> Source:
    entity = {"pid": pid, "role": role, "name": name, "critical_tid": pid, "threads": [{"tid": pid, "name": name}]}
    return Source(0.0, source, "host.threads_pyspy", "process", entity, ("host.thread_activity",), 0.04, lag=0.0)


def _busy(what: str, t: float) -> float:
    return {"silence": 0.0, "prefill": 1.0, "cache": 0.22, "host": 0.06}.get(what, 0.96 + 0.02 * math.sin(t))


def _count(counts: dict[str, float], what: str, t: float) -> None:
    decode = {"silence": 0.0, "prefill": 60.0, "cache": 190.0, "host": 20.0}.get(what, 820 + 40 * math.sin(t / 3))
    prompt = {"silence": 0.0, "prefill": 5200.0, "cache": 150.0, "host": 0.0}.get(what, 240.0)
    counts["decode"] += decode * _STEP
    counts["prompt"] += prompt * _STEP
    counts["preempted"] += (2.0 if what == "cache" else 0.0) * _STEP


def _metrics(what: str, t: float, counts: Mapping[str, float]) -> dict[str, list[float | None]]:
    into = next((t - start for start, end, _ in EPISODES if start <= t < end), 0.0)
    running = {"silence": 0.0, "cache": max(7.0, 24 - 4 * into)}.get(what, 24.0 if 26 < t < 39 else 16.0)
    waiting = {"cache": min(17.0, 4 * into)}.get(what, 0.0)
    kv = {"silence": 0.02, "cache": 0.98}.get(what, min(0.95, 0.30 + max(0.0, t - 26) * 0.1) if t < 39 else 0.36)
    return {
        "sched.running": [round(running)],
        "sched.waiting": [round(waiting)],
        "sched.preemptions": [math.floor(counts["preempted"] + 1e-9)],
        "tokens.decode": [round(counts["decode"])],
        "tokens.prompt": [round(counts["prompt"])],
        "kv.used": [round(kv, 3)],
    }


def _health(t: float) -> Iterator[Line]:
    for src, collector, period in (
        (DEVICE, "devices.nvml", 0.2),
        (METRICS, "engines.vllm", 0.5),
        (ENGINE, "host.threads_pyspy", 0.04),
        (HOST, "host.process", 1.0),
    ):
        newest = t - _THREAD_LAG if src == ENGINE else t
        yield Health(t, src, collector, "ok", newest, period, 0.01)


def _stacks(start: float, end: float) -> Iterator[Line]:
    for source, tid in ((ENGINE, 210), (API, 200)):
        starts, ends, stacks = [], [], []
        t = start
        index = round(start * 20)
        while t < end - 1e-9:
            starts.append(round(t, 3))
            t = min(end, t + 0.05)
            ends.append(round(t, 3))
            stacks.append(STACKS.index(_activity(source, episode(starts[-1]), index)))
            index += 1
        yield Spans(source, (start, end), [tid] * len(starts), starts, ends, stacks)
        yield Watermark(source, end)


def _activity(source: str, what: str, index: int) -> str:
    if source == API:
        return {"silence": "idle"}.get(what, ("idle", "tokenize", "idle", "http")[(index // 10) % 4])
    if what == "silence":
        return "idle"
    if what == "host":
        return "gc"
    if what == "cache":
        return "schedule" if (index // 10) % 3 else "device_sync"
    return ("schedule", "launch", "device_sync", "device_sync", "sample")[(index // 10) % 5]
