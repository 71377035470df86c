"""What py-spy's recorders see of a process that logs its own phases, and what they cost: 7, 60, 160 and 400 threads;
what /proc costs beside 7, 160 and 2,000.

py-spy samples at Poisson times: of the gaps between two samples one in 1,000 is longer than 7 mean intervals, and among
a minute's samples the longest is usually 7 to 9 of them. No recorder can do better than that, so what is judged here is
whether one was live. (Where samples are so dear that recorders have to rest, they say so, and it is told as a hole.)

Shares are held against the error of an estimate that holds each stack until the next Poisson sample: twice the variance
of as many samples that count alike, see :func:`tests.fakes.phases_truth.allowed`.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from unittest import mock

from gaptop_collectors.host import pyspy_budget
from gaptop_collectors.host.pyspy_command import check_right
from gaptop_collectors.host.pyspy_gil import GilShares
from gaptop_collectors.host.threads_proc import ProcThreads
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from tests.benchmarks.host_watch import Tree, Watch, recorders, spent
from tests.benchmarks.pairs import slowdown
from tests.benchmarks.table import Row, at_most, missing, share, told
from tests.fakes.phases_truth import NAMES, PhaseTarget, allowed, first_sight, shares, true_shares

_MINUTE: Final = 60.0
_BEGINNING: Final = 12.0
_TEN: Final = 10_000_000_000
_QUICK: Final = 0.25
"""Phases so short that a window of one second holds 60."""
_CLOSE: Final = 300
_SHORT: Final = 0.5
"""Hz and seconds of a window for the alignment: each recorder finds its clock anew, so many tell what the 99th in a
hundred is."""
_PAIRS: Final = 120
_TURN: Final = 0.25
"""Of the slowdown: the machine changes less between two short turns."""
_SCRIPT: Final = Path(__file__).parents[1] / "fakes" / "phases.py"


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
        rows += _dearest(log)
        rows += [_gil(log), *(_proc(log, *threads) for threads in ((6, 0), (159, 0), (499, 1500)))]
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
    off, bound = [], 0.0
    tens = range(start, end - _TEN + 1, _TEN)
    for ten in tens:
        truth, seen = true_shares(phases, ten, ten + _TEN), shares(spans, ten, ten + _TEN)
        most = {name: allowed(truth[name], rate, _TEN / 1e9, len(NAMES) * len(tens)) for name in NAMES}
        off += [abs(seen[name] - truth[name]) / most[name] for name in NAMES]
        bound = max(bound, *most.values())
    (first, _), (later, reading) = watch.cost
    return [
        share(f"recorders, {what}, first {_BEGINNING:g} s", first, 0.04),
        share(f"recorders, {what}, after that ({rate} Hz)", later, 0.04),
        told(f"reading their traces, {what}", f"{reading:.2%} of a core"),
        at_most(f"longest time without a live recorder, {what}", watch.worst_blindness() * 1000, 0, "ms"),
        told(f"holes in {seconds + _BEGINNING:g} s, {what}", watch.holes()),
        at_most(f"share of a phase in 10 s, error / allowed, worst of {len(off)}, {what} (≤ {bound:.1%})",
                max(off), 1, ""),
    ]  # fmt: skip


def _dearest(log: Path) -> list[Row]:
    """More threads than the budget pays for: the recorders rest by turns."""
    with PhaseTarget(log, 399, 0) as target:
        watch = Watch(target.pid)
        watch.run(_BEGINNING, _MINUTE)
    _, (later, _) = watch.cost
    watched = sum(window.covered[1] - window.covered[0] for window in watch.windows) / 1e9 / (_BEGINNING + _MINUTE)
    return [
        share(f"recorders, 400 threads, after {_BEGINNING:g} s ({watch.rate()} Hz)", later, 0.04),
        told("time that is watched, 400 threads", f"{watched:.0%}"),
        told("holes, 400 threads", watch.holes()),
    ]


def _gil(log: Path) -> Row:
    """On request only, so outside of the budget."""
    with PhaseTarget(log, 59, 0) as target:
        collector = GilShares(Tree(target.pid))
        collector.open()
        try:
            begun, before = time.monotonic(), spent()
            while time.monotonic() < begun + 20.0:
                collector.sample()
                time.sleep(collector.period)
            used = spent()[0] - before[0]
        finally:
            collector.close()
    return told("recorder of who holds the GIL (--gil, 100 Hz), 60 threads", f"{used / 20.0:.2%} of a core")


def _proc(log: Path, threads: int, native: int) -> Row:
    with PhaseTarget(log, threads, native) as target:
        collector = ProcThreads(Tree(target.pid))
        collector.open()
        begun, before = time.monotonic(), time.thread_time()
        while time.monotonic() < begun + 15.0:
            collector.sample()
            time.sleep(collector.period)
        used = time.thread_time() - before
        collector.close()
    return share(f"/proc, {threads + native + 1} threads", used / 15.0, 0.01)


def _alignment(log: Path, what: str) -> list[Row]:
    """By the quickest samples of each window, at a rate that leaves little to luck; the target has no thread beside."""
    with (
        PhaseTarget(log, 0, 0, _QUICK) as target,
        mock.patch.object(pyspy_budget, "FAST_RATE", _CLOSE),
        mock.patch.object(pyspy_budget, "FAST_WINDOW", _SHORT),
    ):
        watch = Watch(target.pid, fast=True)
        watch.run(_MINUTE)
        phases = target.end()
    found, beyond = [], []
    for trace, delay_ns, bound_ns in watch.traces:
        spans = [span for span in trace.spans if span.tid == target.pid]
        late = first_sight(spans, phases, delay_ns, trace.covered[0])
        if late is not None:
            found.append(late / 1e6 - 0.1 * 1000 / _CLOSE)  # a tenth of all samples are luckier than that
            beyond.append(abs(found[-1]) - bound_ns / 1e6)
    if not found:
        return [missing(f"alignment, {what}", "no window with ten samples")]
    bounds = [error / 1e6 for _, _, error in watch.traces]
    return [
        at_most(f"alignment, 99 % of {len(found)} windows, {what}", _most(map(abs, found)), 2, "ms"),
        told(f"alignment by the collector's own account, 99 % of windows, {what}", f"± {_most(bounds):.2f} ms"),
        at_most(f"alignment, error beyond the window's own account, 99 % of windows, {what}", _most(beyond), 2, "ms"),
        told(f"windows that are off by more than their own account, {what}", _outside(beyond)),
    ]


def _most(values: Iterable[float]) -> float:
    """99 % are not higher."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


def _outside(beyond: list[float]) -> str:
    """How many, and how many by more than sampling luck of the measurement (a fifth of a mean interval)."""
    luck = 0.2 * 1000 / _CLOSE
    return f"{sum(b > 0 for b in beyond)} of {len(beyond)}, {sum(b > luck for b in beyond)} by over {luck:.1f} ms"


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
        return slowdown(what, busy, recorders, _BEGINNING, pairs=_PAIRS, turn=_TURN)
    finally:
        collector.close()
        busy.kill()
        busy.wait()
        busy.stdout.close()


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
