"""One line that adds up: where the devices' time went, largest loss first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gaptop.tui import figures, palette
from gaptop.tui.cells import Piece, width_of
from gaptop.tui.scene import Scene
from gaptop.valleys.cost import NO_LOSS
from gaptop.valleys.model import LETTERS, Cause, LedgerRow

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
    """First the whole (busy, spread idle …), then the losses, then what is no loss; the end gives way."""
    totals = _totals(scene.assessment.ledger)
    if not totals:
        return [(" LEDGER ", palette.BOLD), ("nothing lost so far", palette.DIM)]
    whole = [total for total in totals if total.cause not in palette.TITLES]
    lost = [total for total in totals if total.cause in palette.TITLES and total.cause not in NO_LOSS]
    rest = [total for total in totals if total.cause in NO_LOSS]
    pieces: list[Piece] = [(" LEDGER ", palette.BOLD), (f"{figures.seconds(scene.assessment.now)} ", palette.DIM)]
    for group, end in ((lost, ""), (whole, ""), (rest, " (no loss)")):
        for index, total in enumerate(sorted(group, key=lambda total: -total.seconds)):
            more = [(" |" if scene.glyphs.ascii else " │", palette.DIM)] if index == 0 and len(pieces) > 2 else []
            more += _entry(scene, total, width, end)
            if width_of(pieces) + width_of(more) > width - 2:
                return [*pieces, (f" {scene.glyphs.ellipsis}", palette.DIM)]
            pieces += more
    return pieces


def _entry(scene: Scene, total: Total, width: int, end: str) -> list[Piece]:
    amount = figures.seconds(total.seconds) if total.share is None else figures.ratio(total.share)
    if total.seconds < _SMALL and total.tokens:
        amount = f"{figures.number(total.tokens)} tokens"
    if total.cause not in palette.TITLES:
        return [(f" {scene.clean(total.cause.replace('_', ' '))} {amount}", palette.DIM)]
    cause: Cause = total.cause
    times = f" ({total.valleys}x)" if total.valleys > 1 and width >= 100 and not end else ""
    return [
        (f" {LETTERS[cause]} ", palette.cause_style(cause, bold=not end)),
        (f"{palette.SHORT[cause]} {amount}", palette.DIM if end else palette.PLAIN),
        (times + end, palette.DIM),
    ]


def _totals(rows: Sequence[LedgerRow]) -> list[Total]:
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
                sum(row.valleys for row in group),
            )
        )
    return totals
