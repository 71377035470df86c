"""Which lanes there are, from what the stream has named so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from gaptop.recording.lines import Health
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, SourceView, ThreadId
from gaptop.tui.devices import devices
from gaptop.tui.lanes.devices import device_lanes
from gaptop.tui.lanes.lane import Lane
from gaptop.tui.lanes.series import SeriesLane, Spec
from gaptop.tui.lanes.threads import NoThreads, StackLane, StateLane
from gaptop.tui.lanes.valleys import ValleyLane
from gaptop.tui.palette import ORANGE, PURPLE, SKY, VERMILLION
from gaptop.tui.scene import Scene

SERVER: Final = (
    Spec("running", 3, "running", ("sched.running",), "run", SKY, missing="{server}"),
    Spec("waiting", 3, "waiting", ("sched.waiting", "sched.waiting_by_reason", "sched.limit"), "wait", ORANGE),
    Spec("tokens", 4, "decode", ("tokens.decode", "step.count"), "tok/s", SKY, missing="{server}"),
    Spec("prompt", 5, "prompt", ("tokens.prompt", "slots.prefilling"), "tok/s", PURPLE),
    Spec("kv", 6, "KV used", ("kv.used", "sched.preemptions", "kv.free_blocks"), "%", VERMILLION, "max", full=1.0),
)
NAMES: Final = (
    (1, "devices"),
    (2, "power"),
    (3, "queue"),
    (4, "decode"),
    (5, "prompt"),
    (6, "KV"),
    (7, "engine threads"),
    (8, "front end"),
    (9, "valleys"),
)
"""What the digit keys fold and unfold."""

_MOST_THREADS: Final = 4
_QUEUE: Final = 3
_ROLES: Final = {"engine": (0, "engine"), "server": (1, "server"), "worker": (2, "worker"), "api": (3, "front end")}


class Rack:
    """The lanes in the order of the dependency from device to host; asked again whenever sources may have changed."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._key: tuple[object, ...] = ()
        self._order: list[Lane] = []
        self._tops: dict[str, float] = {}

    def lanes(self, timeline: Timeline, healths: Mapping[str, Health]) -> list[Lane]:
        """All lanes that exist, folded or not, valleys last."""
        sources = timeline.sources
        found = devices(sources)
        threads = _threads(timeline)
        says = (_why(healths, "devices"), _why(healths, "engines"), _why(healths, "host.threads"))
        key = (found, threads, says, tuple(sources))
        if key != self._key:
            self._key = key
            self._order = [*device_lanes(found, says[0], self._keep), *self._server_lanes(says[1])]
            self._order += [*self._thread_lanes(threads, says[2]), self._keep("valleys", ValleyLane)]
        return self._order

    def _server_lanes(self, says: str) -> list[Lane]:
        lanes: list[Lane] = []
        for spec in SERVER:
            own = replace(spec, missing=spec.missing.replace("{server}", says or "No server has answered yet."))
            tops = self._tops if spec.digit == _QUEUE else {}
            lanes.append(self._keep(f"{spec.key} {own.missing}", partial(SeriesLane, own, _of(own), "", tops)))
        return lanes

    def _thread_lanes(self, threads: tuple[tuple[str, str, str, int], ...], says: str) -> list[Lane]:
        lanes: list[Lane] = []
        for source, tid, label, digit in threads:
            if source.startswith("proc/"):
                make: Callable[[], Lane] = partial(StateLane, label, digit, label, source, tid)
            else:
                make = partial(StackLane, label, digit, label, ThreadId(source, int(tid)))
            lanes.append(self._keep(f"thread {source} {tid} {label}", make))
        return lanes or [
            self._keep(f"threads {says}", partial(NoThreads, says or "No thread of the server is seen yet."))
        ]

    def _keep(self, key: str, make: Callable[[], Lane]) -> Lane:
        """A lane keeps its cache as long as it stands for the same thing."""
        if key not in self._lanes:
            self._lanes[key] = make()
        return self._lanes[key]


def _of(spec: Spec) -> Callable[[Scene], tuple[SeriesId, ...]]:
    signal = spec.signals[0]
    return lambda scene: scene.timeline.ids(signal)


def _threads(timeline: Timeline) -> tuple[tuple[str, str, str, int], ...]:
    """(source, tid, label, digit) of the threads to show: the critical one of each process, engine first."""
    ranked: list[tuple[int, str, str, str, int]] = []
    stacked: set[object] = set()
    views = [item for item in timeline.sources.items() if item[1].info.kind == "process"]
    views.sort(key=lambda item: item[0].startswith("proc/"))
    for source, view in views:
        role = str(view.info.entity.get("role", "other"))
        if role not in _ROLES or view.info.entity.get("pid") in stacked:
            continue
        tid = _critical(timeline, source, view)
        if tid is None:
            continue
        if not source.startswith("proc/"):
            stacked.add(view.info.entity.get("pid"))
        rank, label = _ROLES[role]
        ranked.append((rank, source, tid, label, 8 if role == "api" else 7))
    ranked.sort()
    return tuple((source, tid, label, digit) for _, source, tid, label, digit in ranked[:_MOST_THREADS])


def _critical(timeline: Timeline, source: str, view: SourceView) -> str | None:
    """The thread whose work the device waits for: the one named so, else the main thread, else the first seen."""
    wanted = view.info.entity.get("critical_tid") or view.info.entity.get("pid")
    seen = [str(thread.tid) for thread in timeline.threads(source)]
    if not seen:
        from gaptop_collectors.signals import split_key

        seen = [tid for one in timeline.ids("host.oncpu", source) if (tid := split_key(one.key)[1].get("tid"))]
    if not seen:
        return None
    return str(wanted) if str(wanted) in seen else seen[0]


def _why(healths: Mapping[str, Health], collector: str) -> str:
    """What the collectors of that area say is missing and how to get it."""
    said = [health.says for health in healths.values() if health.collector.startswith(collector) and health.says]
    return said[0] if said else ""
