"""Which sources belong together: a server, its devices, its processes and its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gaptop.recording.lines import Source
from gaptop.timeline.types import SourceView

DEAD_STATES = frozenset({"absent", "refused", "failing", "ended"})
"""Health states of a source from which nothing is to be waited for. One that was slowed down still delivers."""

ENGINE_ROLES = frozenset({"engine"})
"""Processes with a scheduler of their own: one a data parallel rank."""

FRONT_ROLES = frozenset({"api"})
"""Processes that only serve the front end."""

CRITICAL_ROLES = frozenset({"engine", "worker", "server"})
"""Processes whose critical thread every step has to pass."""


class Sources(Protocol):
    """The part of the Timeline that tells the sources."""

    @property
    def sources(self) -> Mapping[str, SourceView]: ...


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device: its source, the name people know it by, the kind, and the server processes seen on it.

    ``also`` are other sources that tell of the same device. ``from_gpm``: its duty cycle is GPM's own, so that other
    GPM counters are no second witness.
    """

    source: str
    label: str
    is_cpu: bool
    pids: frozenset[int] | None
    also: tuple[str, ...] = ()
    from_gpm: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source, *self.also)


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process of a server, as one source sees it (py-spy and /proc are two)."""

    source: str
    pid: int
    role: str
    critical_tid: int | None
    name: str = ""

    @property
    def main_tid(self) -> int:
        """The thread that stands for the process."""
        return self.critical_tid or self.pid

    def is_critical(self, tid: int) -> bool:
        """Whether the device waits for that thread of it."""
        return self.role in CRITICAL_ROLES and tid == self.main_tid


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that can speak about one group of devices and the server that they work for.

    ``engines`` and ``api_servers`` count processes (data parallel ranks; front ends), 1 where none is known to be more.
    ``mapped`` is false where several engines run and nobody knows which of them works on these devices. ``neighbours``
    are other watched servers that work on these devices too.
    """

    metrics: tuple[str, ...]
    engine: str
    devices: tuple[DeviceRef, ...]
    stacks: tuple[ProcessRef, ...]
    states: tuple[ProcessRef, ...]
    host: tuple[str, ...]
    engines: int = 1
    api_servers: int = 1
    mapped: bool = True
    neighbours: tuple[str, ...] = ()

    @property
    def all_sources(self) -> tuple[str, ...]:
        processes = (*(item.source for item in self.stacks), *(item.source for item in self.states))
        return (*(item.source for item in self.devices), *self.metrics, *processes, *self.host)


def label_of(source: str) -> str:
    """The part of a source's id behind its collector's prefix: a UUID or a URL."""
    return source.partition("/")[2] or source


def scopes(timeline: Sources) -> tuple[Scope, ...]:
    """Group all sources by server. A device without known pids belongs to the only server, else it stands alone; one on
    which none of the server's processes was found is not the server's where another device has some. Of several servers
    one whose processes are not known has none of the threads that are seen: they may be another's."""
    infos = [timeline.sources[key].info for key in sorted(timeline.sources)]
    servers = [info for info in infos if info.id.startswith("metrics/")]
    devices = measured([info for info in infos if info.kind == "device"])
    processes = [info for info in infos if info.kind == "process" and info.id.startswith(("threads/", "proc/"))]
    shared = [info.id for info in infos if info.kind == "host" and "/" not in info.id]
    found = []
    taken: set[str] = set()
    alone = len(servers) == 1
    for server in servers:
        pids = _pids(server.entity.get("pids"))
        mine = _working_for(devices, pids, alone=alone)
        taken.update(device.source for device in mine)
        refs = [process_ref(info) for info in processes if alone or info.entity.get("pid") in pids]
        scope = _scope((server,), mine, refs, [*_beside(server, infos, alone), *shared])
        others = [other for other in servers if other is not server and _on_any(mine, other)]
        found.append(replace(scope, neighbours=tuple(label_of(other.id) for other in others)))
    rest = tuple(device for device in devices if device.source not in taken)
    for device in rest:
        refs = [process_ref(info) for info in processes if not servers or _on(device, info)]
        beside = [info.id for info in infos if info.id.startswith(("process/", "cgroup/"))] if not servers else []
        found.append(_scope((), (device,), refs, [*beside, *shared]))
    return tuple(found)


def _scope(
    servers: tuple[Source, ...], devices: tuple[DeviceRef, ...], refs: list[ProcessRef], host: list[str]
) -> Scope:
    entity: Mapping[str, Any] = servers[0].entity if servers else {}
    told, pids = entity.get("engines"), _pids(entity.get("pids"))
    living = [ref for ref in refs if ref.pid in pids or not pids]  # a restarted server's old processes are none
    stacks = tuple(ref for ref in refs if ref.source.startswith("threads/"))
    return Scope(
        metrics=tuple(server.id for server in servers),
        engine=str(entity.get("engine") or ""),
        devices=devices,
        stacks=stacks,
        states=tuple(_as_named(ref, stacks) for ref in refs if ref.source.startswith("proc/")),
        host=tuple(host),
        engines=max(1, told if isinstance(told, int) else 1, _count(living, ENGINE_ROLES)),
        api_servers=max(2 if entity.get("several_api_servers") is True else 1, _count(living, FRONT_ROLES)),
    )


def _as_named(state: ProcessRef, stacks: Sequence[ProcessRef]) -> ProcessRef:
    """The critical thread of a process is told by the name that Python gave it, which only its stacks know."""
    told = next((ref.critical_tid for ref in stacks if ref.pid == state.pid), None)
    return state if told is None else replace(state, critical_tid=told)


def _count(refs: Sequence[ProcessRef], roles: frozenset[str]) -> int:
    return len({ref.pid for ref in refs if ref.role in roles})


def tells_busy(info: Source) -> bool:
    """Whether a device's source delivers its duty cycle."""
    return "device.busy" in info.signals and "device.busy" not in info.unsupported


def measured(infos: Sequence[Source]) -> list[DeviceRef]:
    """Every device whose duty cycle is measured, each once.

    Of several sources of one device (its driver's and an exporter's) the driver's speaks. A GPU that is cut into slices
    is its slices where those are measured, and slices that an exporter names otherwise are the driver's.
    """
    busy = sorted((info for info in infos if tells_busy(info)), key=lambda item: (_second_hand(item), item.id))
    sliced = {str(info.entity["parent"]): _second_hand(info) for info in reversed(busy) if info.entity.get("parent")}
    chosen: dict[str, Source] = {}
    for info in busy:
        parent, name = info.entity.get("parent"), device_label(info)
        told_better = bool(parent) and _second_hand(info) and not sliced[str(parent)]
        if name not in chosen and name not in sliced and not told_better:
            chosen[name] = info
    return [
        _device(info, tuple(other.id for other in infos if device_label(other) == name and other is not info))
        for name, info in sorted(chosen.items(), key=lambda item: item[1].id)
    ]


def device_label(info: Source) -> str:
    """The name people know a device by."""
    return str(info.entity.get("uuid") or label_of(info.id))


def _from_counters(info: Source) -> bool:
    """A slice has no duty cycle but the counters' own; an exporter's is the driver's where it is whole per cents."""
    stated = info.refresh_by_signal.get("device.busy", info.refresh) == "gpm"
    return stated or bool(info.entity.get("parent")) or (_second_hand(info) and not info.rounding)


def _second_hand(info: Source) -> bool:
    return info.id.startswith("dcgm/")


def _device(info: Source, also: tuple[str, ...]) -> DeviceRef:
    pids = info.entity.get("pids")
    return DeviceRef(
        source=info.id,
        label=device_label(info),
        is_cpu=info.entity.get("kind2") == "cpu",
        pids=None if pids is None else _pids(pids),
        also=also,
        from_gpm=_from_counters(info),
    )


def process_ref(info: Source) -> ProcessRef:
    """The process that a source tells of."""
    pid, tid = info.entity.get("pid"), info.entity.get("critical_tid")
    return ProcessRef(
        source=info.id,
        pid=pid if isinstance(pid, int) else 0,
        role=str(info.entity.get("role") or "other"),
        critical_tid=tid if isinstance(tid, int) else None,
        name=str(info.entity.get("name") or ""),
    )


def _pids(value: Any) -> frozenset[int]:
    return frozenset(pid for pid in value if isinstance(pid, int)) if isinstance(value, list | tuple) else frozenset()


def _working_for(devices: Sequence[DeviceRef], pids: frozenset[int], *, alone: bool) -> tuple[DeviceRef, ...]:
    """The devices of a server with these pids. Nobody on a device is not the same as nobody knows who is."""
    used = any(device.pids and device.pids & pids for device in devices)
    return tuple(device for device in devices if _works_for(device, pids, alone=alone, used=used))


def _works_for(device: DeviceRef, pids: frozenset[int], *, alone: bool, used: bool) -> bool:
    if device.pids and device.pids & pids:
        return True
    # Measured to be without ours: another may be the one that works. While none is, it may still become ours.
    return alone and (device.is_cpu or device.pids is None or not used)


def _on_any(devices: Sequence[DeviceRef], server: Source) -> bool:
    """Whether a process of that server is on one of them."""
    pids = _pids(server.entity.get("pids"))
    return any(device.pids and device.pids & pids for device in devices)


def _on(device: DeviceRef, info: Source) -> bool:
    return device.pids is not None and info.entity.get("pid") in device.pids


def _beside(server: Source, infos: list[Source], alone: bool) -> list[str]:
    """The process and cgroup sources of a server carry its URL in their ids, who holds a lock the process's."""
    url = label_of(server.id)
    found = [info.id for info in infos if info.id.startswith(("process/", "cgroup/"))]
    pids = _pids(server.entity.get("pids"))
    locks = [info for info in infos if info.id.startswith("gil/")]
    mine = [info.id for info in locks if info.entity.get("pid") in pids or (alone and not pids)]
    return [*(found if alone else [source for source in found if label_of(source) == url]), *mine]
