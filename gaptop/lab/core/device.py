"""One device's time: steps, what slows them, and idle time with its truth. Spans of one device never overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gaptop.lab.core.armed import Faults
from gaptop.lab.core.causes import CAUSES
from gaptop.lab.core.events import DeviceSpan, DeviceWork, Event, Idle
from gaptop.lab.core.faults import strength
from gaptop.lab.core.model import DeviceModel
from gaptop.lab.core.truth import IdleTruth

Piece = Callable[[float, float, str], None]
NOTABLE: Final = 1.5
"""A step that takes so many times as long as plain decoding is worth a word."""

SLOWED: Final = 1.1
"""A step that a limit made so many times as long, or more, has lost the rest to it: less is in the noise of steps."""

NOTHING_RUNS: Final = ("demand", "stale_gauge")
"""The device's own words for that."""


class Step(NamedTuple):
    """A step's work: tokens, and its seconds at full speed, ``compute`` of them bound by arithmetic. ``decoding``: what
    its decode part alone would take."""

    number: int
    prefill_tokens: int
    recomputed_tokens: int
    decode_tokens: int
    seconds: float
    compute: float
    decoding: float


class Device:
    """``piece`` is told of all time in which no ordinary decoding goes on (start, end, why)."""

    def __init__(
        self, index: int, model: DeviceModel, faults: Faults, add: Callable[[Event], None], piece: Piece
    ) -> None:
        self.index = index
        self.truth = IdleTruth(index)
        self._model = model
        self._faults = faults
        self._add = add
        self._piece = piece

    @property
    def free(self) -> float:
        """When the last work known ends."""
        return self.truth.device_free

    def run(self, at: float, step: Step) -> float:
        """Do ``step``, launched at ``at``; returns its end."""
        start = max(at, self.free)
        faults = self._faults
        if start < faults.first_lasting and start < faults.next_strike:
            return self.work(start, step, step.seconds, 1.0, "")
        seconds, clock, limit = self.speed(start, step)
        start = self.after_others(start, seconds)
        end = self.work(start, step, seconds, clock, limit)
        wedge = faults.struck("wedge", start)
        if wedge is not None:
            end = self.spin(end, end + wedge.seconds, "wedge", step.number, wedge.strength)
            self._piece(start, end, "wedge")
        return end

    def work(self, start: float, step: Step, seconds: float, clock: float, limit: str) -> float:
        """The step itself, over ``seconds`` from ``start`` on; ``limit`` is what slowed it."""
        end = start + seconds
        self._idle(start, end)
        self._add(
            DeviceSpan(
                start,
                end,
                step.number,
                step.prefill_tokens,
                step.recomputed_tokens,
                step.decode_tokens,
                step.compute,
                self.index,
                "step",
                clock,
            )
        )
        if limit and seconds >= NOTABLE * step.seconds:
            self._piece(start, end, limit)
        elif limit and seconds >= SLOWED * step.seconds:
            self._piece(start + step.seconds, end, limit)
        elif step.prefill_tokens and (not step.decode_tokens or step.seconds >= NOTABLE * step.decoding):
            again = 2 * step.recomputed_tokens > step.prefill_tokens
            self._piece(start, end, "recompute" if again else "prefill")
        return end

    def spin(self, start: float, end: float, kind: DeviceWork, number: int = 0, compute: float = 0.0) -> float:
        """Be busy over [start, end) without any token."""
        self._idle(start, end)
        self._add(DeviceSpan(start, end, number, 0, 0, 0, compute, self.index, kind))
        return end

    def after_others(self, start: float, seconds: float) -> float:
        """When our work may begin: a co-tenant has its share of the device first."""
        tenant = self._faults.lasting("cotenant", start)
        if tenant is None:
            return start
        share = strength(tenant.fault)
        end = self.spin(start, start + seconds * share / (1 - share), "foreign")
        self._piece(start, end, "co_tenant")
        return end

    def speed(self, start: float, step: Step) -> tuple[float, float, str]:
        """Seconds of the step as it begins at ``start``, the clock's share, and what limits it ("": nothing)."""
        clock, limit = 1.0, ""
        if start >= self._faults.first_lasting:
            for place in ("thermal", "power"):
                for fault in self._faults.all_lasting(place, start):
                    if fault.rank == self.index and strength(fault) < clock:
                        clock, limit = strength(fault), place
        return self._model.slowed(step.seconds, step.compute, clock) if limit else step.seconds, clock, limit

    def finish(self, now: float) -> None:
        """Tell the idle time up to ``now``."""
        self._idle(now, max(now, self.free))

    def _idle(self, until: float, busy_until: float) -> None:
        for idle in self.truth.idle(until, busy_until):
            if idle.waited_for in NOTHING_RUNS and idle.end > self._faults.first_lasting:
                self._phantom(idle)
                continue
            self._add(idle)
            self._piece(idle.start, idle.end, idle.waited_for)

    def _phantom(self, idle: Idle) -> None:
        """Nothing runs, but the driver may say otherwise."""
        start = idle.start
        for phantom in self._faults.within("phantom", idle.start, idle.end):
            if phantom.start > start:
                self._add(idle._replace(start=start, end=phantom.start))
            self._add(Idle(phantom.start, phantom.end, "phantom", CAUSES["phantom"], self.index))
            self._add(DeviceSpan(phantom.start, phantom.end, 0, 0, 0, 0, 0.0, self.index, "phantom"))
            start = phantom.end
        if idle.end > start:
            self._add(idle._replace(start=start))
