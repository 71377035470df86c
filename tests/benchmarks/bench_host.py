"""What py-spy's recorders see of a process that logs its own phases, and what they cost: 7, 60 and 160 threads.

py-spy samples at Poisson times: of the gaps between two samples one in 1,000 is longer than 7 mean intervals, and among
a minute's samples the longest is usually 7 to 9 of them. No recorder can do better than that, so what is judged here is
whether one was live.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

from gaptop_collectors.collector import Hole, Message, Stacks, StackSpan
from gaptop_collectors.host import pyspy_budget, pyspy_driver
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.pyspy_command import check_right
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_trace import Trace
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from gaptop_collectors.target import ServerProcess
from tests.benchmarks import processes
from tests.benchmarks.pairs import slowdown
from tests.benchmarks.table import Row, at_most, missing, share, told
from tests.fakes.phases_truth import NAMES, PhaseTarget, allowed, first_sight, shares, true_shares

_MINUTE: Final = 60.0
_BEGINNING: Final = 12.0
_TEN: Final = 10_000_000_000
_QUICK: Final = 0.25
"""Phases so short that a window of one second holds 60."""
_CLOSE: Final = 300
"""Hz for the alignment."""
_SCRIPT: Final = Path(__file__).parents[1] / "fakes" / "phases.py"


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
                begun, before = time.monotonic(), self._spent()
                while (now := time.monotonic()) < begun + seconds:
                    self.messages += collector.sample()
                    time.sleep(min(0.25, begun + seconds - now))
                after = self._spent()
                self.cost.append(((after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds))
            self.messages += collector.finish()
        finally:
            collector.close()

    def _spent(self) -> tuple[float, float]:
        """CPU seconds of all recorders, those that run included, and our own."""
        used = os.times()
        running = 0.0
        for child in processes.children(os.getpid()):
            if "record" in processes.command(child):
                with contextlib.suppress(OSError):
                    running += processes.spent(child).own
        return used.children_user + used.children_system + running, used.user + used.system

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

    def rate(self) -> int:
        """The lowest one after the beginning."""
        return min(item.rate for item in self.recorders[2:] or self.recorders)


def main() -> list[Row]:
    """Rows for the table."""
    if check_right(os.getppid()) is not None:
        return [missing("py-spy beside a process that logs its phases", "py-spy may not read processes here")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "phases.json"
        rows += _shares_and_cost(log, 6, 0, "7 threads", _MINUTE)
        rows += _shares_and_cost(log, 59, 0, "60 threads", 30.0)
        rows += _shares_and_cost(log, 159, 0, "160 threads", 30.0)
        rows += _shares_and_cost(log, 59, 100, "160 threads, 100 of them native", 30.0)
        rows += _alignment(log, "quiet")
        with _burners():
            rows += _alignment(log, "every core loaded")
    return [*rows, _slowdown(6), _slowdown(59)]


def _shares_and_cost(log: Path, threads: int, native: int, what: str, seconds: float) -> list[Row]:
    with PhaseTarget(log, threads, native) as target:
        watch = Watch(target.pid)
        watch.run(_BEGINNING, seconds)
        phases = target.end()
    spans, rate = watch.spans(), watch.rate()
    start, end = watch.windows[0].covered[0], min(watch.windows[-1].covered[1], phases[-1].after)
    holes = sum(message.end_ns - message.start_ns for message in watch.messages if isinstance(message, Hole))
    off, bound = [], 0.0
    for ten in range(start, end - _TEN + 1, _TEN):
        truth, seen = true_shares(phases, ten, ten + _TEN), shares(spans, ten, ten + _TEN)
        off += [abs(seen[name] - truth[name]) / allowed(truth[name], rate, _TEN / 1e9) for name in NAMES]
        bound = max(bound, *(allowed(truth[name], rate, _TEN / 1e9) for name in NAMES))
    (first, _), (later, reading) = watch.cost
    return [
        share(f"recorders, {what}, first {_BEGINNING:g} s", first, 0.04),
        share(f"recorders, {what}, after that ({rate} Hz)", later, 0.04),
        told(f"reading their traces, {what}", f"{reading:.2%} of a core"),
        at_most(f"longest time without a live recorder, {what}", watch.worst_blindness() * 1000, 0, "ms"),
        told(f"holes, {what}", f"{holes / 1e9:.2f} s in {seconds + _BEGINNING:g} s"),
        at_most(f"share of a phase in 10 s, error / allowed, worst of {len(off)}, {what} (≤ {bound:.1%})",
                max(off), 1, ""),
    ]  # fmt: skip


def _alignment(log: Path, what: str) -> list[Row]:
    """By the quickest samples of each window, at a rate that leaves little to luck; the target has no thread beside."""
    with PhaseTarget(log, 0, 0, _QUICK) as target, mock.patch.object(pyspy_budget, "FAST_RATE", _CLOSE):
        watch = Watch(target.pid, fast=True)
        watch.run(_MINUTE)
        phases = target.end()
    found = []
    for trace, delay_ns, _ in watch.traces:
        spans = [span for span in trace.spans if span.tid == target.pid]
        late = first_sight(spans, phases, delay_ns, trace.covered[0])
        if late is not None:
            found.append(late / 1e6 - 0.1 * 1000 / _CLOSE)  # a tenth of all samples are luckier than that
    if not found:
        return [missing(f"alignment, {what}", "no window with ten samples")]
    bounds = [error / 1e6 for _, _, error in watch.traces]
    return [
        at_most(f"alignment, 99 % of {len(found)} windows, {what}", _most(map(abs, found)), 2, "ms"),
        told(f"alignment by the collector's own account, 99 % of windows, {what}", f"± {_most(bounds):.2f} ms"),
    ]


def _most(values: Iterable[float]) -> float:
    """99 % are not higher."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


@contextlib.contextmanager
def _burners() -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _slowdown(threads: int) -> Row:
    command = [sys.executable, str(_SCRIPT), "-", str(threads)]
    busy = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert busy.stdout is not None
    busy.stdout.readline()
    collector = PySpyThreads(Tree(busy.pid))
    collector.open()
    try:
        what = f"slowdown by py-spy, {threads + 1} threads (CPU per unit of work)"
        return slowdown(what, busy, _recorders, _BEGINNING)
    finally:
        collector.close()
        busy.kill()
        busy.wait()
        busy.stdout.close()


def _recorders() -> list[int]:
    return [child for child in processes.children(os.getpid()) if "record" in processes.command(child)]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
