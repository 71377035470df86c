"""The two lines on top: what is watched and how finely; how its sources are, and what we cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gaptop.recording.lines import Health
from gaptop.timeline.types import SourceView
from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece, spread, width_of
from gaptop.tui.panels.sources import families, pieces
from gaptop.tui.scene import Scene

_ENGINES: Final = {"vllm": "vLLM", "llamacpp": "llama.cpp", "unknown": "server"}
_GAP: Final[Piece] = ("  ", palette.PLAIN)
_FIXED: Final = 50
"""Cells of the first line that must not give way to a sentence."""


def first_line(scene: Scene, width: int, *, live: bool, ended: str | None, busy: bool) -> list[Piece]:
    """Server, device and resolution at the left; how the view stands to now at the right.

    ``busy`` says that a recording is still being read.
    """
    timeline = scene.timeline
    left: list[Piece] = [(" gaptop", palette.BOLD)]
    if timeline.header is not None and timeline.header.simulated:
        left += [_GAP, (" SIMULATED ", palette.SIMULATED)]
    servers = [view for view in scene.sources.values() if view.info.kind == "server"]
    devices = [view for view in scene.sources.values() if view.info.kind == "device"]
    if servers:
        left += [_GAP, *_server(scene, servers, width)]
    elif not devices:
        left += [_GAP, ("waiting for the first reading", palette.DIM)]
    if devices:
        left += [_GAP, (_device(scene, devices), palette.PLAIN), _GAP, (resolution(devices[0]), palette.DIM)]
    return spread(left, _standing(scene, live, clip(ended, width, scene.glyphs.ellipsis), busy), width)


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
) -> list[Piece]:
    """Sources at the left, our own cost at the right."""
    left: list[Piece] = [(" ", palette.PLAIN)]
    if silence:
        left += [(f"{scene.glyphs.state_bad} probe silent for {figures.age(silence)}", palette.BAD), _GAP]
    known = families(scene.timeline, healths, silence)
    right = _cost(probe_share, screen_share, width)
    for family in known:
        group = [*pieces(family, scene.glyphs, wide=width >= 110), _GAP]
        if width_of(left) + width_of(group) + width_of(right) <= width:
            left += group
    if not known:
        left.append((f"{scene.glyphs.state_wait} no source has reported yet", palette.WAIT))
    return spread(left, right, width)


def resolution(view: SourceView) -> str:
    """The window of the device's utilisation, and whether it was measured: the finest gap that can be seen."""
    info = view.info
    if info.window is None:
        return f"polled every {figures.seconds(info.period)}"
    return f"W {figures.seconds(info.window)} ({'measured' if info.window_measured else 'assumed'})"


def _server(scene: Scene, servers: list[SourceView], width: int) -> list[Piece]:
    entity: Mapping[str, Any] = servers[0].info.entity
    engine = str(entity.get("engine") or "unknown")
    name = " ".join(filter(None, (_ENGINES.get(engine, engine), str(entity.get("version") or ""))))
    model = str(entity.get("model") or "").rsplit("/", 1)[-1]
    url = str(entity.get("url") or "").partition("://")[2]
    result: list[Piece] = [(scene.clean(name), palette.BOLD)]
    if model:
        result += [_GAP, (scene.clean(model)[: max(12, width // 6)], palette.PLAIN)]
    if url and width >= 100:
        result += [_GAP, (scene.clean(url), palette.DIM)]
    if len(servers) > 1:
        result.append((f" +{len(servers) - 1}", palette.DIM))
    return result


def _device(scene: Scene, devices: list[SourceView]) -> str:
    entity = devices[0].info.entity
    name = scene.clean(entity.get("name") or "device").removeprefix("NVIDIA ").removeprefix("GeForce ")
    kind = " (cpu)" if entity.get("kind2") == "cpu" else ""
    index = f" #{entity['index']}" if len(devices) == 1 and isinstance(entity.get("index"), int) and not kind else ""
    return f"{len(devices)}x {name}" if len(devices) > 1 else f"{name}{index}{kind}"


def _standing(scene: Scene, live: bool, ended: str | None, busy: bool) -> list[Piece]:
    view = scene.view
    span: Piece = (f"  {figures.seconds(view.span)} wide ", palette.DIM)
    if ended is not None:
        return [(f" stream ended: {scene.clean(ended)} ", palette.REVERSE), span]
    if not live:
        return [(" reading … " if not scene.glyphs.ascii else " reading ", palette.REVERSE)] * busy + [
            ("RECORDING", palette.BOLD),
            span,
        ]
    if view.following:
        return [("LIVE", palette.LIVE), span]
    return [(f" PAUSED, live is +{figures.age(scene.now - view.end)} ", palette.PAUSED), span]


def _cost(probe: float | None, screen: float | None, width: int) -> list[Piece]:
    if probe is None and screen is None:
        return []
    total = (probe or 0.0) + (screen or 0.0)
    return [(f"self {figures.ratio(total)}{' of a core' if width >= 100 else ''} ", palette.DIM)]
