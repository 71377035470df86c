"""What a thread's stacks and run states say together, as the few shares that the causes ask for. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gaptop.valleys.evidence import Held, ThreadView
from gaptop.valleys.host_view import BUSY, HOST_WORK, SYNC
from gaptop.valleys.joint import RUNNING, WANTS, Joint

LOCK: Final = frozenset({"futex"})
ELSEWHERE: Final = ("pipe", "poll", "disk", "sleep", "other", "unknown")
"""What a thread sleeps on that is no lock; ``unknown``: asleep, and nobody tells on what."""

OFF: Final = 0.2
"""A thread that is off its core for less than this was held up by nothing."""

WORTH: Final = 0.3
"""Share of the time in frames whose run state decides something."""

READS: Final = HOST_WORK | {"load", "kv_transfer", "compile", "other"}
"""What a thread that is blocked on storage reads for; a driver's sleep in a sync may look the same."""


def worth_joining(view: ThreadView) -> bool:
    """Whether the join can tell anything: a thread that never slept worked in all its work frames."""
    if view.activities is None or view.on_cpu is None or view.on_cpu > 1.0 - OFF:
        return False
    if not view.critical:
        # The front end: is what it seems to do no more than a sleep in code that looks like work?
        return view.on_cpu < BUSY <= _share(view, HOST_WORK)
    wanted = (view.wants_cpu or 0.0) >= OFF and _share(view, SYNC) >= WORTH
    read = (view.blocked_on_disk or 0.0) >= OFF
    return wanted or read or _share(view, HOST_WORK | {"other"}) >= WORTH


def held(joint: Joint) -> Held:
    """The shares of a join in which both sources saw something."""

    def least(activities: Collection[str], states: Collection[str]) -> float:
        return joint.least(activities, states) / joint.seen

    dozed = max(0.0, least(HOST_WORK, (*LOCK, *ELSEWHERE)) - joint.most(HOST_WORK, LOCK) / joint.seen)
    most = max(ELSEWHERE, key=lambda name: joint.most(HOST_WORK, (name,))) if dozed > 0.0 else ""
    return Held(
        lock=least(HOST_WORK, LOCK),
        dozed=dozed,
        dozed_on=most,
        sync_wanted=least(SYNC, (WANTS,)),
        computed=least(("other",), (RUNNING,)),
        read=least(READS, ("disk",)),
    )


def _share(view: ThreadView, names: Collection[str]) -> float:
    return sum(share for activity, share in (view.activities or {}).items() if activity in names)
