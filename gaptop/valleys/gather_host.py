"""The host's part of the evidence: what each process's threads did."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, ThreadId
from gaptop.valleys import reading
from gaptop.valleys.evidence import Gil, ThreadView
from gaptop.valleys.gather_frames import RARE, frames_tell
from gaptop.valleys.gather_near import Gap, near
from gaptop.valleys.gather_stay import frame_name, longest_stay
from gaptop.valleys.host_held import held, worth_joining
from gaptop.valleys.host_view import HOST_WORK
from gaptop.valleys.joint import RUNNING, WANTS, join
from gaptop.valleys.reference import Reference
from gaptop.valleys.scope import CRITICAL_ROLES, FRONT_ROLES, ProcessRef, Scope
from gaptop_collectors.signals import WAITING_ON, series_key, split_key

MIN_SEEN: Final = 0.2
"""A thread that was seen for less than a fifth of the stretch tells nothing about it."""

UNSURE: Final = 2.0
"""Two edges, each as unsure as the source says: what is shorter than their doubt holds a sample or two, no share."""

MIN_STRANGE: Final = 0.3
"""Unrecognised code is named where it takes this share of a thread's time."""

GRAINS: Final = 8.0
"""Slices of a join are this many times as long as an edge between stacks is unsure: shorter ones would hold too few
samples, and chance would look like a thread that sleeps while it works."""

SOME_GRAMMAR: Final = 0.1
"""A thread beside the critical one is looked at where it compiles grammars for this share of the time."""

SOME_LOCK: Final = 0.1
"""Who held the interpreter's lock is asked where a thread waited for one this share of the time."""


def thread_views(
    timeline: Timeline, scope: Scope, start: float, end: float, before: Reference, gap: Gap | None = None
) -> tuple[ThreadView, ...]:
    """The critical threads of the engine and every front-end thread that was seen, stacks and run states joined, and
    the engine's threads that compile grammars: requests wait for them, and no step does. ``gap``: what the stretch is,
    where it is a whole gap of some device."""
    found: dict[tuple[int, int], ThreadView] = {}
    stacks = {process.pid: process for process in scope.stacks}
    for process in scope.stacks:
        for thread in timeline.threads(process.source):
            view = _stacks(timeline, process, thread, start, end, before)
            if view is not None and (_wanted(process, thread.tid) or _helps(view)):
                found[process.pid, thread.tid] = view
    if gap is not None:
        found |= _few(timeline, scope, gap, before)
    for process in scope.states:
        for tid in _tids(timeline, process):
            key = process.pid, tid
            view = _states(timeline, process, tid, found.get(key), start, end, before)
            if view is not None:
                found[key] = view
                recorder = stacks.get(process.pid)
                if recorder is not None and view.activities is not None and not view.few and worth_joining(view):
                    found[key] = _joined(timeline, recorder, process, tid, view, start, end)
    return tuple(found[key] for key in sorted(found))


def _wanted(process: ProcessRef, tid: int) -> bool:
    return process.role in FRONT_ROLES or process.role == "server" or _critical(process, tid)


def _helps(view: ThreadView) -> bool:
    return (view.activities or {}).get("grammar", 0.0) >= SOME_GRAMMAR


def _critical(process: ProcessRef, tid: int) -> bool:
    return process.role in CRITICAL_ROLES and tid == (process.critical_tid or process.pid)


def _tids(timeline: Timeline, process: ProcessRef) -> list[int]:
    """The wanted threads of a process whose run states were read."""
    labels = [split_key(item.key)[1].get("tid", "") for item in timeline.ids("host.oncpu", process.source)]
    return sorted(int(tid) for tid in labels if tid.isdigit() and _wanted(process, int(tid)))


def _stacks(
    timeline: Timeline, process: ProcessRef, thread: ThreadId, start: float, end: float, before: Reference
) -> ThreadView | None:
    if _short(timeline, process, start, end):
        return None
    seconds = timeline.shares(thread, start, end)
    total = sum(seconds.values())
    if total < MIN_SEEN * (end - start):
        return None
    critical = _critical(process, thread.tid)
    rare = sum(seconds.get(name, 0.0) for name in RARE)
    strange = seconds.get("other", 0.0) >= MIN_STRANGE * total
    return ThreadView(
        role=process.role,
        name=timeline.thread_name(thread),
        critical=critical,
        activities={activity: share / total for activity, share in sorted(seconds.items())},
        unrecognised=strangest(timeline, thread, start, end) if strange else "",
        frames=frames_tell(timeline, thread, start, end, total) if critical and rare >= MIN_STRANGE * total else {},
        stay=longest_stay(timeline, thread, start, end, total, before) if critical else None,
    )


def _short(timeline: Timeline, process: ProcessRef, start: float, end: float) -> bool:
    return end - start < UNSURE * timeline.sources[process.source].info.error


def _few(timeline: Timeline, scope: Scope, gap: Gap, before: Reference) -> dict[tuple[int, int], ThreadView]:
    """The critical threads by the few samples about a gap that is shorter than their doubt; of a role only where all
    were at the same, as one of several ranks that is at something else is waited for by the others."""
    found: dict[str, dict[tuple[int, int], ThreadView]] = {}
    told: dict[str, set[str]] = {}
    for process in scope.stacks:
        if process.role not in CRITICAL_ROLES or not _short(timeline, process, gap.start, gap.end):
            continue
        thread, error = ThreadId(process.source, process.main_tid), timeline.sources[process.source].info.error
        activity = near(timeline, thread, gap, error, before)
        told.setdefault(process.role, set()).add(activity)
        view = ThreadView(process.role, timeline.thread_name(thread), True, {activity: 1.0}, few=True)
        found.setdefault(process.role, {})[process.pid, thread.tid] = view
    agreed = [role for role, activities in told.items() if len(activities) == 1 and "" not in activities]
    return {key: view for role in agreed for key, view in found[role].items()}


def strangest(timeline: Timeline, thread: ThreadId, start: float, end: float) -> str:
    """The innermost frame of the unrecognised stacks that took longest, as ``function (file)``."""
    took: dict[str, float] = {}
    for span in timeline.spans(thread, start, end):
        name = frame_name(timeline.frames(span.stack)) if span.activity == "other" else ""
        if name:
            took[name] = took.get(name, 0.0) + min(span.end, end) - max(span.start, start)
    return max(took, key=lambda name: (took[name], name), default="")


def _states(
    timeline: Timeline,
    process: ProcessRef,
    tid: int,
    known: ThreadView | None,
    start: float,
    end: float,
    before: Reference,
) -> ThreadView | None:
    """Run states of a wanted thread, beside what its stacks said. Only a critical one is asked for all."""

    def share(signal: str, **labels: str) -> float | None:
        return reading.seen_mean(timeline, _key(process, signal, tid, **labels), start, end)

    on_cpu = share("host.oncpu")
    if on_cpu is None:
        return known
    view = replace(known or ThreadView(process.role, str(tid), _critical(process, tid)), on_cpu=on_cpu)
    if not view.critical:
        return view
    ran, waited = _key(process, "host.oncpu", tid), _key(process, "host.runqueue_wait", tid)
    return replace(
        view,
        on_cpu_before=before.ask(("on_cpu", ran), partial(timeline.mean, ran)),
        wants_cpu=share("host.runqueue_wait"),
        wants_cpu_before=before.ask(("wants_cpu", waited), partial(timeline.mean, waited)),
        blocked_on_disk=share("host.blocked", on="disk"),
    )


def _key(process: ProcessRef, signal: str, tid: int, **labels: str) -> SeriesId:
    return SeriesId(process.source, series_key(signal, tid=tid, **labels))


def _joined(
    timeline: Timeline, recorder: ProcessRef, process: ProcessRef, tid: int, view: ThreadView, start: float, end: float
) -> ThreadView:
    """The view with what its stacks and run states say together, and with who held the lock that it waited for."""
    keys = {RUNNING: _key(process, "host.oncpu", tid), WANTS: _key(process, "host.runqueue_wait", tid)}
    keys |= {reason: _key(process, "host.blocked", tid, on=reason) for reason in WAITING_ON}
    states = {name: timeline.steps(key, start, end) for name, key in keys.items()}
    spans = timeline.spans(ThreadId(recorder.source, tid), start, end)
    joint = join(spans, states, start, end, GRAINS * timeline.sources[recorder.source].info.error)
    if joint.seen < MIN_SEEN * (end - start):
        return view
    view = replace(view, held=held(joint))
    return replace(view, gil=_gil(timeline, recorder, tid, start, end)) if _locked(view) else view


def _locked(view: ThreadView) -> bool:
    return view.critical and view.held is not None and view.held.lock >= SOME_LOCK


def _gil(timeline: Timeline, recorder: ProcessRef, tid: int, start: float, end: float) -> Gil | None:
    """Who held the interpreter's lock of a process; None where that was not asked of it."""
    source = f"gil/{recorder.pid}"
    shares: dict[int, float] = {}
    for item in timeline.ids("host.gil", source):
        holder, share = split_key(item.key)[1].get("tid", ""), reading.seen_mean(timeline, item, start, end)
        if holder.isdigit() and share is not None:
            shares[int(holder)] = share
    if not shares:
        return None
    window = timeline.sources[source].info.window or 0.0
    own = shares.pop(tid, 0.0)
    most = max(shares, key=lambda other: (shares[other], -other), default=None)
    if most is None:
        return Gil(own, 0.0, "", window=window)
    thread = ThreadId(recorder.source, most)
    did = {name: took for name, took in timeline.shares(thread, start, end).items() if name in HOST_WORK}
    activity = max(did, key=lambda name: (did[name], name), default="")
    return Gil(own, shares[most], timeline.thread_name(thread), activity, window)


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
