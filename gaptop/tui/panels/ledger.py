"""One line that adds up where the devices' time went, largest loss first; under it what is true of many valleys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.devices import devices
from gaptop.tui.ranged import Ranged
from gaptop.tui.scene import Scene
from gaptop.valleys.cost import NO_LOSS
from gaptop.valleys.model import LETTERS, Cause, LedgerRow, Valley

_SMALL: Final = 0.05
"""Device-seconds under which a cause is told by its tokens."""


@dataclass(frozen=True, slots=True)
class Total:
    """One cause over all devices."""

    cause: str
    seconds: float
    share: float | None
    tokens: float | None
    valleys: int


def ledger_pieces(scene: Scene, width: int) -> list[Piece]:
    """Since the start: losses of device time, then those of tokens alone, each group ranked by its own measure, which
    it names; then the whole (busy, spread idle …), then what is no loss; the end gives way."""
    return _pieces(scene, "LEDGER", 0.0, scene.assessment.now, scene.assessment.ledger, width)


def range_pieces(scene: Scene, found: Ranged, width: int) -> list[Piece]:
    """The same of a part: what is selected, or what is on screen."""
    title = "SELECTED" if found.selected else "IN VIEW"
    return _pieces(scene, title, found.start, found.end, found.rows, width)


def _reaches(valley: Valley, start: float) -> bool:
    return valley.end_s is None or valley.end_s > start


def _pieces(scene: Scene, title: str, start: float, end: float, rows: Sequence[LedgerRow], width: int) -> list[Piece]:
    listed = [item for item in scene.assessment.valleys if item.start_s < end and _reaches(item, start)]
    totals = _totals(rows, listed)
    if not totals:
        return [
            (f" {title} ", palette.BOLD),
            ("nothing lost" if scene.assessment.ended else "nothing lost so far", palette.DIM),
        ]
    lost = [total for total in totals if total.cause in palette.TITLES and total.cause not in NO_LOSS]
    groups = (
        ("by time", [total for total in lost if not _by_tokens(total)], ""),
        ("by tokens", [total for total in lost if _by_tokens(total)], ""),
        ("", [total for total in totals if total.cause not in palette.TITLES], ""),
        ("", [total for total in totals if total.cause in NO_LOSS], " (no loss)"),
    )
    pieces: list[Piece] = [(f" {title} ", palette.BOLD), (f"{figures.seconds(end - start)} ", palette.DIM)]
    for name, group, note in groups:
        for index, total in enumerate(sorted(group, key=lambda total: (-_rank(total), -total.seconds))):
            more = [(" |" if scene.glyphs.ascii else " │", palette.DIM)] if index == 0 and len(pieces) > 2 else []
            if index == 0 and name:
                more.append((f" {name}" if len(pieces) > 2 else name, palette.DIM))
            more += _entry(scene, total, width, note)
            if width_of(pieces) + width_of(more) > width - 2:
                return [*pieces, (f" {scene.glyphs.ellipsis}", palette.DIM)]
            pieces += more
    return pieces


def _by_tokens(total: Total) -> bool:
    """It cost no device's time, or hardly any: its tokens tell more."""
    return total.seconds < _SMALL and bool(total.tokens)


def _rank(total: Total) -> float:
    return (total.tokens or 0.0) if _by_tokens(total) else total.seconds


def note_lines(scene: Scene) -> list[list[Piece]]:
    """The period of the valleys that recur most, and the clearest trend: a line each, none where there is none."""
    said = scene.assessment
    lines = []
    if said.periods:
        period = max(said.periods, key=lambda item: (item.times, -item.period_s))
        lines.append(_note(scene, period.devices, period.sentence, period.cause, period.detail))
    clear = [item for item in said.trends if item.sentence]
    if clear:
        trend = max(clear, key=lambda item: max(abs(one.rho or 0.0) for one in item.correlations if one.is_clear))
        lines.append(_note(scene, trend.devices, trend.sentence))
    return lines


def _note(scene: Scene, of: Sequence[str], text: str, cause: str = "", detail: str = "") -> list[Piece]:
    """One line, with whom it is about where that is not all there is."""
    found = devices(scene.sources)
    mine = [one.label for one in found if one.key in of]
    who = "" if len(mine) == len(found) else f"{', '.join(mine) or 'progress'}: "
    said = scene.clean(text.replace("±", scene.glyphs.plus_minus))
    pieces: list[Piece] = [(f" {scene.clean(who)}", palette.BOLD), (said, palette.PLAIN)]
    if cause in palette.TITLES:
        pieces.append((f": {LETTERS[cause]} ", palette.cause_style(cause, bold=True)))
        pieces.append((palette.SHORT[cause] + (f", {scene.clean(detail)}" if detail else ""), palette.DIM))
    return pieces


def _entry(scene: Scene, total: Total, width: int, end: str) -> list[Piece]:
    amount = figures.seconds(total.seconds) if total.share is None else figures.ratio(total.share)
    if total.tokens and _by_tokens(total):
        amount = figures.number(total.tokens)
    if total.cause not in palette.TITLES:
        return [(f" {scene.clean(total.cause.replace('_', ' '))} {amount}", palette.DIM)]
    cause: Cause = total.cause
    times = f" ({total.valleys}x)" if total.valleys > 1 and width >= 100 and not end else ""
    return [
        (f" {LETTERS[cause]} ", palette.cause_style(cause, bold=not end)),
        (f"{palette.SHORT[cause]} {amount}", palette.DIM if end else palette.PLAIN),
        (times + end, palette.DIM),
    ]


def _totals(rows: Sequence[LedgerRow], valleys: Sequence[Valley]) -> list[Total]:
    """``valleys``: those that are listed, as one of several devices stands in the rows of each."""
    devices = len({row.device for row in rows}) or 1
    grouped: dict[str, list[LedgerRow]] = {}
    for row in rows:
        grouped.setdefault(row.cause, []).append(row)
    totals = []
    for cause, group in grouped.items():
        shares = [row.share_ratio for row in group if row.share_ratio is not None]
        totals.append(
            Total(
                cause,
                sum(row.device_seconds for row in group),
                sum(shares) / devices if shares else None,
                sum(tokens) if (tokens := [row.tokens_lost for row in group if row.tokens_lost is not None]) else None,
                max(*(row.valleys for row in group), sum(item.verdict.cause == cause for item in valleys))
                if len(group) > 1
                else group[0].valleys,
            )
        )
    return totals
