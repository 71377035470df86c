"""The two lines on top: what is watched and how finely; how its sources are, and what we cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gaptop.recording.lines import Health
from gaptop.timeline.types import SourceView
from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece, spread, width_of
from gaptop.tui.devices import Device, devices, named, working
from gaptop.tui.panels.sources import Family, families, pieces
from gaptop.tui.scene import Scene
from gaptop.tui.seen import UNKNOWN_MAPPING, mapping_unknown, monitor_cost, resolution

_ENGINES: Final = {"vllm": "vLLM", "llamacpp": "llama.cpp", "unknown": "server"}
_GAP: Final[Piece] = ("  ", palette.PLAIN)
_NO_WAY, _NO_URL, _SHORT_NAME, _SHORT, _NO_MODEL, _NO_VERSION, _NO_DEVICE = range(1, 8)
_FORMS: Final = _NO_DEVICE + 1
"""What gives way in the first line, in this order, until it fits."""
_WIDE: Final = 110
"""Columns from which rates are shown beside ages, where they fit."""
_FIXED: Final = 50
"""Cells of the first line that must not give way to a sentence."""


def first_line(scene: Scene, width: int, *, live: bool, ended: str | None, busy: bool) -> list[Piece]:
    """Server, device and resolution at the left; how the view stands to now at the right.

    ``busy`` says that a recording is still being read.
    """
    standing = _standing(scene, live, clip(ended, width, scene.glyphs.ellipsis), busy)
    room = width - width_of(standing)
    found = devices(scene.sources)
    for form in range(_FORMS):
        left = _watched(scene, found, width, form)
        if width_of(left) < room:
            break
    return spread(left, standing, width)


def clip(ended: str | None, width: int, ellipsis: str) -> str | None:
    """Why the stream ended, as far as the header has room for it: what is simulated must stay readable beside it."""
    room = min(width // 3, width - _FIXED)
    return ended if ended is None or len(ended) <= room else ended[: room - len(ellipsis)] + ellipsis


def second_line(
    scene: Scene,
    width: int,
    healths: Mapping[str, Health],
    *,
    silence: float,
    probe_share: float | None,
    screen_share: float | None,
    live: bool = True,
) -> list[Piece]:
    """Sources at the left, our own cost at the right. Of what is not ``live`` nothing has an age."""
    start: list[Piece] = [(" ", palette.PLAIN)]
    if silence:
        start += [(f"{scene.glyphs.state_bad} probe silent for {figures.age(silence)}", palette.BAD), _GAP]
    known = families(scene.timeline, healths, silence)
    if not live:
        known = [replace(family, age=None, old=False, pending=False) for family in known]
    right = _cost(probe_share, screen_share, width)
    found = devices(scene.sources)
    unknown = bool(mapping_unknown(found, scene.sources))
    for wide in (True, False) if width >= _WIDE else (False,):
        left = list(start)
        groups = [_family(family, scene, unknown, wide) for family in known]
        for group in groups:
            if width_of(left) + width_of(group) + width_of(right) <= width:
                left += group
        if len(left) == len(start) + sum(map(len, groups)):
            break
    if not known:
        left.append((f"{scene.glyphs.state_wait} no source has reported yet", palette.WAIT))
    calls = _calls(scene, found)
    if calls and width_of(left) + width_of(calls) + width_of(right) <= width:
        right = [*calls, *right]
    return spread(left, right, width)


def _family(family: Family, scene: Scene, unknown: bool, wide: bool) -> list[Piece]:
    """``unknown``: nobody knows which device is the server's."""
    said = pieces(family, scene.glyphs, wide)
    if unknown and family.name == "device":
        said.append((f" {UNKNOWN_MAPPING}", palette.WAIT))
    return [*said, _GAP]


def _watched(scene: Scene, found: Sequence[Device], width: int, form: int) -> list[Piece]:
    """Server, devices, resolution. With each form something gives way; how finely the device is seen stays."""
    header = scene.timeline.header
    left: list[Piece] = [(" gaptop", palette.BOLD)]
    if header is not None and header.simulated:
        left += [_GAP, (" SIMULATED ", palette.SIMULATED)]
    servers = [view for view in scene.sources.values() if view.info.kind == "server"]
    if servers:
        left += [_GAP, *_server(scene, servers, width, form)]
    elif not found:
        left += [_GAP, ("waiting for the first reading", palette.DIM)]
    if not found:
        return left
    main = working(found)
    entity = scene.sources[main[0].sources[0]].info.entity
    name = named(main, str(entity.get("name") or "device"), short=form >= _SHORT_NAME)
    if form < _NO_DEVICE:
        left += [_GAP, (scene.clean(name), palette.PLAIN)]
    infos = [scene.sources[one.busy].info for one in main if one.busy]
    return [*left, _GAP, (resolution(infos, short=form >= _SHORT, way=form < _NO_WAY), palette.DIM)]


def _server(scene: Scene, servers: list[SourceView], width: int, form: int) -> list[Piece]:
    """What is known of it; of several their number and engines."""
    if len(servers) > 1:
        engines = [str(view.info.entity.get("engine") or "unknown") for view in servers]
        told = ", ".join(dict.fromkeys(_ENGINES.get(engine, engine) for engine in engines if engine != "unknown"))
        more: list[Piece] = [_GAP, (scene.clean(told), palette.PLAIN)] if told and form < _NO_MODEL else []
        return [(f"{len(servers)} servers", palette.BOLD), *more]
    entity: Mapping[str, Any] = servers[0].info.entity
    engine = str(entity.get("engine") or "unknown")
    version = str(entity.get("version") or "") if form < _NO_VERSION else ""
    name = " ".join(filter(None, (_ENGINES.get(engine, engine), version)))
    model = str(entity.get("model") or "").rsplit("/", 1)[-1]
    url = str(entity.get("url") or "").partition("://")[2]
    result: list[Piece] = [(scene.clean(name), palette.BOLD)]
    if model and form < _NO_MODEL:
        result += [_GAP, (scene.clean(model)[: max(12, width // 6)], palette.PLAIN)]
    if url and width >= 100 and form < _NO_URL:
        result += [_GAP, (scene.clean(url), palette.DIM)]
    return result


def _standing(scene: Scene, live: bool, ended: str | None, busy: bool) -> list[Piece]:
    view = scene.view
    span: Piece = (f"  {figures.seconds(view.span)} wide ", palette.DIM)
    if scene.speed is not None and not live:
        return [(f" PLAYING {scene.speed:g}x ", palette.PAUSED), span]
    if ended is not None:
        said = scene.clean(ended)
        return [(f" {said} " if said.startswith("end of") else f" stream ended: {said} ", palette.REVERSE), span]
    if not live:
        return [(" reading … " if not scene.glyphs.ascii else " reading ", palette.REVERSE)] * busy + [
            ("RECORDING", palette.BOLD),
            span,
        ]
    if view.following:
        return [("LIVE", palette.LIVE), *([(" sweep", palette.DIM)] if scene.sweeping else []), span]
    return [(f" PAUSED, live is +{figures.age(scene.now - view.end)} ", palette.PAUSED), span]


def _cost(probe: float | None, screen: float | None, width: int) -> list[Piece]:
    if probe is None and screen is None:
        return []
    total = (probe or 0.0) + (screen or 0.0)
    return [(f"self {figures.ratio(total)}{' of a core' if width >= 100 else ''} ", palette.DIM)]


def _calls(scene: Scene, found: Sequence[Device]) -> list[Piece]:
    """What our own calls to the devices' drivers take."""
    cost = monitor_cost(scene.timeline, found)
    return [] if cost is None else [(f"monitor cost {cost * 1e3:.1f} ms/s  ", palette.DIM)]
