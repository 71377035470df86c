"""The whole argument for one valley, a line each: what to do, for, against, what else could be, segments, stacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rich.style import Style

from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece
from gaptop.tui.panels.besides import besides, measured
from gaptop.tui.panels.chain import chain_pieces
from gaptop.tui.panels.detail import title
from gaptop.tui.panels.flame import flame_lines
from gaptop.tui.scene import Scene
from gaptop.tui.text import wrap
from gaptop.valleys.model import LETTERS, Fact, Segment, Valley

_INDENT: Final = 3
_LABEL: Final = 10
_MOST: Final = 4
"""Lines of one text."""


@dataclass(frozen=True, slots=True)
class Argument:
    """``facts`` are the lines at which each number that speaks for the cause begins."""

    lines: list[list[Piece]]
    facts: tuple[int, ...]


def argument(scene: Scene, valley: Valley, width: int) -> Argument:
    """All that is said of a valley; the selected fact is reversed."""
    lines = [title(scene, valley, width)]
    verdict = valley.verdict
    if verdict.chain:
        lines.append([(" " * _INDENT, palette.PLAIN), *chain_pieces(scene, verdict.chain, width - _INDENT - 1)])
    lines += _text(scene, "try", verdict.advice, width, palette.BOLD)
    facts = []
    for index, fact in enumerate(verdict.evidence):
        facts.append(len(lines))
        style = palette.REVERSE if index == scene.fact else palette.PLAIN
        lines += _text(scene, "" if index else "for", said(fact), width, style)
    for index, item in enumerate(verdict.excluded):
        text = f"{palette.TITLES[item.cause].lower()}: {item.because}"
        lines += _text(scene, "" if index else "against", text, width)
    if verdict.runner_up is not None:
        cause, score = verdict.runner_up
        text = f"{palette.TITLES[cause].lower()}, scored {score:.2f} against {verdict.score:.2f}"
        lines += _text(scene, "runner-up", text, width)
    lines += _text(scene, "doubt", verdict.doubt, width)
    for index, text in enumerate(verdict.unseen):
        lines += _text(scene, "" if index else "unseen", text, width, palette.DIM)
    lines += _text(scene, "idle", measured(scene, valley), width)
    if len(verdict.segments) > 1:
        lines += _segments(scene, verdict.segments)
    for label, text in besides(scene):
        lines += _text(scene, label, text, width, palette.DIM)
    for thread in valley.stacks:
        lines += flame_lines(scene, thread)
    return Argument(lines, tuple(facts))


def said(fact: Fact) -> str:
    """A number that speaks for the cause, and the signal that it comes from."""
    return f"{fact.told}  [{fact.signal.partition('{')[0]}]"


def _text(scene: Scene, label: str, text: str, width: int, style: Style = palette.PLAIN) -> list[list[Piece]]:
    if not text:
        return []
    lines = wrap(scene.clean(text), width - _INDENT - _LABEL - 1, _MOST, scene.glyphs.ellipsis)
    return [
        [(" " * _INDENT + f"{'' if index else scene.clean(label):<{_LABEL}}", palette.DIM), (line, style)]
        for index, line in enumerate(lines)
    ]


def _segments(scene: Scene, segments: Iterable[Segment]) -> list[list[Piece]]:
    """The parts of a valley with causes of their own."""
    lines = []
    for index, part in enumerate(segments):
        when = f"{scene.clock(part.start_s, 1)} to {scene.clock(part.end_s, 1)}"
        lines.append(
            [
                (" " * _INDENT + f"{'' if index else 'parts':<{_LABEL}}", palette.DIM),
                (f"{when}  {figures.seconds(part.end_s - part.start_s):>8}  ", palette.PLAIN),
                (f"{LETTERS[part.cause]} {palette.TITLES[part.cause].lower()}", palette.cause_style(part.cause)),
            ]
        )
    return lines
