"""The dependency chain in one line: from arrivals to the device, which link holds the others up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop.tui import palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.scene import Scene
from gaptop.valleys.model import Link

_SHORT: Final = {
    "front end": "front",
    "admission": "admit",
    "KV blocks": "KV",
    "step preparation": "step",
    "launch and sync": "sync",
}


def chain_pieces(scene: Scene, chain: Sequence[Link], width: int) -> list[Piece]:
    """The most telling of three forms that fits."""
    for form in (_long, _valued, _named, _terse):
        pieces: list[Piece] = []
        for link in chain:
            if pieces:
                pieces.append((f" {scene.glyphs.arrow} " if form is not _terse else scene.glyphs.arrow, palette.DIM))
            pieces += form(scene, link)
        if width_of(pieces) <= width:
            return pieces
    return pieces


def _long(scene: Scene, link: Link) -> list[Piece]:
    name = scene.clean(link.link)
    if link.state == "blocked":
        return [(f"{name} BLOCKED {scene.clean(link.says)}".rstrip(), palette.LINK["blocked"])]
    if link.state == "fine":
        return [(f"{name} ", palette.PLAIN), (scene.clean(link.says) or "fine", palette.LINK["fine"])]
    return [(f"{name} not seen", palette.LINK["not_seen"])]


def _valued(scene: Scene, link: Link) -> list[Piece]:
    """Short names, and the value of what is blocked."""
    named = _named(scene, link)
    if link.state == "blocked" and link.says:
        named.append((f" {scene.clean(link.says)}", palette.LINK["blocked"]))
    return named


def _named(scene: Scene, link: Link) -> list[Piece]:
    name = scene.clean(_SHORT.get(link.link, link.link))
    if link.state == "blocked":
        return [(f"{name} BLOCKED", palette.LINK["blocked"])]
    return [(f"{name} {scene.glyphs.fine if link.state == 'fine' else '?'}", palette.LINK[link.state])]


def _terse(scene: Scene, link: Link) -> list[Piece]:
    name = scene.clean(_SHORT.get(link.link, link.link))
    mark = {"fine": scene.glyphs.fine, "blocked": scene.glyphs.bad, "not_seen": "?"}[link.state]
    name = name.upper() if link.state == "blocked" else name
    return [(f"{name} {mark}" if scene.glyphs.ascii else f"{name}{mark}", palette.LINK[link.state])]
