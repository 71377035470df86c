"""Where the critical threads were, as a tree of merged frames: a bar for the share, the callee under its caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece
from gaptop.tui.scene import Scene
from gaptop.valleys.hot_paths import place
from gaptop.valleys.model import ThreadStacks

_BAR: Final = 12
"""Cells of a bar for the whole time."""


@dataclass(slots=True)
class _Node:
    """A frame under its caller. ``share`` of the thread's seen time was spent in it or in what it called."""

    frame: tuple[str, str, int]
    activity: str = ""
    share: float = 0.0
    calls: dict[tuple[str, str, int], _Node] = field(default_factory=dict)


def flame_lines(scene: Scene, thread: ThreadStacks) -> list[list[Piece]]:
    """The thread's name and coverage, then its frames, outermost first, the heaviest callee first."""
    unseen = f", {figures.seconds(thread.unseen_s)} without its stack" if thread.unseen_s >= 0.01 else ""
    title = f"{thread.role} {thread.thread} (pid {thread.pid}): seen {figures.seconds(thread.seen_s)}{unseen}"
    lines: list[list[Piece]] = [[(f" {scene.clean(title)}", palette.BOLD)]]
    if not thread.paths:
        return [*lines, [("   stacks without frames", palette.DIM)]]
    for depth, node in _walk(_merged(thread), 0):
        bar = _bar(scene, node.share)
        lines.append(
            [
                (f" {bar} {figures.ratio(node.share):>5} ", palette.activity_style(node.activity)),
                (scene.clean(f"{'  ' * depth}{place(*node.frame)}"), palette.PLAIN),
                (f"  {scene.clean(node.activity.replace('_', ' '))}" if not node.calls else "", palette.DIM),
            ]
        )
    return lines


def _merged(thread: ThreadStacks) -> _Node:
    """Paths that begin alike share their callers. A frame in which nobody ended has no share of its own."""
    root = _Node(("", "", 0))
    for path in thread.paths:
        node = root
        for frame in path.frames:
            node = node.calls.setdefault(frame, _Node(frame))
            node.share += path.share_ratio
            node.activity = node.activity or path.activity
    return root


def _walk(node: _Node, depth: int) -> Iterator[tuple[int, _Node]]:
    for child in sorted(node.calls.values(), key=lambda item: (-item.share, item.frame)):
        yield depth, child
        yield from _walk(child, depth + 1)


def _bar(scene: Scene, share: float) -> str:
    bars = scene.glyphs.bars
    full = bars[-1]
    return (full * max(1, round(share * _BAR))).ljust(_BAR)
