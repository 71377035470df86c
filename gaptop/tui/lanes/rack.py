"""Which lanes there are, from what the stream has named so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from gaptop.recording.lines import Health
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import SeriesId, ThreadId
from gaptop.tui.devices import devices
from gaptop.tui.lanes.devices import device_lanes
from gaptop.tui.lanes.lane import Lane
from gaptop.tui.lanes.marks import MarksLane
from gaptop.tui.lanes.roles import PROC, shown_threads
from gaptop.tui.lanes.series import SeriesLane, Spec
from gaptop.tui.lanes.stacked import StackedLane
from gaptop.tui.lanes.threads import NoThreads, Shown, StackLane, StateLane
from gaptop.tui.lanes.valleys import ValleyLane
from gaptop.tui.palette import ORANGE, PURPLE, SKY, VERMILLION
from gaptop.tui.scene import Scene

RUNNING: Final = Spec("running", 3, "running", ("sched.running",), "run", SKY, missing="{server}")
WAITING: Final = Spec(
    "waiting", 3, "waiting", ("sched.waiting", "sched.waiting_by_reason", "sched.limit"), "wait", ORANGE
)
SERVER: Final = (
    Spec("tokens", 4, "decode", ("tokens.decode", "step.count"), "tok/s", SKY, missing="{server}"),
    Spec("prompt", 5, "prompt", ("tokens.prompt", "slots.prefilling"), "tok/s", PURPLE),
    Spec("kv", 6, "KV used", ("kv.used", "sched.preemptions", "kv.free_blocks"), "%", VERMILLION, "max", full=1.0),
)


class Rack:
    """The lanes in the order of the dependency from device to host; asked again whenever sources may have changed."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._key: tuple[object, ...] = ()
        self._order: list[Lane] = []

    def lanes(self, timeline: Timeline, healths: Mapping[str, Health]) -> list[Lane]:
        """All lanes that exist, folded or not, valleys last."""
        sources = timeline.sources
        found = devices(sources)
        threads = shown_threads(timeline)
        says = (_why(healths, "devices"), _why(healths, "engines"), _why(healths, "host.threads"))
        key = (found, threads, says, tuple(sources))
        if key != self._key:
            self._key = key
            self._order = [*device_lanes(found, says[0], self._keep), *self._server_lanes(says[1])]
            self._order += [*self._thread_lanes(threads, says[2]), self._marks_lane(threads)]
            self._order.append(self._keep("valleys", ValleyLane))
        return self._order

    def _server_lanes(self, says: str) -> list[Lane]:
        def made(spec: Spec) -> SeriesLane:
            own = replace(spec, missing=spec.missing.replace("{server}", says or "No server has answered yet."))
            return SeriesLane(own, _of(own))

        def queue() -> Lane:
            return StackedLane("queue", "queue", made(RUNNING), made(WAITING))

        lanes = [self._keep(f"queue {says}", queue)]
        return [*lanes, *(self._keep(f"{spec.key} {says}", partial(made, spec)) for spec in SERVER)]

    def _thread_lanes(self, threads: tuple[Shown, ...], says: str) -> list[Lane]:
        lanes: list[Lane] = []
        for thread in threads:
            make = partial(StateLane if thread.source.startswith(PROC) else StackLane, thread)
            lanes.append(self._keep(f"thread {thread}", make))
        return lanes or [
            self._keep(f"threads {says}", partial(NoThreads, says or "No thread of the server is seen yet."))
        ]

    def _marks_lane(self, threads: tuple[Shown, ...]) -> Lane:
        stacked = tuple(ThreadId(one.source, int(one.tid)) for one in threads if not one.source.startswith(PROC))
        return self._keep(f"marks {stacked}", partial(MarksLane, stacked))

    def _keep(self, key: str, make: Callable[[], Lane]) -> Lane:
        """A lane keeps its cache as long as it stands for the same thing."""
        if key not in self._lanes:
            self._lanes[key] = make()
        return self._lanes[key]


def _of(spec: Spec) -> Callable[[Scene], tuple[SeriesId, ...]]:
    signal = spec.signals[0]
    return lambda scene: scene.timeline.ids(signal)


def _why(healths: Mapping[str, Health], collector: str) -> str:
    """What the collectors of that area say is missing and how to get it."""
    said = [health.says for health in healths.values() if health.collector.startswith(collector) and health.says]
    return said[0] if said else ""
