"""A run of py-spy's collector on one process: what it delivered, its recorders, and what they cost."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

from gaptop_collectors.collector import Hole, Message, Stacks, StackSpan
from gaptop_collectors.host import pyspy_driver
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_trace import Trace
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from gaptop_collectors.target import ServerProcess
from tests.benchmarks import processes


def recorders() -> list[int]:
    """The pids of those that run."""
    return [child for child in processes.children(os.getpid()) if "record" in processes.command(child)]


def spent() -> tuple[float, float]:
    """CPU seconds of all recorders, those that run included, and our own."""
    used = os.times()
    running = 0.0
    for child in recorders():
        with contextlib.suppress(OSError):
            running += processes.spent(child).own
    return used.children_user + used.children_system + running, used.user + used.system


class Tree:
    """One process, taken for an engine."""

    def __init__(self, pid: int) -> None:
        usage = read_usage(pid)
        assert usage is not None
        self._processes = [ServerProcess(pid, "engine", "phases", True, usage.started)]

    def current(self) -> list[ServerProcess]:
        return self._processes

    def why_empty(self) -> str:
        return ""


class Watch:
    """A run of the collector: its recorders and what it delivered."""

    def __init__(self, pid: int, *, fast: bool = False) -> None:
        self.recorders: list[Recorder] = []
        self.messages: list[Message] = []
        self.traces: list[tuple[Trace, int, int]] = []
        """With what was taken off the times, and how far the clock may be off by our own account; ns."""
        self.cost: list[tuple[float, float]] = []
        """Share of a core of all recorders, and of our own reading, at the beginning and after it."""
        self._pid = pid
        self._fast = fast

    def run(self, *turns: float) -> None:
        """Watch for so many seconds each, and note what each turn cost."""
        with mock.patch.object(pyspy_driver, "Recorder", self._noted()):
            self._run(turns)

    def _noted(self) -> type[Recorder]:
        kept, traces = self.recorders, self.traces

        class Noted(Recorder):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                kept.append(self)

            def trace(self, table: Any, delay_ns: int, *arguments: Any) -> tuple[Trace, int] | None:
                found = super().trace(table, delay_ns, *arguments)
                if found is not None:
                    traces.append((found[0], delay_ns, found[1]))
                return found

        return Noted

    def _run(self, turns: Sequence[float]) -> None:
        collector = PySpyThreads(Tree(self._pid), self._fast)
        try:
            collector.open()
            for seconds in turns:
                begun, before = time.monotonic(), spent()
                while (now := time.monotonic()) < begun + seconds:
                    self.messages += collector.sample()
                    time.sleep(min(0.25, begun + seconds - now))
                after = spent()
                self.cost.append(((after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds))
            self.messages += collector.finish()
        finally:
            collector.close()

    @property
    def windows(self) -> list[Stacks]:
        return [message for message in self.messages if isinstance(message, Stacks)]

    def spans(self) -> list[StackSpan]:
        return [span for window in self.windows for span in window.spans if span.tid == self._pid]

    def worst_blindness(self) -> float:
        """Seconds without a live recorder, the longest."""
        lives = sorted((item.live_ns, item.asked_ns or sys.maxsize) for item in self.recorders if item.live_ns)
        until, worst = lives[0][1], 0
        for begun, ended in lives[1:]:
            worst, until = max(worst, begun - until), max(until, ended)
        return worst / 1e9

    def holes(self) -> str:
        """Seconds that nobody saw, by their reason."""
        found: dict[str, int] = {}
        for message in self.messages:
            if isinstance(message, Hole):
                found[message.reason] = found.get(message.reason, 0) + message.end_ns - message.start_ns
        return "; ".join(f"{spent / 1e9:.2f} s: {reason}" for reason, spent in found.items()) or "none"

    def rate(self) -> int:
        """The lowest one after the beginning."""
        return min(item.rate for item in self.recorders[2:] or self.recorders)
