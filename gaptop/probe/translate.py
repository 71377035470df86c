"""Collectors' messages (monotonic nanoseconds) as lines of the stream (seconds since its start)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

from gaptop.recording import lines
from gaptop.recording.redact import redact, redact_line
from gaptop_collectors.collector import Batch, Delivered, Frame, Hole, Message, Note, SourceInfo, Stacks

STACKS_KEPT: Final = 4096
"""Stacks that keep their number; the least recently seen lose theirs and get a new one when they come back."""


class Translator:
    """Not thread-safe: its order of use is the order of the stream."""

    def __init__(self, origin_ns: int, intern_base: int = 0) -> None:
        self._origin = origin_ns
        self._next = intern_base
        self._stacks: OrderedDict[tuple[str, tuple[Frame, ...]], int] = OrderedDict()
        self._ids: dict[str, str] = {}

    def seconds(self, time_ns: int) -> float:
        return round((time_ns - self._origin) / 1e9, 6)

    def source_id(self, source: str) -> str:
        """The source's id as it stands in the stream: without secrets."""
        known = self._ids.get(source)
        if known is None:
            known = self._ids[source] = redact(source)
        return known

    def translate(self, message: Message, now_ns: int) -> Iterator[lines.Line]:
        """The message's lines, redacted, in the order in which they must be written.

        What was read before the stream's start is left out. Raises ValueError when a collector breaks its contract.
        """
        match message:
            case SourceInfo():
                yield redact_line(self._source(message, now_ns))
            case Batch():
                yield from self._batch(message)
            case Stacks():
                yield from self._spans(message)
            case Hole():
                start, end = max(0.0, self.seconds(message.start_ns)), self.seconds(message.end_ns)
                if end > start:
                    yield redact_line(lines.Hole(self.source_id(message.source), start, end, message.reason))
            case Note():
                source = None if message.source is None else self.source_id(message.source)
                at = max(0.0, self.seconds(message.time_ns))
                yield redact_line(lines.Event(at, message.what, message.says, source, dict(message.data)))
            case Delivered():
                at = self.seconds(message.time_ns)
                if at >= 0:
                    yield lines.Watermark(self.source_id(message.source), at)

    def _source(self, info: SourceInfo, now_ns: int) -> lines.Source:
        return lines.Source(
            t=self.seconds(now_ns),
            id=self.source_id(info.source),
            collector=info.collector,
            kind=info.kind,
            entity=dict(info.entity),
            signals=list(info.signals),
            period=info.period,
            unsupported=dict(info.unsupported),
            window=info.window,
            window_measured=info.window_measured,
            lag=info.lag,
            error=info.error,
            refresh=info.refresh,
            refresh_by_signal=dict(info.refresh_by_signal),
            period_by_signal=dict(info.period_by_signal),
            window_by_signal=dict(info.window_by_signal),
            jitter=info.jitter,
            rounding=info.rounding,
            clock=info.clock,
            paused=info.paused,
            says=info.says,
        )

    def _batch(self, batch: Batch) -> Iterator[lines.Line]:
        times = [self.seconds(time_ns) for time_ns in batch.times_ns]
        if any(later < earlier for earlier, later in zip(times, times[1:], strict=False)):
            raise ValueError(f"the times of a batch of {batch.source} do not ascend")
        first = next((index for index, time in enumerate(times) if time >= 0), len(times))
        values = {}
        for key, column in batch.values.items():
            if len(column) != len(times):
                raise ValueError(f"{key} of {batch.source} has {len(column)} values for {len(times)} times")
            readings = [value if value is None or isfinite(value) else None for value in column[first:]]
            if any(value is not None for value in readings):
                values[key] = readings
        if values:
            yield lines.Batch(self.source_id(batch.source), times[first:], values)

    def _spans(self, stacks: Stacks) -> Iterator[lines.Line]:
        source = self.source_id(stacks.source)
        covered = max(0.0, self.seconds(stacks.covered[0])), self.seconds(stacks.covered[1])
        if covered[1] <= covered[0]:
            return
        new: dict[str, Sequence[Sequence[object]]] = {}
        rows = []
        for span in stacks.spans:
            start, end = max(0.0, self.seconds(span.start_ns)), self.seconds(span.end_ns)
            if end > start:
                rows.append((span.tid, start, end, self._intern(source, span.stack, new)))
        if new:
            yield lines.Frames(source, new)
        tid, starts, ends, ids = zip(*rows, strict=True) if rows else ((), (), (), ())
        yield lines.Spans(source, covered, tid, starts, ends, ids)

    def _intern(self, source: str, stack: tuple[Frame, ...], new: dict[str, Sequence[Sequence[object]]]) -> int:
        known = self._stacks.get((source, stack))
        if known is not None:
            self._stacks.move_to_end((source, stack))
            return known
        number = self._stacks[source, stack] = self._next
        self._next += 1
        new[str(number)] = [[frame.function, frame.file, frame.line] for frame in stack]
        if len(self._stacks) > STACKS_KEPT:
            self._stacks.popitem(last=False)
        return number
