"""What an export holds, in one sentence: how much of the time was seen, why not the rest, and where most of it went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.timeline.merged import top, tree
from gaptop.timeline.types import StackTimes
from gaptop.valleys.hot_paths import place

_LEAST: Final = 0.0005
"""A reason for less of the time than this is not told."""


def summary(times: Sequence[StackTimes], *, folded: bool) -> str:
    """Of threads in one interval, at least one of which was seen."""
    root = tree(times)
    whole = sum(item.end - item.start for item in times)
    threads = "1 thread" if len(times) == 1 else f"{len(times)} threads"
    unit = "weights are milliseconds" if folded else "times are seconds of the stream"
    missing = unseen(times)
    rest = f" (the rest: {missing})" if missing else ""
    most = ", ".join(
        f"{item.own / root.seconds:.0%} {place(item.function, item.file, item.line)}"
        for item in top(root)[:3]
        if item.own > 0.0
    )
    return (
        f"{threads} from {times[0].start:.2f} s to {times[0].end:.2f} s ({unit}), seen {root.seconds / whole:.1%} of "
        f"that time{rest}; most of it in {most or 'stacks without frames'}."
    )


def unseen(times: Sequence[StackTimes]) -> str:
    """Why a part of the time is not told, each reason with its share; "" where all of it is."""
    whole = sum(item.end - item.start for item in times)
    reasons = {
        "their recorder ran but did not show them": sum(item.absent for item in times),
        "declared holes": sum(item.hole for item in times),
        "not delivered": sum(item.pending for item in times),
        "no recorder ran": sum(item.unwatched for item in times),
        "more than memory keeps": sum(item.dropped for item in times),
    }
    return ", ".join(f"{seconds / whole:.1%} {name}" for name, seconds in reasons.items() if seconds > _LEAST * whole)
