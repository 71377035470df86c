"""All threads that stack recorders have seen, and when each recorder was watching."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from gaptop.recording import lines
from gaptop.timeline.intervals import Intervals
from gaptop.timeline.runs import Micros
from gaptop.timeline.source import SourceState
from gaptop.timeline.stacks import Classify, Stacks
from gaptop.timeline.threads import Thread
from gaptop.timeline.types import Floats, Span, StackTime, StackTimes, ThreadId
from gaptop.timeline.units import MICRO, micros
from gaptop_collectors.signals import ACTIVITIES

_THREADS: Final = 4_096
_LONGEST: Final = 86_400 * MICRO
"""A longer span is no observation."""


class ThreadSet:
    """Thread histories by source and tid. Spans are clipped to what the recorder says it covered."""

    def __init__(self, classify: Classify | None) -> None:
        self.stacks = Stacks(classify)
        self._threads: dict[ThreadId, Thread] = {}
        self._watched: dict[str, Intervals] = {}
        self._dropped = -(1 << 62)
        self._reached: int | None = None
        self._swept: int | None = None

    def frames(self, line: lines.Frames) -> None:
        """Intern stacks; those that nothing refers to any more make room when there is none."""
        for key, frames in line.stacks.items():
            if self.stacks.full:
                self._sweep()
            self.stacks.add(key, frames)

    def spans(self, line: lines.Spans, source: SourceState) -> None:
        """Take in spans of one source."""
        covered = micros(line.covered[0]), micros(line.covered[1])
        if covered[0] is None or covered[1] is None or not 0 < covered[1] - covered[0] <= _LONGEST:
            return
        low, high = covered[0], covered[1]
        self._reached = high if self._reached is None else max(high, self._reached)
        source.newest = high if source.newest is None else max(high, source.newest)
        self._watched.setdefault(line.src, Intervals()).add(low, high)
        rows = []
        for tid, start, end, stack in zip(line.tid, line.start, line.end, line.stack, strict=False):
            a, b = micros(start), micros(end)
            if a is not None and b is not None and type(tid) is int and 0 <= tid < 2**53:
                rows.append((max(a, low), min(b, high), tid, stack))
        rows.sort(key=lambda row: row[0])
        for a, b, tid, stack in rows:
            thread = self._thread(ThreadId(line.src, tid), source)
            if thread is not None:
                thread.see(a, b, self.stacks.index(stack))

    def hole(self, source: str, start: int) -> None:
        """An explicit hole of a source was declared that starts here."""
        for key, thread in self._threads.items():
            if key.source == source:
                thread.hole(start)

    def ids(self, source: str | None) -> tuple[ThreadId, ...]:
        """All threads, or those of one source, in the order in which they were first seen."""
        return tuple(key for key in self._threads if source is None or key.source == source)

    def select(self, thread: ThreadId, start: int, end: int) -> Iterator[Span]:
        """States that share time with a range, whole."""
        known = self._threads.get(thread)
        if known is None:
            return
        starts, ends, stacks = known.ready().select(start, end)
        # Where the groups of a history meet, one state may be two pieces.
        new = np.append(True, (starts[1:] != ends[:-1]) | (stacks[1:] != stacks[:-1]))[: len(starts)]
        after = np.append(new[1:], True)[: len(starts)]
        for a, b, stack in zip(starts[new].tolist(), ends[after].tolist(), stacks[new].tolist(), strict=True):
            activity = ACTIVITIES[self.stacks.activity(stack)]
            yield Span(a / MICRO, b / MICRO, activity, self.stacks.id(stack))

    def seconds(self, thread: ThreadId, edges: Micros) -> Floats:
        """Seconds by activity between each two neighbouring edges."""
        known = self._threads.get(thread)
        return np.zeros((len(edges) - 1, len(ACTIVITIES))) if known is None else known.ready().columns(edges)

    def times(self, thread: ThreadId, source: SourceState | None, start: int, end: int) -> StackTimes:
        """Seconds by stack between two moments, and why the rest of that time is not told."""
        end = max(start, end)
        known = self._threads.get(thread)
        states = None if known is None else known.ready()
        low = max(start, self._dropped)
        if states is not None and states.forgotten is not None:
            low = max(low, states.forgotten)
        low = min(low, end)
        took = {} if states is None else states.by_stack(low, end)
        gaps = Intervals() if source is None else source.gaps
        delivered = end if source is None else min(max(low, source.frontier), end)
        watching, hole = self._watching(thread.source, gaps, low, end), gaps.total(low, end)
        later = self._watching(thread.source, gaps, delivered, end) + gaps.total(delivered, end)
        pending = end - delivered - later
        rows = [(-spent, self.stacks.id(index), index) for index, spent in took.items()]
        return StackTimes(
            start=start / MICRO,
            end=end / MICRO,
            stacks=tuple(self._stack_time(index, -spent) for spent, _, index in sorted(rows)),
            absent=(watching - sum(took.values())) / MICRO,
            hole=hole / MICRO,
            pending=pending / MICRO,
            unwatched=(end - low - watching - hole - pending) / MICRO,
            dropped=(low - start) / MICRO,
        )

    def watched(self, source: str, holes: Intervals, edges: Micros) -> Floats:
        """Seconds between each two neighbouring edges in which the recorder of a source watched."""
        known = self._watched.get(source, Intervals()).within(int(edges[0]), int(edges[-1]))
        parts = np.array([part for a, b in known for part in holes.outside(a, b)], np.int64).reshape(-1, 2)
        before = np.concatenate(([0], np.cumsum(parts[:, 1] - parts[:, 0])))
        place = np.searchsorted(parts[:, 1], edges)
        # The last row stands for the time after all parts: its start is never reached.
        starts = np.append(parts[:, 0], edges[-1])
        reached = before[place] + np.maximum(edges - starts[place], 0)
        seconds: Floats = np.diff(reached) / MICRO
        return seconds

    def drop_before(self, moment: int) -> None:
        """Forget what ended before a moment, and threads of which nothing is left."""
        self._dropped = max(moment, self._dropped)
        for watched in self._watched.values():
            watched.drop_before(moment)
        for key, thread in list(self._threads.items()):
            if thread.newest < moment:
                del self._threads[key]
            else:
                thread.drop_before(moment)

    def all(self) -> Iterator[Thread]:
        """Every thread's history."""
        return iter(self._threads.values())

    def _stack_time(self, index: int, spent: int) -> StackTime:
        stack = self.stacks.id(index)
        activity = ACTIVITIES[self.stacks.activity(index)]
        return StackTime(stack, activity, self.stacks.frames(stack), spent / MICRO)

    def _watching(self, source: str, gaps: Intervals, start: int, end: int) -> int:
        """Microseconds of a range in which the recorder of a source watched."""
        known = self._watched.get(source, Intervals()).within(start, end)
        return sum(b - a for x, y in known for a, b in gaps.outside(max(x, start), min(y, end)))

    def _thread(self, key: ThreadId, source: SourceState) -> Thread | None:
        thread = self._threads.get(key)
        if thread is None and len(self._threads) < _THREADS:
            thread = self._threads[key] = Thread(source, self.stacks)
        return thread

    def _sweep(self) -> None:
        if self._swept is not None and self._swept == self._reached:
            return
        self._swept = self._reached
        used: set[int] = {0}
        for thread in self._threads.values():
            used.update(thread.ready().stacks_used().tolist())
        self.stacks.sweep(used)


def thread_name(entity: Mapping[str, Any], tid: int) -> str | None:
    """The name that a process entity gives one of its threads."""
    threads = entity.get("threads")
    if isinstance(threads, list | tuple):
        for item in threads:
            if isinstance(item, Mapping) and item.get("tid") == tid and isinstance(item.get("name"), str):
                return str(item["name"])
    return None
