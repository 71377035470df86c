"""How far a source may be relied on: what lies before that time will not change any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gaptop.recording.lines import Hole, Source
from gaptop.timeline.types import SourceView
from gaptop.valleys.scope import DEAD_STATES, Scope

DETECT_PATIENCE: Final = 8.0
"""Seconds of stream time that detection waits for a late source: a drained ring keeps about ten seconds."""

VERDICT_PATIENCE: Final = 12.0
"""Seconds that a verdict waits for the slowest source: a rolling py-spy window and its hand-over end within ten."""


SLOW_PERIODS: Final = 1.25
"""Windows and periods that are waited for in full where they outlast the patience: a dcgm-exporter tells each 30 s."""


def patience_for(info: Source, usual: float) -> float:
    """Seconds of stream time to wait for a source, at least ``usual``: its next reading may well be due later."""
    return max(usual, SLOW_PERIODS * ((info.window or 0.0) + info.period))


class Delivery(Protocol):
    """The part of the Timeline that tells what was delivered."""

    now: float

    def holes(self, source: str, start: float, end: float) -> Sequence[Hole]: ...


def settled_until(timeline: Delivery, view: SourceView | None, newest: float | None, patience: float) -> float:
    """The time up to which a source has said all that it will say, or is not waited for any longer.

    ``newest`` is the time of the newest reading of the signal that matters: of a device that is the duty cycle, whose
    windows come out of the driver later than the other readings of the same source.
    """
    now = timeline.now
    if view is None:
        return now
    info = view.info
    if view.health is not None and view.health.state in DEAD_STATES:
        return now
    reached = now - patience_for(info, patience)
    if newest is not None:
        reached = max(reached, newest - info.lag)
    # Readings come after the time that they are about: a watermark alone says "nothing more will come" only once the
    # next reading would have been due. Stacks are delivered with their watermark.
    margin = 0.0 if info.id.startswith("threads/") else info.lag + (info.window or 0.0) + 2.5 * info.period
    reached = max(reached, view.watermark - margin)
    for hole in timeline.holes(info.id, reached, now):
        if hole.start <= reached + margin:
            reached = max(reached, hole.end)
    return min(reached, now)


def awaited(scope: Scope, told_until: Callable[[str], float], start: float, end: float) -> tuple[str, ...]:
    """What has told of less than half of the time from ``start`` to ``end`` so far, in people's words. ``told_until``
    is how far a source may be relied on."""
    kinds = {
        "the device's readings": [device.source for device in scope.devices],
        "metrics": scope.metrics,
        "stacks": [process.source for process in scope.stacks],
        "run states": [process.source for process in scope.states],
        "the host's readings": scope.host,
    }
    middle = (start + end) / 2
    return tuple(what for what, sources in kinds.items() if any(told_until(source) < middle for source in sources))
