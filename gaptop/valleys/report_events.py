"""The report's part on what happened: errors of a driver, devices that went and came back, our own slow calls."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gaptop.recording.printable import printable
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.report_devices import rounded

NEWEST: Final = 200
LINES: Final = 10
"""Lines of the section in the text."""
_WORST: Final = ("xid", "gpu_lost", "probe_ended", "same_readings", "server_restarted", "probe_restarted")
"""Who keeps a place in the text where there are more than it has room for, in this order; then the newest."""
_LOST: Final = "gpu_lost"
_OWN: Final = "command"
"""What the screen asked of the probe: in the machine form only."""


def events_json(
    timeline: Timeline, window: tuple[float, float] | None, utc: Callable[[float], str | None]
) -> list[dict[str, Any]]:
    """The newest events (of ``window``), oldest first."""
    found = sorted(
        (event for event in timeline.events if window is None or window[0] <= event.t <= window[1]),
        key=lambda event: (event.t, event.src or "", event.what, event.says),
    )
    return [
        {
            "t_s": rounded(event.t),
            "utc": utc(event.t),
            "what": event.what,
            "says": event.says,
            "source": event.src,
            "data": dict(event.data),
        }
        for event in found[-NEWEST:]
    ]


def event_lines(
    events: Sequence[Mapping[str, Any]], width: int, sources: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """The section of the text report; those that say the same stand together. Nothing where nothing happened.

    ``sources`` is what each source says of itself now; a lost GPU goes on with the remedy, where its event ends.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for event in events:
        if event["what"] != _OWN:
            says = event["says"] or event["what"]
            if event["what"] == _LOST:
                now = sources.get(event["source"] or "", "")
                says = now if now.startswith(says.removesuffix(".")) else says
            groups.setdefault((event["what"], says), []).append(event["t_s"])
    if not groups:
        return []
    told = [(key, times, _wrapped(key[1], times, width)) for key, times in groups.items()]
    told.sort(key=lambda item: (_rank(item[0][0]), -item[1][-1]))
    room = LINES - 1
    if sum(len(lines) for _, _, lines in told) > room:
        room -= 1  # for the count of those left out
    kept: list[tuple[float, list[str]]] = []
    for _, times, lines in told:
        if len(lines) <= room or not kept:
            kept.append((times[0], lines[:room]))
            room -= len(kept[-1][1])
    shown = [line for _, lines in sorted(kept, key=lambda item: item[0]) for line in lines]
    if left := len(told) - len(kept):
        shown.append(f"  ... and {left} more (all with --json)")
    return ["Events", *shown, ""]


def _wrapped(says: str, times: Sequence[float], width: int) -> list[str]:
    when = f"at {times[0]:.1f} s"
    if len(times) > 1:
        when = f"{len(times)} times, {times[0]:.1f} to {times[-1]:.1f} s"
    text = printable(f"{when}: {says}")
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")


def _rank(what: str) -> int:
    return _WORST.index(what) if what in _WORST else len(_WORST)
