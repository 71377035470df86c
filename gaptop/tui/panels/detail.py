"""The argument for one valley: when, how long, how deep, why, how sure; for, against, unseen, what to try."""

from __future__ import annotations

import re
from typing import Final

from rich.style import Style

from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.lost import alert
from gaptop.tui.panels.besides import besides, measured
from gaptop.tui.panels.chain import chain_pieces
from gaptop.tui.scene import Scene
from gaptop.tui.text import wrap
from gaptop.valleys.hot_paths import place
from gaptop.valleys.model import LETTERS, Exclusion, Fact, Valley

_LABEL: Final = 10
_INDENT: Final = 3
_WORTH: Final = (
    *("against", "try", "event", "parts", "idle", "stacks", "for", "against"),
    *("meanwhile", "runner-up", "unseen", "plateau", "dips", "blind"),
)
"""Who gets the next row, after what must always be read."""
_FIRST_SENTENCE: Final = re.compile(r".*?[.;](?= |$)")


def detail_lines(scene: Scene, width: int, rows: int) -> list[list[Piece]]:
    """At most ``rows`` lines. Without a valley: what else is known, e.g. why nothing can be concluded."""
    valley = scene.valley
    if valley is None:
        return _no_valley(scene, width, rows)
    lines = [title(scene, valley, width)]
    if valley.verdict.chain:
        lines.append([(" " * _INDENT, palette.PLAIN), *chain_pieces(scene, valley.verdict.chain, width - _INDENT - 1)])
    left = rows - len(lines)
    parts = _parts(scene, valley)
    shares = _shares(parts, width, left)
    for (label, text, style), count in zip(parts, shares, strict=True):
        for index, line in enumerate(wrap(text, width - _INDENT - _LABEL - 1, count, scene.glyphs.ellipsis)):
            head = f"{'' if index else label:<{_LABEL}}"
            lines.append([(" " * _INDENT + head, palette.DIM), (line, style)])
    return lines[:rows]


def sentence_lines(scene: Scene, width: int) -> list[list[Piece]]:
    """What the analysis says in one plain sentence; two lines where one is too short."""
    sentence = scene.clean(scene.assessment.sentence or "Nothing can be concluded yet.")
    return [[(f" {line}", palette.BOLD)] for line in wrap(sentence, width - 2, 2, scene.glyphs.ellipsis)]


def alert_lines(scene: Scene, width: int) -> list[list[Piece]]:
    """A device that does not answer any more, and what to do: two lines at most, none where all answer."""
    mark = f" {scene.glyphs.state_bad} "
    room = width - len(mark) - 1
    lines = wrap(alert(scene, 2 * room - 10), room, 2, scene.glyphs.ellipsis)
    return [
        [(" " * len(mark) if index else mark, palette.BAD), (line, palette.BAD)]
        for index, line in enumerate(lines)
        if line
    ]


def title(scene: Scene, valley: Valley, width: int) -> list[Piece]:
    """One line; what matters least gives way first."""
    verdict = valley.verdict
    length = (valley.end_s if valley.end_s is not None else scene.now) - valley.start_s
    error = valley.start_error_s + valley.end_error_s
    detail = f" {scene.glyphs.dot} {scene.clean(verdict.detail)}" if verdict.detail else ""
    mark = {"high": scene.glyphs.high, "medium": scene.glyphs.medium, "low": scene.glyphs.low}[verdict.confidence] * 2
    ranked: list[tuple[int, list[Piece]]] = [
        (
            0,
            [
                (
                    f" {scene.glyphs.selected} {scene.clock(valley.start_s, 1)}",
                    palette.BOLD if scene.chosen else palette.PLAIN,
                )
            ],
        ),
        (0, [(f"  {figures.seconds(length)}{'' if valley.end_s is not None else ' so far'}", palette.PLAIN)]),
        (4, [(f" {scene.glyphs.plus_minus}{figures.seconds(error)}", palette.DIM)]),
        (
            3,
            [(f"  depth {figures.ratio(valley.depth_ratio)}" if valley.depth_ratio is not None else "", palette.PLAIN)],
        ),
        (
            0,
            [
                ("  ", palette.PLAIN),
                (f"{LETTERS[verdict.cause]} {palette.TITLES[verdict.cause]}{detail}", _cause(valley)),
            ],
        ),
        (0, [(f"  {mark} {verdict.confidence.upper()}", palette.CONFIDENCE[verdict.confidence])]),
        (1, [("  provisional", palette.WAIT)] if not valley.final else []),
        (5, [("  suspected", palette.DIM)] if not valley.confirmed else []),
        (2, [(f"  {_loss(valley)}", palette.PLAIN)]),
    ]
    for worst in range(5, -1, -1):
        pieces = [piece for rank, group in ranked if rank <= worst for piece in group]
        if width_of(pieces) <= width:
            break
    return pieces


def _cause(valley: Valley) -> Style:
    return palette.cause_style(valley.verdict.cause, bold=True)


def _loss(valley: Valley) -> str:
    if valley.verdict.cause == "no_demand":
        return "no loss: nothing was asked for"
    over = f" over {len(valley.devices)} devices" if len(valley.devices) > 1 else ""
    device = f"{figures.seconds(valley.idle_s)} idle{over}" if valley.idle_s is not None else ""
    if valley.tokens_lost is None:
        return f"lost {device}" if device else "loss not known"
    if valley.tokens_lost == 0:
        return f"cost no tokens, {device}" if device else "cost no tokens"
    return f"lost {figures.grouped(valley.tokens_lost)} tokens" + (f", {device}" if device else "")


def _parts(scene: Scene, valley: Valley) -> list[tuple[str, str, Style]]:
    """(label, text, style), the most telling first; only what there is."""
    verdict = valley.verdict
    separator = f" {scene.glyphs.dot} "
    against = separator.join(_excluded(scene, item) for item in verdict.excluded)
    runner = ""
    if verdict.runner_up is not None:
        cause, score = verdict.runner_up
        runner = f"{palette.TITLES[cause].lower()} ({score:.2f} against {verdict.score:.2f})"
    reasons = ("for", separator.join(_fact(scene, fact) for fact in verdict.evidence), palette.PLAIN)
    if scene.fact is not None and scene.fact < len(verdict.evidence):
        fact = verdict.evidence[scene.fact]
        told = f"{_fact(scene, fact)}  [{scene.clean(fact.signal)}]"
        reasons = (f"for {scene.fact + 1}/{len(verdict.evidence)}", told, palette.REVERSE)
    parts = [
        reasons,
        ("against", against, palette.PLAIN),
        ("try", scene.clean(verdict.advice), palette.BOLD),
        ("parts", _segments(scene, valley), palette.PLAIN),
        ("idle", measured(scene, valley), palette.PLAIN),
        ("stacks", _stacks(scene, valley), palette.PLAIN),
        ("runner-up", runner, palette.DIM),
        ("unseen", separator.join(scene.clean(item) for item in verdict.unseen), palette.DIM),
        *((label, text, palette.PLAIN if label == "event" else palette.DIM) for label, text in besides(scene)),
    ]
    return [part for part in parts if part[1]]


def _fact(scene: Scene, fact: Fact) -> str:
    return scene.clean(fact.told)


def _segments(scene: Scene, valley: Valley) -> str:
    """What the letters inside the valley's line mean."""
    parts = valley.verdict.segments
    if len(parts) < 2:
        return ""
    return f" {scene.glyphs.arrow} ".join(
        f"{LETTERS[part.cause]} {palette.TITLES[part.cause].lower()} {figures.seconds(part.end_s - part.start_s)}"
        for part in parts
    )


def _stacks(scene: Scene, valley: Valley) -> str:
    """Where the thread was that the device waited for."""
    if not valley.stacks:
        return ""
    thread = valley.stacks[0]
    shares: dict[str, float] = {}
    for path in thread.paths:  # several of them may end in the same place
        name = place(*path.frames[-1])
        shares[name] = shares.get(name, 0.0) + path.share_ratio
    most = sorted(shares.items(), key=lambda item: -item[1])[:3]
    where = [f"{figures.ratio(share)} {name}" for name, share in most]
    said = f" {scene.glyphs.dot} ".join(where) or "stacks without frames"
    return scene.clean(f"{thread.role} {thread.thread}: {said}")


def _excluded(scene: Scene, item: Exclusion) -> str:
    return f"{palette.TITLES[item.cause].lower()}: {scene.clean(item.because)}"


def _shares(parts: list[tuple[str, str, Style]], width: int, rows: int) -> list[int]:
    """Rows for each part: the main evidence and the first remedy whole, then by worth, then in turn while there are
    any."""
    needs = {label: len(wrap(text, width - _INDENT - _LABEL - 1, 99)) for label, text, _ in parts}
    shares = dict.fromkeys(needs, 0)
    # A selected number stands first, under a name of its own.
    first = [label for label in needs if label.startswith("for ")]
    advice = next((_FIRST_SENTENCE.match(text) for label, text, _ in parts if label == "try"), None)
    tries = ["try"] * (len(wrap(advice[0], width - _INDENT - _LABEL - 1, 99)) if advice else 1)
    turns = [*first, "for", tries[0], "event", *tries[1:], *_WORTH, *(label for _ in range(rows) for label in needs)]
    for label in turns:
        if label in needs and shares[label] < needs[label] and sum(shares.values()) < rows:
            shares[label] += 1
    return list(shares.values())


def _no_valley(scene: Scene, width: int, rows: int) -> list[list[Piece]]:
    text = scene.none_found if scene.timeline.header is not None else "Nothing has been measured yet."
    lines: list[list[Piece]] = [[(f" {scene.glyphs.selected} {text}", palette.DIM)]]
    told = dict(besides(scene))
    event = told.pop("event", "")
    said = [event] if event else []
    said += [scene.clean(hint) for hint in scene.assessment.hints]
    said += [f"{label}: {text}" for label, text in told.items()]
    for hint in said:
        for line in wrap(hint, width - _INDENT - 1, 2, scene.glyphs.ellipsis):
            lines.append([(" " * _INDENT + line, palette.DIM)])
    return lines[:rows]
