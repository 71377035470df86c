"""Which threads have a lane: the critical one of each process of the server, the engine's first."""

from __future__ import annotations

from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView, ThreadId
from gaptop.tui.lanes.states import ON_CORE
from gaptop.tui.lanes.threads import Shown
from gaptop_collectors.signals import series_key, split_key

PROC: Final = "proc/"
"""How the ids of sources begin that know run states and no stacks."""
_MOST: Final = 4
_ROLES: Final = {"engine": (0, "engine"), "server": (1, "server"), "worker": (2, "worker"), "api": (3, "front end")}


def shown_threads(timeline: Timeline) -> tuple[Shown, ...]:
    """Those with stacks, else those of which only /proc tells."""
    sources = timeline.sources
    views = [item for item in sources.items() if item[1].info.kind == "process"]
    views.sort(key=lambda item: item[0].startswith(PROC))
    ranked: list[tuple[int, Shown]] = []
    stacked: set[object] = set()
    for source, view in views:
        role, pid = str(view.info.entity.get("role", "other")), view.info.entity.get("pid")
        tid = None if role not in _ROLES or pid in stacked else _critical(timeline, source, view)
        if tid is None:
            continue
        if not source.startswith(PROC):
            stacked.add(pid)
        rank, label = _ROLES[role]
        name = timeline.thread_name(ThreadId(source, int(tid))) if tid.isdecimal() else tid
        booked = next((id for id, other in views if id.startswith(PROC) and other.info.entity.get("pid") == pid), "")
        if SeriesId(booked, series_key(ON_CORE, tid=tid)) not in timeline.ids(ON_CORE, booked):
            booked = ""
        ranked.append((rank, Shown(source, tid, label, name, booked, 8 if role == "api" else 7)))
    ranked.sort()
    return tuple(thread for _, thread in ranked[:_MOST])


def _critical(timeline: Timeline, source: str, view: SourceView) -> str | None:
    """The thread whose work the device waits for: the one named so, else the main thread, else the first seen."""
    wanted = view.info.entity.get("critical_tid") or view.info.entity.get("pid")
    seen = [str(thread.tid) for thread in timeline.threads(source)]
    if not seen:
        seen = [tid for one in timeline.ids(ON_CORE, source) if (tid := split_key(one.key)[1].get("tid"))]
    if not seen:
        return None
    return str(wanted) if str(wanted) in seen else seen[0]
