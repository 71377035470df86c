"""Which functions the critical threads were in during a valley: the heaviest merged paths of each."""

from __future__ import annotations

from typing import Final

from gaptop.timeline.merged import heaviest, tree
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import StackTimes, ThreadId
from gaptop.valleys.host_view import WAITS
from gaptop.valleys.model import HotPath, ThreadStacks
from gaptop.valleys.scope import ProcessRef, Scope

PATHS: Final = 5
"""Paths told of each thread."""

FRAMES: Final = 6
"""Innermost frames told of each path."""

_WAITING: Final = WAITS | {"worker_wait"}


def hot_paths(timeline: Timeline, scope: Scope, start: float, end: float) -> tuple[ThreadStacks, ...]:
    """Of every critical thread whose stacks were seen, the one that waited least first."""
    found = []
    for process in scope.stacks:
        thread = ThreadId(process.source, process.main_tid)
        times = timeline.stack_times(thread, start, end) if process.is_critical(thread.tid) else None
        if times is not None and times.stacks:
            waited = sum(item.seconds for item in times.stacks if item.activity in _WAITING)
            told = _told(timeline, process, thread, times)
            found.append((waited / times.seen, process.role, process.pid, told))
    return tuple(told for *_, told in sorted(found, key=lambda item: item[:3]))


def _told(timeline: Timeline, process: ProcessRef, thread: ThreadId, times: StackTimes) -> ThreadStacks:
    return ThreadStacks(
        process=process.name,
        pid=process.pid,
        role=process.role,
        thread=timeline.thread_name(thread),
        tid=thread.tid,
        seen_s=times.seen,
        unseen_s=max(0.0, times.end - times.start - times.seen),
        paths=tuple(
            HotPath(path.frames[-FRAMES:], path.activity, path.seconds / times.seen)
            for path in heaviest(tree((times,)), PATHS)
        ),
    )


def place(function: str, file: str, line: int) -> str:
    """A function and where it stands: the file with its folder, which is the least that tells packages apart."""
    short = "/".join(file.rsplit("/", 2)[-2:])
    return f"{function} in {short}:{line}" if line else f"{function} in {short}"
