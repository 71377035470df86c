"""What keeps the server from the CPU: quotas of its cgroup, and how busy and pressed the whole host is."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gaptop_collectors.collector import Batch, Delivered, Message, SourceInfo
from gaptop_collectors.engines.address import split_address
from gaptop_collectors.host.cgroup_files import Place, places, stalled, throttled_seconds, tightest
from gaptop_collectors.signals import series_key
from gaptop_collectors.target import Processes, ServerProcess

_PROC: Final = Path("/proc")
_LOOK_AGAIN_NS: Final = 30_000_000_000
_RESOURCES: Final = ("cpu", "memory", "io")
_QUOTA: Final = ("host.quota_cores", "host.quota_periods", "host.throttled_periods")
_GROUP: Final = ("host.throttled", *_QUOTA, "host.group_pressure")
_NO_QUOTA: Final = "no CPU quota applies to the server's cgroup, so it cannot be throttled"
_ELSEWHERE: Final = (
    "the server's cgroup is another container's and may not be seen from here, nor may its quota; run gaptop on the "
    "host as root, or in the server's own container"
)
_NO_GROUP_PRESSURE: Final = "the server's cgroup tells no pressure (that takes cgroup version 2 and PSI)"
_NO_PRESSURE: Final = "this kernel tells no pressure (CONFIG_PSI off, or psi=0 at boot)"
_NO_STEAL: Final = "no stolen time was counted since boot: bare metal, or a hypervisor that does not tell"


class _Ticks(NamedTuple):
    """Clock ticks of all cores together since boot: with work, stolen by a hypervisor, and in all."""

    work: int
    stolen: int
    total: int


class Cgroup:
    """The collector. Its sources are ``cgroup/URL`` (throttling) and ``host``; of several servers' collectors only one
    may speak for the host, the others are made with ``host=False``.
    """

    name = "host.cgroup"
    period = 1.0
    deadline = 0.5

    def __init__(self, processes: Processes, url: str | None = None, *, host: bool = True, proc: Path = _PROC) -> None:
        self._processes = processes
        self._source = f"cgroup/{split_address(url)[0]}" if url else "cgroup/server"
        self._host = host
        self._proc = proc
        self._infos: dict[str, SourceInfo] = {}
        self._ticks: _Ticks | None = None
        self._placed: tuple[Sequence[ServerProcess], int, Sequence[Place]] | None = None

    def open(self) -> Sequence[Message]:
        self._infos.clear()
        self._ticks = _ticks(self._proc)
        return ()

    def sample(self) -> Sequence[Message]:
        out = self._group(time.monotonic_ns())
        if self._host:
            out += self._whole_host(time.monotonic_ns())
        return out

    def boost(self, seconds: float) -> None:
        """Nothing to gain: these are counters, whose increments are exact at any period."""

    def close(self) -> None:
        self._infos.clear()

    def _group(self, now: int) -> list[Message]:
        current = [process for process in self._processes.current() if process.role != "other"]
        values: dict[str, list[float | None]] = {}
        if not current:
            return self._emit(self._source, now, dict.fromkeys(_GROUP, self._processes.why_empty()), values)
        try:
            missing = self._read_group(self._places_of(current, now), values)
        except (OSError, ValueError) as error:
            missing = dict.fromkeys(_GROUP, f"the server's cgroup cannot be read ({error})")
            values.clear()
        return self._emit(self._source, now, missing, values)

    def _read_group(self, found: Sequence[Place], values: dict[str, list[float | None]]) -> dict[str, str]:
        """Fills ``values``; returns what is missing and why. Raises ValueError for a file that is not understood."""
        hidden = any(not place.folders for place in found) and not any(place.folders for place in found)
        why = _ELSEWHERE if hidden else _NO_QUOTA
        missing = {}
        held = [seconds for place in found if (seconds := throttled_seconds(place)) is not None]
        if held:
            values["host.throttled"] = [sum(held)]
        else:
            missing["host.throttled"] = why
        quota = tightest(found)
        if quota is None:
            missing |= dict.fromkeys(_QUOTA, why)
        else:
            values |= {name: [float(value)] for name, value in zip(_QUOTA, quota.counts(), strict=True)}
        own = next((place.folders[0] for place in found if place.version == 2 and place.folders), None)
        pressed = _pressures(own, "{}.pressure") if own is not None else {}
        values |= {series_key("host.group_pressure", resource=name): [value] for name, value in pressed.items()}
        if not pressed:
            missing["host.group_pressure"] = _ELSEWHERE if hidden else _NO_GROUP_PRESSURE
        return missing

    def _places_of(self, current: Sequence[ServerProcess], now: int) -> Sequence[Place]:
        """Of all processes, each group once. They are rarely moved between groups: looked up again twice a minute."""
        if self._placed is None or self._placed[0] != current or now - self._placed[1] > _LOOK_AGAIN_NS:
            found: dict[int, dict[Path, None]] = {}
            for process in current:
                for place in places(process.pid, self._proc):
                    found.setdefault(place.version, {}).update(dict.fromkeys(place.folders))
            self._placed = (current, now, [Place(version, tuple(folders)) for version, folders in found.items()])
        return self._placed[2]

    def _whole_host(self, now: int) -> list[Message]:
        values: dict[str, list[float | None]] = {}
        missing: dict[str, str] = {}
        for name, seconds in _pressures(self._proc / "pressure", "{}").items():
            values[series_key("host.pressure", resource=name)] = [seconds]
        if not values:
            missing["host.pressure"] = _NO_PRESSURE
        before, self._ticks = self._ticks, _ticks(self._proc)
        if self._ticks is None:
            missing |= dict.fromkeys(("host.busy", "host.steal"), "/proc/stat cannot be read")
        elif before is not None and self._ticks.total > before.total:
            total = self._ticks.total - before.total
            values["host.busy"] = [(self._ticks.work - before.work) / total]
            if self._ticks.stolen:
                values["host.steal"] = [max(0, self._ticks.stolen - before.stolen) / total]
        if self._ticks is not None and not self._ticks.stolen:
            missing["host.steal"] = _NO_STEAL
        return self._emit("host", now, missing, values)

    def _emit(
        self, source: str, now: int, missing: dict[str, str], values: dict[str, list[float | None]]
    ) -> list[Message]:
        every = ("host.busy", "host.steal", "host.pressure") if source == "host" else _GROUP
        info = SourceInfo(
            source=source,
            collector=self.name,
            kind="host",
            entity={"cores": os.cpu_count()},
            signals=tuple(name for name in every if name not in missing),
            period=self.period,
            unsupported=missing,
            window=self.period,
            error=0.01,
            refresh="scrape",
        )
        out: list[Message] = []
        if self._infos.get(source) != info:
            self._infos[source] = info
            out.append(info)
        if values:
            out.append(Batch(source, [now], values))
        out.append(Delivered(source, now))
        return out


def _pressures(folder: Path, name: str) -> dict[str, float]:
    found = {resource: stalled(folder, name.format(resource)) for resource in _RESOURCES}
    return {resource: seconds for resource, seconds in found.items() if seconds is not None}


def _ticks(proc: Path) -> _Ticks | None:
    """Time stolen by a hypervisor is no work of ours."""
    try:
        with open(proc / "stat", encoding="ascii") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, idle, waiting, irq, softirq, stolen = [*fields, *[0] * (8 - len(fields))]
    work = user + nice + system + irq + softirq
    return _Ticks(work, stolen, work + idle + waiting + stolen)
