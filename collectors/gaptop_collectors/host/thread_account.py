"""Where one thread's time went: on a core, waiting for one, asleep and on what. Pure.

The kernel books time on a core at its ticks and at switches, but a wait for a core only when it ends. So

* a thread that was runnable at two looks and had nothing booked in between has waited all along: one that had run would
  have been booked a tick, and one that had slept would have been switched out. What is booked for that later is not
  counted twice;
* a wait that is longer than the time since the last look began before it: an interval is only settled after one more
  look, and so is a window.

What is left beside running and waiting was slept, on what was seen at the looks around it. Where nothing was seen it is
left out, and the shares add up to less than one. The error at the beginning of a wait that outlasts two looks is at
most the time between two looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

RUNNING: Final = "running"
"""Runnable: on a core or waiting for one."""
STOPPED: Final = "stopped"
_AWAKE: Final = frozenset({RUNNING, STOPPED})
_BOOKED_NS: Final = 15_000_000
"""Ticks are 10 ms apart at most: a running thread has something booked after this time."""


@dataclass(slots=True)
class _Window:
    elapsed: int = 0
    ran: int = 0
    waited: int = 0
    slept: dict[str, float] = field(default_factory=dict)
    unseen: float = 0.0
    """Slept (or not booked yet) between two looks that both found it awake."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a window. ``waited`` is None where the kernel does not tell."""

    ran: float
    waited: float | None
    blocked: dict[str, float]


class Account:
    """One thread's. ``waits``: the kernel books waits for a core; ``ticks``: its cores all have ticks."""

    def __init__(self, *, waits: bool, ticks: bool) -> None:
        self._waits = waits
        self._infers = waits and ticks
        self.wanted = 0
        """Nanoseconds on a core or waiting for one, since :meth:`begin`."""
        self._state = ""
        self._window = _Window()
        self._closed: _Window | None = None
        self._ahead = 0
        self._open: tuple[_Window, int, tuple[str, ...]] | None = None
        """The last interval's window, what of it was neither run nor waited, and what it may have slept on."""

    def begin(self, state: str) -> None:
        """Start anew at a look that found ``state``: nothing before it counts."""
        self._state, self._window, self._closed = state, _Window(), None
        self._ahead, self._open = 0, None

    def step(self, elapsed: int, ran: int, waited: int, state: str) -> None:
        """The nanoseconds since the last look, of which so much was booked, and the state that was found now."""
        before, self._state = self._state, state
        window = self._window
        window.elapsed += elapsed
        window.ran += ran
        still = before == state == RUNNING and not ran and not waited
        if still and self._infers and (elapsed >= _BOOKED_NS or self._ahead):
            self._ahead += elapsed
            window.waited += elapsed
            self.wanted += elapsed
            return
        booked = max(0, waited - self._ahead)
        self.wanted += ran + booked
        self._ahead = 0
        here = min(booked, max(0, elapsed - ran))
        self._settle(booked - here)
        window.waited += here
        asleep = tuple(found for found in (before, state) if found != RUNNING)
        self._open = (window, max(0, elapsed - ran - here), asleep)

    def end(self) -> None:
        """The current window ends at the last look; :meth:`take` gives it after the next one."""
        self._closed, self._window = self._window, _Window()

    def take(self) -> Shares | None:
        """The shares of the window that has ended, None where nothing was measured in it."""
        closed, self._closed = self._closed, None
        if self._open is not None and self._open[0] is closed:
            self._settle(0)
        return None if closed is None or closed.elapsed <= 0 else self._shares(closed)

    def _settle(self, spill: int) -> None:
        """Divide the last interval's rest; ``spill`` of it was waited, as a later booking shows."""
        if self._open is None:
            return
        window, rest, asleep = self._open
        self._open = None
        spill = min(spill, rest)
        window.waited += spill
        rest -= spill
        if not asleep:
            window.unseen += rest
        for reason in asleep:
            window.slept[reason] = window.slept.get(reason, 0.0) + rest / len(asleep)

    def _shares(self, window: _Window) -> Shares:
        ran = min(1.0, window.ran / window.elapsed)
        waited = min(1.0 - ran, window.waited / window.elapsed)
        told = sum(window.slept.values())
        # What was slept unseen is likely to have been slept on the same; a thread that is not seen asleep at all may
        # as well have waited for a core: that stays out.
        whole = told + (window.unseen if self._waits else 0.0)
        rest = min(1.0 - ran - waited, whole / window.elapsed)
        blocked = {reason: rest * part / told for reason, part in window.slept.items() if reason not in _AWAKE and told}
        return Shares(ran, waited if self._waits else None, blocked)
