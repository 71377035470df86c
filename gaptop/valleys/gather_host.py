"""The host's part of the evidence: what each process's threads did."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, ThreadId
from gaptop.valleys import reading
from gaptop.valleys.evidence import ThreadView
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import CRITICAL_ROLES, FRONT_ROLES, ProcessRef, Scope
from gaptop_collectors.signals import split_key

MIN_SEEN: Final = 0.2
"""A thread that was seen for less than a fifth of the stretch tells nothing about it."""

MIN_STRANGE: Final = 0.3
"""Unrecognised code on the critical thread is named where it takes this share of the time."""


def thread_views(
    timeline: Timeline, scope: Scope, start: float, end: float, before: Reference
) -> tuple[ThreadView, ...]:
    """The critical threads of the engine and every front-end thread that was seen, stacks and run states joined."""
    found: dict[tuple[int, int], ThreadView] = {}
    for process in scope.stacks:
        for thread in timeline.threads(process.source):
            view = _stacks(timeline, process, thread.tid, timeline.thread_name(thread), start, end)
            if view is not None:
                found[process.pid, thread.tid] = view
    for process in scope.states:
        found |= _states(timeline, process, start, end, before, found)
    return tuple(found[key] for key in sorted(found))


def _wanted(process: ProcessRef, tid: int) -> bool:
    if process.role in FRONT_ROLES or process.role == "server":
        return True
    return process.role in CRITICAL_ROLES and tid == (process.critical_tid or process.pid)


def _critical(process: ProcessRef, tid: int) -> bool:
    return process.role in CRITICAL_ROLES and tid == (process.critical_tid or process.pid)


def _stacks(
    timeline: Timeline, process: ProcessRef, tid: int, name: str, start: float, end: float
) -> ThreadView | None:
    if not _wanted(process, tid):
        return None
    thread = next(item for item in timeline.threads(process.source) if item.tid == tid)
    seconds = timeline.shares(thread, start, end)
    total = sum(seconds.values())
    if total < MIN_SEEN * (end - start):
        return None
    critical = _critical(process, tid)
    strange = critical and seconds.get("other", 0.0) >= MIN_STRANGE * total
    return ThreadView(
        role=process.role,
        name=name,
        critical=critical,
        activities={activity: share / total for activity, share in sorted(seconds.items())},
        unrecognised=_strangest(timeline, thread, start, end) if strange else "",
    )


def _strangest(timeline: Timeline, thread: ThreadId, start: float, end: float) -> str:
    """The innermost frame of the unrecognised stacks that took longest, as ``function (file)``."""
    took: dict[str, float] = {}
    for span in timeline.spans(thread, start, end):
        frames = timeline.frames(span.stack) if span.activity == "other" else ()
        if frames:
            name = f"{frames[-1][0]} ({frames[-1][1].rpartition('/')[2]})"
            took[name] = took.get(name, 0.0) + min(span.end, end) - max(span.start, start)
    return max(took, key=lambda name: (took[name], name), default="")


def _by_tid(timeline: Timeline, process: ProcessRef, signal: str, on: str | None = None) -> dict[int, SeriesId]:
    """The series of one signal of a process by thread."""
    found = {}
    for item in timeline.ids(signal, process.source):
        labels = split_key(item.key)[1]
        tid = labels.get("tid", "")
        if tid.isdigit() and labels.get("on") == on:
            found[int(tid)] = item
    return found


def _states(
    timeline: Timeline,
    process: ProcessRef,
    start: float,
    end: float,
    before: Reference,
    known: dict[tuple[int, int], ThreadView],
) -> dict[tuple[int, int], ThreadView]:
    """Run states of the wanted threads, joined with what their stacks said. Only the critical one is asked for all."""
    on_cpu = _by_tid(timeline, process, "host.oncpu")
    wants = _by_tid(timeline, process, "host.runqueue_wait")
    disk = _by_tid(timeline, process, "host.blocked", "disk")
    found = {}
    for tid in sorted(on_cpu):
        if not _wanted(process, tid):
            continue
        share = reading.seen_mean(timeline, on_cpu[tid], start, end)
        if share is None:
            continue
        critical = _critical(process, tid)
        view = known.get((process.pid, tid), ThreadView(process.role, str(tid), critical))
        if critical:
            view = replace(
                view,
                on_cpu_before=before.ask(("on_cpu", on_cpu[tid]), partial(timeline.mean, on_cpu[tid])),
                wants_cpu=reading.seen_mean(timeline, wants[tid], start, end) if tid in wants else None,
                blocked_on_disk=reading.seen_mean(timeline, disk[tid], start, end) if tid in disk else None,
            )
        found[process.pid, tid] = replace(view, on_cpu=share)
    return found


def stopped_roles(timeline: Timeline, scope: Scope, start: float, end: float) -> tuple[str, ...]:
    """Roles of the processes that were stopped (SIGSTOP or a debugger) for a good part of the stretch."""
    roles = {item.pid: item.role for item in (*scope.stacks, *scope.states)}
    found = []
    sources = (*scope.host, *(item.source for item in scope.states))
    for item in reading.series(timeline, "host.stopped", sources):
        share = timeline.mean(item, start, end)
        if share is not None and share >= MIN_SEEN:
            pid = split_key(item.key)[1].get("pid", "")
            found.append(roles.get(int(pid) if pid.isdigit() else -1, "process"))
    return tuple(sorted(set(found)))
