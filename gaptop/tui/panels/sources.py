"""The state and age of every source, in words as well as marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gaptop.recording.lines import Health
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SourceView
from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece
from gaptop.tui.glyphs import Glyphs
from gaptop.tui.text import clean

_FAMILIES: Final = (("devices.", "device"), ("engines.", "metrics"), ("host.threads", "threads"), ("host.", "host"))
_WAITING: Final = ("starting", "late", "backoff")
_OLD_PERIODS: Final = 2.0
_WINDOWED: Final = "host.threads_pyspy"
_WINDOW: Final = 8.0
"""Stacks come in windows of some seconds: until then they are pending, not old."""


@dataclass(frozen=True, slots=True)
class Family:
    """Sources of one kind, as bad as the worst of them. ``age`` is None before the first reading."""

    name: str
    state: str
    age: float | None
    period: float | None
    old: bool
    pending: bool
    paused: int = 0
    """Members that are deliberately left out now."""


def families(timeline: Timeline, healths: Mapping[str, Health], silence: float) -> list[Family]:
    """In the order device, metrics, threads, host. ``silence`` is how long the probe itself has said nothing."""
    grouped: dict[str, list[Family]] = {}
    for src, health in healths.items():
        view = timeline.sources.get(src)
        newest = view.newest if view and view.newest is not None else health.newest
        period = _period(view, health)
        lag = (view.info.lag + (view.info.window or 0.0)) if view else 0.0
        age = None if newest is None else max(0.0, timeline.now - newest) + silence
        windowed = health.collector == _WINDOWED
        patience = _OLD_PERIODS * (period or 1.0) + lag + (_WINDOW if windowed else 0.5)
        old = age is not None and age > patience
        name = next((name for prefix, name in _FAMILIES if health.collector.startswith(prefix)), health.collector)
        paused = int(view is not None and view.info.paused and health.state == "backoff")
        family = Family(name, health.state, age, None if windowed else period, old, windowed and not old, paused)
        grouped.setdefault(name, []).append(family)
    order = [name for _, name in _FAMILIES]
    return [_worst(grouped[name]) for name in sorted(grouped, key=lambda n: _place(order, n))]


def _period(view: SourceView | None, health: Health) -> float | None:
    """Seconds between readings of what this source gives most often: a MIG slice may have rare signals only."""
    if view is None:
        return health.period
    info = view.info
    fastest = min((info.period_by_signal.get(name, 0.0) for name in info.signals), default=0.0)
    return max(health.period or info.period, fastest)


def pieces(family: Family, glyphs: Glyphs, wide: bool) -> list[Piece]:
    """``● metrics 0.4 s (2/s)``; a state that is not ok is named, an age of over two periods is marked old."""
    mark, style = _mark(family, glyphs)
    words = [clean(family.name, glyphs.ascii)]
    if family.state != "ok":
        words.append(clean(family.state, glyphs.ascii))
    if family.age is not None and family.state not in ("absent", "refused", "ended"):
        words.append(figures.age(family.age))
        if family.old:
            words.append("old")
        elif family.pending and family.age >= 1:
            words.append("pending")
    if family.paused:
        words.append(f"{family.paused} left out")
    if wide and family.period and family.state == "ok":
        words.append(f"({_rate(family.period)})")
    return [(mark, style), (f" {' '.join(words)}", palette.PLAIN if style is palette.GOOD else style)]


def _worst(members: list[Family]) -> Family:
    """A member that ended or is left out does not speak for those that go on, nor a device that was never there."""
    quiet = [member for member in members if member.state == "ended" or member.paused or _never_there(member)]
    going = [member for member in members if member not in quiet]
    return replace(max(going or members, key=_badness), paused=sum(member.paused for member in members))


def _never_there(member: Family) -> bool:
    return member.name == "device" and member.state == "absent" and member.age is None


def _rate(period: float) -> str:
    return f"{1 / period:.3g}/s" if period <= 1 else f"every {figures.seconds(period)}"


def _mark(family: Family, glyphs: Glyphs) -> Piece:
    if family.state == "ok" and not family.old:
        return glyphs.state_ok, palette.GOOD
    if family.state in _WAITING or family.state == "ok":
        return glyphs.state_wait, palette.WAIT
    return glyphs.state_bad, palette.BAD


def _badness(family: Family) -> tuple[int, float]:
    rank = 0 if family.state == "ok" and not family.old else 1 if family.state in (*_WAITING, "ok") else 2
    return rank, family.age or 0.0


def _place(order: list[str], name: str) -> int:
    return order.index(name) if name in order else len(order)
