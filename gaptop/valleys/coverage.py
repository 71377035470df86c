"""How much of what threads did the rules for stacks could name: what a verdict that rests on stacks is worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import ThreadId
from gaptop.valleys.report_devices import rounded
from gaptop.valleys.scope import CRITICAL_ROLES

NOTHING_TO_DO: Final = frozenset({"idle", "await_requests"})
"""Known waits need no further rule; counting them would make every idle server look well understood."""

UNDERSTOOD: Final = 0.9
"""Where rules name less than this share, what they miss is told."""

UNNAMED: Final = "other"
_SHOWN: Final = 3
_PARTS: Final = 3


def coverage_json(timeline: Timeline, start: float, end: float) -> dict[str, Any]:
    """Shares of the time that threads were not idle for which a rule was found, over all threads and over the critical
    ones, in all and by process. A ratio is None where no such time was seen, or where there are no rules."""
    rows = []
    unnamed: defaultdict[tuple[str, str], float] = defaultdict(float)
    for source, view in sorted(timeline.sources.items()):
        if not timeline.has_rules or not source.startswith("threads/"):
            continue
        entity = view.info.entity
        role = str(entity.get("role") or "other")
        wanted = entity.get("critical_tid") or entity.get("pid")
        seen, critical, name = _Seen(), _Seen(), None
        for thread in timeline.threads(source):
            shares = timeline.shares(thread, start, end)
            seen.add(shares)
            if thread.tid == wanted and role in CRITICAL_ROLES:
                critical.add(shares)
                name = timeline.thread_name(thread)
            if shares.get(UNNAMED):
                _add_unnamed(unnamed, timeline, thread, start, end)
        rows.append((source, entity, role, name, seen, critical))
    every = _Seen.together(row[4] for row in rows)
    critical = _Seen.together(row[5] for row in rows)
    return {
        "matched_ratio": every.ratio,
        "critical_matched_ratio": critical.ratio,
        "processes": [
            {
                "source": source,
                "pid": entity.get("pid"),
                "role": role,
                "critical_thread": name,
                "seconds": rounded(seen.seconds),
                "matched_ratio": seen.ratio,
                "critical_seconds": rounded(critical.seconds),
                "critical_matched_ratio": critical.ratio,
            }
            for source, entity, role, name, seen, critical in rows
        ],
        "unmatched": [
            {"function": function, "file": file, "seconds": rounded(took)}
            for (function, file), took in sorted(unnamed.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
        ],
    }


def critical_ratio(timeline: Timeline, start: float, end: float) -> float | None:
    """The share that rules name on the threads that the device waits for; None where they were idle or not seen."""
    seen = _Seen()
    for source, view in timeline.sources.items():
        entity = view.info.entity
        if timeline.has_rules and source.startswith("threads/") and entity.get("role") in CRITICAL_ROLES:
            wanted = entity.get("critical_tid") or entity.get("pid")
            if isinstance(wanted, int):
                seen.add(timeline.shares(ThreadId(source, wanted), start, end))
    return seen.ratio


class _Seen:
    """Seconds of threads that were not idle, and those of them that a rule named."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._named = 0.0

    def add(self, shares: dict[str, float]) -> None:
        busy = sum(took for activity, took in shares.items() if activity not in NOTHING_TO_DO)
        self.seconds += busy
        self._named += busy - shares.get(UNNAMED, 0.0)

    @classmethod
    def together(cls, parts: Iterable[_Seen]) -> _Seen:
        whole = cls()
        for part in parts:
            whole.seconds += part.seconds
            whole._named += part._named
        return whole

    @property
    def ratio(self) -> float | None:
        return rounded(min(1.0, self._named / self.seconds)) if self.seconds > 0.0 else None


def _add_unnamed(
    took: defaultdict[tuple[str, str], float], timeline: Timeline, thread: ThreadId, start: float, end: float
) -> None:
    """Seconds by the innermost frame of the stacks that no rule knows: its function and the end of its path, as a rule
    would name it."""
    for span in timeline.spans(thread, start, end):
        frames = timeline.frames(span.stack) if span.activity == UNNAMED else ()
        if frames:
            function, path = frames[-1][0], "/".join(frames[-1][1].split("/")[-_PARTS:])
            took[function, path] += min(span.end, end) - max(span.start, start)
