"""What the screen is about: everything, one of several servers, or one of several devices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from gaptop.recording.lines import Source
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView, ThreadId
from gaptop.tui.devices import devices
from gaptop.valleys.model import Assessment
from gaptop.valleys.scope import label_of, scopes


@dataclass(frozen=True, slots=True)
class Focus:
    """A part of what is watched: the ids of its sources, and its devices as valleys and the ledger call them."""

    label: str
    sources: frozenset[str]
    devices: frozenset[str]
    servers: frozenset[str] = frozenset()
    """As the ledger calls a server that no device stands for."""


ALL: Final = "all"


class Part(Timeline):
    """A timeline of which only some sources are told. It shares all with the whole, and is made for one frame."""

    def __init__(self, whole: Timeline, wanted: frozenset[str]) -> None:
        self.__dict__.update(whole.__dict__)
        self._wanted = wanted

    @property
    def sources(self) -> Mapping[str, SourceView]:
        """Those that are wanted."""
        return {id: view for id, view in super().sources.items() if id in self._wanted}

    def ids(self, signal: str, source: str | None = None) -> tuple[SeriesId, ...]:
        """Every series of that signal of the wanted sources."""
        return tuple(one for one in super().ids(signal, source) if one.source in self._wanted)

    def threads(self, source: str | None = None) -> tuple[ThreadId, ...]:
        """Their threads."""
        return tuple(one for one in super().threads(source) if one.source in self._wanted)


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
    found = []
    for scope in served if len(served) > 1 else ():
        sources = frozenset((*scope.all_sources, *(id for one in scope.devices for id in one.sources)))
        label = label_of(scope.metrics[0]).partition("://")[2] or label_of(scope.metrics[0])
        mine = frozenset(one.label for one in scope.devices)
        found.append(Focus(label, sources, mine, frozenset(label_of(id) for id in scope.metrics)))
    everything = [one for scope in groups for one in scope.devices]
    for one in everything if len(everything) > 1 else ():
        scope = next(scope for scope in groups if one in scope.devices)
        others = {id for other in scope.devices if other != one for id in other.sources}
        sources = frozenset((*(id for id in scope.all_sources if id not in others), *one.sources))
        label = known[one.label].label if one.label in known else one.label
        found.append(Focus(label, sources, frozenset((one.label,))))
    return tuple(found)


def next_focus(found: Sequence[Focus], now: Focus | None, step: int) -> Focus | None:
    """The part after (or before) the one that is looked at; None is everything."""
    labels = [None, *(one.label for one in found)]
    place = labels.index(now.label) if now is not None and now.label in labels else 0
    chosen = (place + step) % len(labels)
    return found[chosen - 1] if chosen else None


def told_of(assessment: Assessment, focus: Focus) -> Assessment:
    """What is said of that part. A standstill of which no device is known may be its, and stays."""
    mine = focus.devices
    return replace(
        assessment,
        valleys=tuple(item for item in assessment.valleys if not item.devices or mine & set(item.devices)),
        plateaus=tuple(item for item in assessment.plateaus if item.device in mine),
        ledger=tuple(row for row in assessment.ledger if row.device in mine | focus.servers),
        dips=tuple(item for item in assessment.dips if item.device in mine),
        watched=tuple(item for item in assessment.watched if item.device in mine),
        trends=tuple(item for item in assessment.trends if not item.devices or mine & set(item.devices)),
        periods=tuple(item for item in assessment.periods if not item.devices or mine & set(item.devices)),
    )
