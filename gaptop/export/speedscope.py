"""speedscope's own JSON: one profile a thread, in which frames open and close in seconds of the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gaptop.export.labels import ThreadLabel, common, framed
from gaptop.timeline.stacks import Frame
from gaptop.timeline.types import Span

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def speedscope(
    threads: Iterable[tuple[ThreadLabel, Sequence[Span]]],
    frames: Callable[[int], tuple[Frame, ...]],
    start: float,
    end: float,
    name: str,
    exporter: str,
) -> dict[str, Any]:
    """The file for [start, end). ``frames`` explains a stack's number. While a thread was not seen, nothing is open."""
    shared: dict[Frame, int] = {}

    def numbers(stack: int) -> list[int]:
        return [shared.setdefault(frame, len(shared)) for frame in framed(frames(stack))]

    profiles = [
        {
            "type": "evented",
            "name": f"{label.process_name} {label.thread_name}",
            "unit": "seconds",
            "startValue": start,
            "endValue": end,
            "events": _events(spans, numbers, start, end),
        }
        for label, spans in threads
    ]
    return {
        "$schema": SCHEMA,
        "shared": {"frames": [_frame(frame) for frame in shared]},
        "profiles": profiles,
        "name": name,
        "activeProfileIndex": 0,
        "exporter": exporter,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    function, file, line = frame
    return {"name": function, **({"file": file} if file else {}), **({"line": line} if line else {})}


def _events(
    spans: Sequence[Span], numbers: Callable[[int], list[int]], start: float, end: float
) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    held: list[int] = []
    until = start
    for span in spans:
        begun, ended = max(span.start, start), min(span.end, end)
        if ended <= begun:
            continue
        wanted = numbers(span.stack)
        # Across a gap nothing goes on, whatever stood there before and after it.
        kept = common(held, wanted) if begun == until else 0
        events += _closed(held[kept:], until)
        events += [{"type": "O", "frame": number, "at": begun} for number in wanted[kept:]]
        held, until = wanted, ended
    return events + _closed(held, until)


def _closed(numbers: list[int], at: float) -> list[dict[str, Any]]:
    return [{"type": "C", "frame": number, "at": at} for number in reversed(numbers)]
