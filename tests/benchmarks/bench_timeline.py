"""What the timeline costs: a frame by history length, one line taken in, bytes for an hour."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from gaptop.recording.lines import Batch, Frames, Source, Spans, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, ThreadId
from tests.benchmarks.table import Row, at_most, told

SIGNALS = ("device.busy", "device.power", "sched.running", "kv.used", "tokens.decode")
_HZ = 100
_HOUR = 3600
_COLUMNS = 100


def _filled(seconds: int) -> Timeline:
    timeline = Timeline(lambda frames: frames[-1][0])
    timeline.apply(Source(0.0, "s", "bench", "device", {}, SIGNALS, 1 / _HZ, window=1 / _HZ))
    stacks = {str(n): [["run", "a.py", 1], [name, "b.py", n]] for n, name in enumerate(("idle", "launch", "sample"))}
    timeline.apply(Frames("s", stacks))
    for second in range(seconds):
        times = [second + i / _HZ for i in range(1, _HZ + 1)]
        counts = range(second * _HZ, second * _HZ + _HZ)
        timeline.apply(
            Batch(
                "s",
                times,
                {
                    "device.busy": [(n * 7 % 101) / 100 for n in counts],
                    "device.power": [300.0 + n % 13 for n in counts],
                    "sched.running": [float(n % 5) for n in counts],
                    "kv.used": [(n % 1000) / 1000 for n in counts],
                    "tokens.decode": [float(n * 3) for n in counts],
                },
            )
        )
        starts = [second + i / 30 for i in range(30)]
        ends = [*starts[1:], second + 1.0]
        timeline.apply(Spans("s", (second, second + 1), [1] * 30, starts, ends, [i % 3 for i in range(30)]))
        timeline.apply(Tick(float(second + 1)))
    return timeline


def _frame(timeline: Timeline, span: float) -> Callable[[], None]:
    def draw() -> None:
        for name in SIGNALS:
            timeline.columns(SeriesId("s", name), timeline.now - span, timeline.now, _COLUMNS)

    return draw


def _medians(calls: list[Callable[[], None]], rounds: int = 200) -> list[float]:
    """Median seconds of each call, the calls taking turns so that other load meets all of them alike."""
    took: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, took, strict=True):
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
    return [statistics.median(times) for times in took]


def _resident() -> int:
    """Bytes of this process in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _intake() -> float:
    """Seconds for a scrape's batch of 30 series, one reading each."""
    timeline = Timeline()
    keys = [f"host.memory{{pid={n}}}" for n in range(15)] + [f"host.cpu_seconds{{pid={n}}}" for n in range(15)]
    timeline.apply(Source(0.0, "s", "bench", "host", {}, ("host.memory", "host.cpu_seconds"), 0.5))
    took = []
    for n in range(2000):
        line = Batch("s", [n * 0.5], {key: [float(n)] for key in keys})
        begun = time.perf_counter()
        timeline.apply(line)
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def main() -> list[Row]:
    """Rows for the table."""
    before = _resident()
    hour = _filled(_HOUR)
    held = _resident() - before
    minute = _filled(60)
    thread = ThreadId("s", 1)
    short, same, wide, shares = _medians(
        [
            _frame(minute, 60),
            _frame(hour, 60),
            _frame(hour, _HOUR),
            lambda: (hour.share_columns(thread, 0, _HOUR, _COLUMNS), None)[1],
        ]
    )
    return [
        (
            "timeline: a minute's frame, 1 h of history over 1 min",
            f"{same / short:.3f} ×",
            "≤ 1.10 ×",
            same <= 1.1 * short,
        ),
        told("timeline: a frame of 1 h over one of 1 min (columns alone)", f"{wide / short:.3f} ×"),
        at_most("timeline: 100 columns of one series over 1 h", wide / len(SIGNALS) * 1e3, 1, "ms", 3),
        at_most("timeline: 100 columns of one thread over 1 h", shares * 1e3, 1, "ms", 3),
        at_most("timeline: a batch of 30 series taken in", _intake() * 1e6, 50, "µs", 0),
        at_most("timeline: an hour of 5 × 100 Hz and a thread at 30 Hz", held / 2**20, 64, "MiB", 1),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep="  |  ")
