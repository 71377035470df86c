"""When one thread runs code that no rule knows: in runs, in some of its phases, and no more of its work than its share.

A run is one thing that the thread did, or a part of a long one.
"""

from __future__ import annotations

from random import Random
from typing import Final

from gaptop.lab.fast.waits import HELD, SPIN, WAIT

RUN: Final = 0.5
"""Seconds of a run inside a long phase, on average."""
_AFFECTED: Final = 0.5
"""Of the phases of a thread have such code in them."""
_WITHIN: Final = 0.25
"""Of all phases have some that known frames call: a rule names those by their callers."""
_KNOWN: Final = frozenset({WAIT, HELD, SPIN, "idle", "await_requests", "poll"})
"""Waits for work are the engine's own code."""


class Strange:
    """One thread's. ``share`` of its samples at work are strange, as far as its affected phases take so long."""

    def __init__(self, share: float, rng: Random) -> None:
        self._share = share
        self._rng = rng
        self._affected: dict[str, bool] = {}
        self._within: dict[str, bool] = {}
        self._seen = self._odd = 0
        self._ends = float("-inf")
        self._span: object = None
        self._now = False

    def sampled(self, span: tuple[float, float, str, str], at: float) -> bool:
        """Whether the sample at ``at``, in the midst of ``span``, is of strange code."""
        phase = span[2]
        if phase in _KNOWN:
            return False
        if at >= self._ends or span[0] != self._span:
            self._span, self._ends = span[0], at + self._rng.expovariate(1 / RUN)
            self._now = self._draws(phase)
        self._seen += 1
        self._odd += self._now
        return self._now

    def within(self, phase: str) -> bool:
        """Whether known frames of that phase call strange ones."""
        if phase not in self._within:
            self._within[phase] = phase not in _KNOWN and self._rng.random() < _WITHIN
        return self._within[phase]

    def _draws(self, phase: str) -> bool:
        if phase not in self._affected:
            self._affected[phase] = self._rng.random() < _AFFECTED
        return self._affected[phase] and self._odd < self._share * self._seen and self._rng.random() < 0.5
