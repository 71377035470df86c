"""One thread's share of the host's cores: all it asks for, unless a CPU quota or other threads hold it back."""

from __future__ import annotations

from typing import Final, NamedTuple

from gaptop.lab.core.armed import Faults
from gaptop.lab.core.faults import strength

QUOTA_PERIOD: Final = 0.1
"""The kernel's default period of a CPU quota (cpu.max), in seconds."""

TURN: Final = 0.003
"""How long a thread keeps a contended core: the kernel's base slice on 8 cores and more, in seconds."""


class Stretch(NamedTuple):
    """The thread worked over [start, end), or waited for a core because of ``held_by`` (a key of ``CAUSES``)."""

    start: float
    end: float
    held_by: str


class Core:
    """Ask ``run`` in the order of time. ``woke`` says that the thread has slept since."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._turn = TURN

    def woke(self) -> None:
        """The thread's next work begins with a wait for a core, if the cores are contended."""
        self._turn = 0.0

    def run(self, now: float, seconds: float) -> list[Stretch]:
        """``seconds`` of work from ``now`` on, in stretches without a gap."""
        if now + seconds < self._faults.first_lasting:
            return [Stretch(now, now + seconds, "")]
        done: list[Stretch] = []
        left = seconds
        while True:
            wait, room, held_by = self._next(now)
            if wait > 0:
                done.append(Stretch(now, now + wait, held_by))
                now += wait
                continue
            piece = min(left, room)
            if done and not done[-1].held_by:
                done[-1] = done[-1]._replace(end=now + piece)
            else:
                done.append(Stretch(now, now + piece, ""))
            now += piece
            self._turn -= piece
            left -= piece
            if left <= 1e-9:
                return done

    def _next(self, now: float) -> tuple[float, float, str]:
        """Seconds to wait first, seconds that may be worked then, and what is waited for."""
        room = max(self._faults.next_edge(now) - now, 1e-6)
        quota = self._faults.lasting("throttle", now)
        if quota is not None:
            share = 1 - strength(quota.fault)
            place = (now - quota.start) % QUOTA_PERIOD
            if place >= share * QUOTA_PERIOD:
                return max(min(QUOTA_PERIOD - place, quota.end - now), 1e-6), 0.0, "core_quota"
            room = min(room, max(share * QUOTA_PERIOD - place, 1e-6))
        crowd = self._faults.lasting("oversubscription", now)
        if crowd is not None:
            if self._turn <= 0:
                self._turn = TURN
                return strength(crowd.fault) * TURN, 0.0, "run_queue"
            room = min(room, max(self._turn, 1e-6))
        return 0.0, room, ""
