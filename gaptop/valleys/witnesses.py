"""Which independent signals agree with a valley or a dip: two of them confirm it, one alone leaves it suspected.

Independent of a device's duty cycle (the driver's sampling of its engines) are its hardware counters (GPM or DCGM),
the server's own numbers, the host's threads, and last of all power. Memory utilisation is the same sample as the duty
cycle, and where the duty cycle itself comes from GPM, no other GPM counter is a second witness.

Power confirms nothing shorter than a second: cards were measured that integrate 25 ms of each 100 ms, or average over
a second, and neither can say what a shorter gap drew.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId
from gaptop.valleys.causes.rule import quiet
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import BUSY, critical, front_end, holds_none
from gaptop.valleys.scope import DeviceRef

SHORTEST: Final = 0.25
"""Seconds, and two windows at least: over less, readings twice a second do not tell a valley from their scatter."""

FELL: Final = 0.75
"""Progress under three quarters of the usual: steady servers scatter by 10-20 % between readings."""

POWER_FELL: Final = 0.8
POWER_LENGTH: Final = 1.0
"""Seconds that power must have been low for."""

COUNTERS: Final = ("device.graphics_active", "device.sm_active", "device.tensor_active", "device.dram_active")
BEFORE: Final = 3.0
"""Seconds before it that a counter's usual level is taken from."""

ENOUGH: Final = 5
AT_REST: Final = 0.02
"""A counter under 2 % has nowhere to fall."""

HALF: Final = 0.5
"""A counter that lost half as much as the duty cycle fell with it: their windows do not lie alike."""

NOISE: Final = 3.0
SEEN: Final = 0.8
ENDED_ENOUGH: Final = 1e-6


def of_utilisation(evidence: Evidence, window: float, counters: tuple[str, ...]) -> tuple[str, ...]:
    """The signals that agree with a utilisation valley, its own first; ``counters`` are those that fell with it."""
    found = ["device.busy", *counters]
    if evidence.length >= max(SHORTEST, 2 * window) - ENDED_ENOUGH:
        progress = evidence.progress_ratio
        if progress is not None and progress < FELL:
            found.append("tokens.decode" if evidence.decode_rate is not None else "step.count")
        if quiet(evidence) is True:
            found.append("sched.running")
        if holds_none(evidence) is not None:
            found.append("host.thread_activity")
        found += cooled(evidence)
    return tuple(found)


def of_progress(evidence: Evidence) -> tuple[str, ...]:
    """The signals that agree with a progress valley, its own first."""
    main, front = critical(evidence), front_end(evidence)
    held = [main.compiling, main.transfer, main.loading, main.sync, front.busy]
    found = ["tokens.decode" if evidence.decode_rate is not None else "step.count"]
    if evidence.device_idle:
        found.append("device.busy")
    if any(share is not None and share >= BUSY for share in held):
        found.append("host.thread_activity")
    if evidence.compilers is not None and evidence.compilers >= 1.0:
        found.append("host.compilers")
    return (*found, *cooled(evidence))


def cooled(evidence: Evidence) -> tuple[str, ...]:
    """What says that the device drew less: its energy counter, else its power."""
    if evidence.length < POWER_LENGTH - ENDED_ENOUGH:
        return ()
    for signal, ratio in (("device.energy", evidence.energy_ratio), ("device.power", evidence.power_ratio)):
        if ratio is not None:
            return (signal,) if ratio < POWER_FELL else ()
    return ()


def counters_fell(timeline: Timeline, device: DeviceRef, start: float, end: float, lost: float) -> tuple[str, ...]:
    """The first hardware counter of a device that fell with it, if one did.

    ``lost``: seconds of the usual work that the duty cycle says did not happen between ``start`` and ``end``.
    """
    if device.from_gpm:
        return ()
    for signal in COUNTERS:
        for source in device.sources:
            if any(_fell(timeline, item, start, end, lost) for item in timeline.ids(signal, source)):
                return (signal,)
    return ()


def _fell(timeline: Timeline, item: SeriesId, start: float, end: float, lost: float) -> bool:
    inside = timeline.steps(item, start, end)
    if not len(inside.start):
        return False
    before = timeline.steps(item, float(inside.start[0]) - BEFORE, float(inside.start[0]))
    if len(before.start) < ENOUGH or timeline.coverage(item, start, end) < SEEN:
        return False
    usual, scatter = float(before.value.mean()), float(before.value.std())
    if usual < AT_REST:
        return False
    lengths = inside.end - inside.start
    fallen = float(((1.0 - inside.value / usual) * lengths).sum())
    noise = scatter / usual * float(np.sqrt((lengths**2).sum()))
    return fallen >= max(HALF * lost, NOISE * noise)
