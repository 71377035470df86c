"""From the simulation's truth to what the score compares with: pieces, and what the view can show.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gaptop.lab.core.events import Idle, Slow, Stall
from gaptop.lab.fast.view import View
from gaptop.lab.score.booking import DEVICE
from gaptop.lab.score.match import Truth
from gaptop.lab.score.seen import Piece, Sight, Sliding, Stretch, stall_stretches
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.model import Cause

WARM: Final = 3.0
"""Seconds of the stream before which a stall need not be seen: the usual rate is not known yet."""

PHANTOM: Final = "phantom"

NOBODY: Final[Mapping[str, Cause]] = {"stale_gauge": "no_demand"}
"""A device that rests after everybody hung up has no demand, whatever old gauges say: the valley is real, and only they
are not. Artefacts are what a device says that does *not* rest."""

UNWATCHED: Final[Mapping[str, Cause]] = {**NOBODY, PHANTOM: "no_demand"}
"""Where no driver is asked, none can call a resting device busy: what is left of it is that nobody asked."""


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
    names = NOBODY if sight.window is not None else UNWATCHED
    for item in sorted(idle, key=lambda item: item.start):
        piece = _piece(item, names)
        # What the driver calls busy although nothing runs is in no window.
        if item.waited_for == PHANTOM and sight.window is not None:
            hidden.append(piece)
        else:
            pieces.setdefault(item.device, []).append(piece)
    stood = sorted(map(_piece, stalls), key=lambda item: item.start)
    stretches: list[Stretch] = []
    beyond: list[Stretch] = []
    dips: dict[int, tuple[tuple[float, float], ...]] = {}
    for device, mine in pieces.items():
        sliding = Sliding.over(mine, sight)
        if sliding is not None:
            stretches += sliding.stretches(mine, device)
            beyond += sliding.beyond(mine, device)
            dips[device] = sliding.dips()
    unseen = min(pieces.values(), key=len, default=[]) if sight.window is None else []
    silences = [item for item in unseen if item.end - item.start >= sight.step]
    stretches += stall_stretches(stood, stretches, sight, WARM, silences)
    hidden += [_piece(item)._replace(weight=1.0 - item.came) for item in slow]
    return Truth({device: tuple(mine) for device, mine in pieces.items()}, stood, (*stretches, *beyond), dips, hidden)


def _piece(item: Idle | Stall | Slow, names: Mapping[str, Cause] = NOBODY) -> Piece:
    return Piece(item.start, item.end, names.get(item.waited_for, item.cause))


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
