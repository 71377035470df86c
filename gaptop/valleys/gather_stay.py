"""How long a thread kept one and the same stack: longer than ever, and it is perhaps no longer doing what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Span, ThreadId
from gaptop.valleys.evidence import Stay
from gaptop.valleys.reference import Reference

ALLOCATES: Final = frozenset({"schedule", "prepare_batch", "sample", "detokenize", "serialize", "other"})
"""Activities whose Python lines take next to no time each, and make objects. The others spend theirs in one call."""

WORTH: Final = 0.4
"""Share of the time from which on a stay may explain a valley."""


def longest_stay(
    timeline: Timeline, thread: ThreadId, start: float, end: float, total: float, before: Reference
) -> Stay | None:
    """The longest stay of a thread (``total`` seconds of it were seen), where it is worth a word."""
    spans = [span for span in timeline.spans(thread, start, end) if span.activity in ALLOCATES]
    longest = max(spans, key=lambda span: (_inside(span, start, end), -span.start), default=None)
    seconds = 0.0 if longest is None else _inside(longest, start, end)
    if longest is None or seconds < WORTH * total:
        return None
    usual = before.ask(("stay", thread, longest.activity), partial(_usual, timeline, thread, longest.activity))
    return Stay(seconds, seconds / total, longest.activity, frame_name(timeline.frames(longest.stack)), usual)


def frame_name(frames: Sequence[tuple[str, str, int]]) -> str:
    """The innermost frame as ``function (file)``; "" where there is none."""
    return f"{frames[-1][0]} ({frames[-1][1].rpartition('/')[2]})" if frames else ""


def _inside(span: Span, start: float, end: float) -> float:
    return min(span.end, end) - max(span.start, start)


def _usual(timeline: Timeline, thread: ThreadId, activity: str, start: float, end: float) -> float | None:
    """The mean stay in a stretch of ordinary time; None where the thread never did that there. The longest one would be
    no measure: collections that are too short to make a valley are among them."""
    spans: Iterable[Span] = timeline.spans(thread, start, end)
    stays = [_inside(span, start, end) for span in spans if span.activity == activity]
    return sum(stays) / len(stays) if stays else None
