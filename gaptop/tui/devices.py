"""The devices as people read them: which there are, and what each is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from string import ascii_lowercase
from typing import Any, Final

from gaptop.recording.lines import Source
from gaptop.timeline.types import SourceView
from gaptop.valleys.scope import device_label, measured

BUSY: Final = "device.busy"
_MAKERS: Final = frozenset({"NVIDIA", "GeForce", "Tesla", "Quadro", "Graphics"})
_NAME: Final = 13
"""Letters of a device's name in its lane."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, whichever sources tell of it (the finest first).

    ``key`` is what valleys and the ledger call it. ``busy`` is the source of its utilisation, "" where none has it, and
    then ``reason`` says why. ``ours``: the watched server works on it, as far as that is known.
    """

    key: str
    label: str
    name: str
    sources: tuple[str, ...]
    busy: str
    reason: str
    index: int | None
    slice: str
    parent: str
    is_cpu: bool
    ours: bool


class _Infos:
    """Descriptions of sources, equal where they are the very same: they do not change, and are sent anew seldom."""

    __slots__ = ("_ids", "infos")

    def __init__(self, infos: Iterable[Source]) -> None:
        self.infos = tuple(infos)
        self._ids = tuple(map(id, self.infos))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Infos) and self._ids == other._ids


def devices(sources: Mapping[str, SourceView]) -> tuple[Device, ...]:
    """GPUs by index with their MIG slices behind them, then the CPU."""
    return _found(_Infos(view.info for view in sources.values() if view.info.kind in ("device", "server")))


@lru_cache(maxsize=4)
def _found(told: _Infos) -> tuple[Device, ...]:
    infos = {info.id: info for info in told.infos if info.kind == "device"}
    pids = {pid for info in told.infos if info.kind == "server" for pid in _pids(info)}
    groups = _groups(infos)
    used = any(_occupied(infos[source], pids) for sources, _ in groups.values() for source in sources)
    indexes = {key: _index(infos[sources[0]].entity) for key, (sources, _) in groups.items()}
    found = [
        _device(key, [infos[source] for source in sources], busy, indexes, pids, used)
        for key, (sources, busy) in groups.items()
    ]
    found = _with_slices(found)
    found.sort(key=lambda one: (one.is_cpu, one.index is None, one.index or 0, one.slice != "", one.slice, one.key))
    return _told_apart(found)


def _with_slices(found: list[Device]) -> list[Device]:
    """A GPU that is the server's while its driver says so of none of its slices: each of them may be, so all are."""
    telling = {one.parent for one in found if one.slice and one.ours}
    cut = {one.key for one in found if one.ours and not one.busy} - telling
    return [replace(one, ours=True) if one.slice and one.parent in cut else one for one in found]


def _groups(infos: Mapping[str, Source]) -> dict[str, tuple[tuple[str, ...], str]]:
    """By device the sources that tell of it, and the one of its utilisation ("" where none has it).

    As the analysis groups them; what it does not measure has no utilisation here either. An exporter's other name for
    a slice that the driver tells of is left out.
    """
    refs = measured(list(infos.values()))
    groups = {ref.label: (ref.sources, ref.source) for ref in refs}
    cut = {str(infos[ref.source].entity.get("parent") or "") for ref in refs} - {""}
    for info in infos.values():
        key = device_label(info)
        if any(info.id in sources for sources, _ in groups.values()):
            continue
        if key in groups or str(info.entity.get("parent") or "") not in cut:
            groups[key] = ((*groups.get(key, ((), ""))[0], info.id), groups.get(key, ((), ""))[1])
    return groups


def working(found: Sequence[Device]) -> tuple[Device, ...]:
    """The server's own GPUs, all where it is not known which these are; CPUs where there is nothing else."""
    for group in (
        [one for one in found if one.ours and not one.is_cpu],
        [one for one in found if not one.is_cpu],
        list(found),
    ):
        if group:
            return tuple(group)
    return ()


def short_name(name: str) -> str:
    """What tells this model from others: ``NVIDIA A100-SXM4-40GB`` is an A100."""
    kept: list[str] = []
    for word in name.partition("(")[0].split():
        if word in _MAKERS:
            continue
        model, dash, _ = word.partition("-")
        if kept and (word.endswith("GB") or len(" ".join((*kept, model))) > _NAME):
            break
        kept.append(model)
        if dash:
            break
    return " ".join(kept)[:_NAME]


def named(found: Sequence[Device], long_name: str, *, short: bool) -> str:
    """In a few words: ``RTX 3090 #0``, ``8x H100``, ``H100 #0: 3 MIG slices``. ``long_name`` is the first's."""
    slices = [one for one in found if one.slice]
    whole = [one for one in found if not one.slice and one.key not in {part.parent for part in slices}]
    words = []
    if len(whole) == 1:
        name = whole[0].name if short else long_name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        mark = " (cpu)" if whole[0].is_cpu else "" if whole[0].index is None else f" #{whole[0].index}"
        words.append(name + mark)
    elif whole:
        names = {one.name for one in whole}
        words.append(f"{len(whole)}x {names.pop() if len(names) == 1 else 'GPU'}")
    if slices:
        names = {one.name for one in slices}
        gpus = {(one.parent, one.index) for one in slices}
        where = names.pop() if len(names) == 1 else f"{len(gpus)} GPUs"
        index = f" #{slices[0].index}" if len(gpus) == 1 and slices[0].index is not None else ""
        count = slices[0].slice if len(slices) == 1 else f"{len(slices)} MIG slices"
        words.append(f"{where}{index}: {count}")
    return " + ".join(words)


def _device(
    key: str, group: list[Source], busy: str, indexes: Mapping[str, int | None], pids: set[int], used: bool
) -> Device:
    entity = group[0].entity
    parent, part = str(entity.get("parent") or ""), str(entity.get("slice") or "")
    index = indexes.get(parent) if parent else None
    index = indexes[key] if index is None else index
    name = short_name(str(entity.get("name") or ""))
    is_cpu = entity.get("kind2") == "cpu"
    why = next((info.unsupported[BUSY] for info in group if info.unsupported.get(BUSY)), "")
    return Device(
        key=key,
        label=_label(name or key, index, part, is_cpu),
        name=name or "device",
        sources=tuple(info.id for info in group),
        busy=busy,
        reason="" if busy else why or "its slices tell it, or nothing does",
        index=index,
        slice=part,
        parent=parent,
        is_cpu=is_cpu,
        ours=not used or any(info.entity.get("pids") is None or _occupied(info, pids) for info in group),
    )


def _label(name: str, index: int | None, part: str, is_cpu: bool) -> str:
    if is_cpu:
        return "CPU"
    if part:
        return part if index is None else f"{index}/{part}"
    return name if index is None else f"#{index} {name}"


def _told_apart(found: list[Device]) -> tuple[Device, ...]:
    """Letters behind labels that several devices share."""
    shared = {label for label, times in Counter(one.label for one in found).items() if times > 1}
    seen: Counter[str] = Counter()
    result = []
    for one in found:
        if one.label in shared:
            nth = seen[one.label]
            seen[one.label] += 1
            mark = ascii_lowercase[nth] if nth < len(ascii_lowercase) else str(nth + 1)
            one = replace(one, label=f"{one.label} {mark}")
        result.append(one)
    return tuple(result)


def _index(entity: Mapping[str, Any]) -> int | None:
    index = entity.get("index")
    return index if isinstance(index, int) else None


def _pids(info: Source) -> list[int]:
    pids = info.entity.get("pids")
    return [pid for pid in pids if isinstance(pid, int)] if isinstance(pids, list | tuple) else []


def _occupied(info: Source, pids: set[int]) -> bool:
    return any(pid in pids for pid in _pids(info))
