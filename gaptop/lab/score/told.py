"""From the simulation's truth to what the score compares with: pieces, what the view can show, and the ledger.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gaptop.lab.core.events import Idle, Slow, Stall
from gaptop.lab.fast.view import View
from gaptop.lab.score.match import Truth
from gaptop.lab.score.seen import Piece, Sight, Sliding, Stretch, idle_between, stall_stretches
from gaptop.lab.score.tally import Booked
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.ledger import BUSY_ROW, UNSEEN_ROW
from gaptop.valleys.model import Assessment, Cause

WARM: Final = 3.0
"""Seconds of the stream before which a stall need not be seen: the usual rate is not known yet."""

DEVICE: Final = "device.busy"
PHANTOM: Final = "phantom"

NOBODY: Final[Mapping[str, Cause]] = {"stale_gauge": "no_demand"}
"""A device that rests after everybody hung up has no demand, whatever old gauges say: the valley is real, and only they
are not. Artefacts are what a device says that does *not* rest."""


ALSO: Final[Mapping[str, Cause]] = {"straggler": "host_starvation", "collective": "stalled_busy"}
"""What has two names. A straggler here is a rank whose host thread is late: the peers synchronise, and its own work is
what they wait for. In a collective that hangs on all ranks every device spins: busy, at low power, without a token."""


def devices_of(timeline: Timeline) -> dict[str, int]:
    """The simulation's number of each device by its label in the report."""
    found = {}
    for view in timeline.sources.values():
        index = view.info.entity.get("index")
        if view.info.kind == "device" and DEVICE in view.info.signals and isinstance(index, int):
            found[str(view.info.entity["uuid"])] = index
    return found


def truth_of(idle: Iterable[Idle], stalls: Iterable[Stall], slow: Iterable[Slow], sight: Sight) -> Truth:
    """What is true, as far as the sources must show it."""
    pieces: dict[int, list[Piece]] = {}
    hidden: list[Piece] = []
    for item in sorted(idle, key=lambda item: item.start):
        piece = _piece(item)
        # What the driver calls busy although nothing runs is in no window.
        if item.waited_for == PHANTOM:
            hidden.append(piece)
        else:
            pieces.setdefault(item.device, []).append(piece)
    stood = sorted(map(_piece, stalls), key=lambda item: item.start)
    stretches: list[Stretch] = []
    dips: dict[int, tuple[tuple[float, float], ...]] = {}
    for device, mine in pieces.items():
        sliding = Sliding.over(mine, sight)
        if sliding is not None:
            stretches += sliding.stretches(mine, device)
            dips[device] = sliding.dips()
    unseen = min(pieces.values(), key=len, default=[]) if sight.window is None else []
    silences = [item for item in unseen if item.end - item.start >= sight.step]
    stretches += stall_stretches(stood, stretches, sight, WARM, silences)
    hidden += [_piece(item)._replace(weight=1.0 - item.came) for item in slow]
    return Truth({device: tuple(mine) for device, mine in pieces.items()}, stood, tuple(stretches), dips, hidden)


def _piece(item: Idle | Stall | Slow) -> Piece:
    return Piece(item.start, item.end, NOBODY.get(item.waited_for, item.cause), ALSO.get(item.waited_for))


def sight_of(view: View, step: float, seconds: float) -> Sight:
    """What the view can show of ``seconds``; ``step`` are those of a usual step."""
    # The newest window is read with the next drain, and the newest scrape after its period: the end is not seen.
    unseen = max(view.ring_lag_s + view.drain_s, view.scrape_s)
    return Sight(
        window=view.window_s if view.nvml else None,
        readings=refresh_seconds(view, step),
        step=step,
        start=0.0,
        end=seconds - unseen,
    )


def refresh_seconds(view: View, step: float) -> float:
    """Seconds between two readings that can differ: a scrape cannot be fresher than what the engine tells."""
    if view.refresh == "step":
        return view.scrape_s
    how, value = view.refresh
    return max(view.scrape_s, value * step if how == "steps" else float(value))


def booked(timeline: Timeline, assessment: Assessment, truth: Truth, devices: Mapping[str, int]) -> tuple[Booked, ...]:
    """For each device: the true idle time that its windows cover, and what the ledger says of it."""
    found = []
    for label, device in devices.items():
        rows = [row for row in assessment.ledger if row.device == label and row.cause != UNSEEN_ROW]
        steps = [timeline.steps(item, 0.0, assessment.now) for item in timeline.ids(DEVICE) if label in item.source]
        if not rows or not steps or not len(steps[0].start):
            continue
        idle = float(idle_between(truth.idle.get(device, ()), steps[0].start, steps[0].end).sum())
        told = sum(row.device_seconds for row in rows if row.cause != BUSY_ROW)
        found.append(Booked(idle, told, sum(row.device_seconds for row in rows)))
    return tuple(found)
