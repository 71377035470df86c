"""What the screen is about: everything, one of several servers, or one of several devices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from gaptop.recording.lines import Event, Health, Source
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView, ThreadId
from gaptop.tui.devices import devices
from gaptop.valleys.hints import hints
from gaptop.valleys.model import Assessment
from gaptop.valleys.plateau import level_hints
from gaptop.valleys.scope import Scope, label_of, scopes
from gaptop.valleys.sentence import NO_ANSWER, sentence
from gaptop_collectors.target import place_of


@dataclass(frozen=True, slots=True)
class Focus:
    """A part of what is watched: the ids of its sources, and its devices as valleys and the ledger call them."""

    label: str
    sources: frozenset[str]
    devices: frozenset[str]
    servers: frozenset[str] = frozenset()
    """As valleys call its server, and the ledger one that no device stands for."""
    others: frozenset[str] = frozenset()
    """The addresses, in short, of the other servers that are watched."""


ALL: Final = "all"
Marks = Mapping[str, str]
"""By label, what is wrong with a part: ``lost`` or ``waiting``."""


class Part(Timeline):
    """A timeline of which only some sources are told. It shares all with the whole, and is made for one frame."""

    def __init__(self, whole: Timeline, focus: Focus) -> None:
        self.__dict__.update(whole.__dict__)
        self._wanted = focus.sources
        self.health = healths_of(whole, whole.health, focus)
        self._others = focus.others
        self._foreign = whole.sources.keys() - focus.sources if focus.others else frozenset()

    @property
    def sources(self) -> Mapping[str, SourceView]:
        """Those that are wanted."""
        return {id: view for id, view in super().sources.items() if id in self._wanted}

    @property
    def events(self) -> Sequence[Event]:
        """Without what happened to other servers, or in reading them."""
        return tuple(event for event in super().events if event.src not in self._foreign and not self._elsewhere(event))

    def _elsewhere(self, event: Event) -> bool:
        return str(event.data.get("collector", "")).partition(":")[2] in self._others

    def ids(self, signal: str, source: str | None = None) -> tuple[SeriesId, ...]:
        """Every series of that signal of the wanted sources."""
        return tuple(one for one in super().ids(signal, source) if one.source in self._wanted)

    def threads(self, source: str | None = None) -> tuple[ThreadId, ...]:
        """Their threads."""
        return tuple(one for one in super().threads(source) if one.source in self._wanted)


def healths_of(timeline: Timeline, healths: Mapping[str, Health], focus: Focus) -> dict[str, Health]:
    """Those of its own sources, and of collectors that have none; not those of another server's collectors."""
    return {
        src: health
        for src, health in healths.items()
        if src in focus.sources or (src not in timeline.sources and src.partition(":")[2] not in focus.others)
    }


def healths_shown(timeline: Timeline, healths: Mapping[str, Health], focus: Focus | None) -> Mapping[str, Health]:
    """Those of the part that is looked at. Of everything, without servers that do not answer while another one does:
    these are marked."""
    if focus is not None:
        return healths_of(timeline, healths, focus)
    found = focuses(timeline)
    marked = marks(timeline, found, healths)
    gone = [one for one in found if one.label in marked]
    going = [one.sources for one in found if one.servers and one.label not in marked]
    if not gone or not going:
        return healths
    shared = frozenset().union(*going)
    theirs = frozenset(id for one in gone for id in one.sources) - shared
    places = {one.label for one in gone}
    return {
        src: health
        for src, health in healths.items()
        if src not in theirs and (src in timeline.sources or src.partition(":")[2] not in places)
    }


def focuses(timeline: Timeline) -> tuple[Focus, ...]:
    """The parts that one may look at: each of several servers, and each of several devices; none where there is one."""
    return _focuses(_Asked(timeline, tuple(view.info for view in timeline.sources.values())))


class _Asked:
    """Equal where the very same descriptions hold: those of a source do not change, another one is sent."""

    __slots__ = ("_infos", "timeline")

    def __init__(self, timeline: Timeline, infos: tuple[Source, ...]) -> None:
        self.timeline = timeline
        self._infos = infos

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._infos)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and tuple(map(id, self._infos)) == tuple(map(id, other._infos))


@lru_cache(maxsize=2)
def _focuses(asked: _Asked) -> tuple[Focus, ...]:
    timeline = asked.timeline
    known = {one.key: one for one in devices(timeline.sources)}
    groups = scopes(timeline)
    served = [scope for scope in groups if scope.metrics]
    several = len(served) > 1
    places = [_place(scope) for scope in served]
    found = []
    for place, scope in zip(places, served, strict=True) if several else ():
        sources = frozenset((*scope.all_sources, *(id for one in scope.devices for id in one.sources)))
        mine = frozenset(one.label for one in scope.devices)
        found.append(Focus(place, sources, mine, _servers(scope), frozenset(places) - {place}))
    everything = [one for scope in groups for one in scope.devices]
    for one in dict.fromkeys(everything) if len(everything) > 1 else ():
        scope = next(scope for scope in groups if one in scope.devices)
        if several and scope.metrics and len(scope.devices) == 1:
            continue  # its server's part is the same
        others = {id for other in scope.devices if other != one for id in other.sources}
        sources = frozenset((*(id for id in scope.all_sources if id not in others), *one.sources))
        label = known[one.label].label if one.label in known else one.label
        elsewhere = frozenset(places) - {_place(scope)} if several else frozenset()
        found.append(Focus(label, sources, frozenset((one.label,)), _servers(scope), elsewhere))
    return tuple(found)


def _place(scope: Scope) -> str:
    return place_of(label_of(scope.metrics[0])) if scope.metrics else ""


def _servers(scope: Scope) -> frozenset[str]:
    return frozenset(label_of(id) for id in scope.metrics)


def marks(timeline: Timeline, found: Sequence[Focus], healths: Mapping[str, Health]) -> Marks:
    """The parts whose server does not answer: any more, or not yet."""
    said = {}
    for one in found:
        for id in (id for id in one.sources if one.others and id.startswith("metrics/")):
            health, view = healths.get(id), timeline.sources.get(id)
            if health is not None and health.state in NO_ANSWER:
                said[one.label] = "waiting" if view is None or view.newest is None else "lost"
    return said


def next_focus(found: Sequence[Focus], now: Focus | None, step: int) -> Focus | None:
    """The part after (or before) the one that is looked at; None is everything."""
    labels = [None, *(one.label for one in found)]
    place = labels.index(now.label) if now is not None and now.label in labels else 0
    chosen = (place + step) % len(labels)
    return found[chosen - 1] if chosen else None


def told_of(assessment: Assessment, focus: Focus, part: Part) -> Assessment:
    """What is said of that part; each of several servers has a sentence of its own. A standstill of which neither
    device nor server is known may be its, and stays."""
    mine = focus.devices

    def is_mine(devices: Sequence[str], server: str) -> bool:
        if devices:
            return bool(mine & set(devices))
        return not server or not focus.servers or server in focus.servers

    valleys = tuple(item for item in assessment.valleys if is_mine(item.devices, item.server))
    said = replace(
        assessment,
        valleys=valleys,
        plateaus=tuple(item for item in assessment.plateaus if item.device in mine),
        ledger=tuple(row for row in assessment.ledger if row.device in mine | focus.servers),
        dips=tuple(item for item in assessment.dips if item.device in mine),
        watched=tuple(item for item in assessment.watched if item.device in mine),
        trends=tuple(item for item in assessment.trends if is_mine(item.devices, item.server)),
        periods=tuple(item for item in assessment.periods if is_mine(item.devices, item.server)),
    )
    if not focus.others:
        return said
    own = *hints(part, scopes(part)), *level_hints([valley for valley in valleys if valley.became_level])
    return replace(said, hints=own, sentence=sentence(part, said))
