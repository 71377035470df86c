"""The list of valleys: which are listed, in what order, and which one comes next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gaptop.tui.scene import cost
from gaptop.valleys.model import CAUSE_NAMES, LETTERS, Cause, Valley

_CONFIDENCE: Final = {"high": 2, "medium": 1, "low": 0}
_Key = Callable[[Valley, float], tuple[float, float]]

ORDERS: Final[dict[str, _Key]] = {
    "time": lambda valley, now: (valley.start_s, 0.0),
    "length": lambda valley, now: (length(valley, now), valley.start_s),
    "depth": lambda valley, now: (-1.0 if valley.depth_ratio is None else valley.depth_ratio, valley.start_s),
    "cause": lambda valley, now: (-float(list(LETTERS).index(valley.verdict.cause)), valley.start_s),
    "confidence": lambda valley, now: (_CONFIDENCE[valley.verdict.confidence], valley.start_s),
    "loss": cost,
}
"""What the list may be sorted by; the largest (the newest, of causes the first of the table) comes first."""

_SAID: Final = {"loss": "seconds lost, not tokens"}
"""Orders of which the column's name does not say enough."""


@dataclass(frozen=True, slots=True)
class Listing:
    """``causes`` empty: all of them. ``text`` must be found in what a valley's row says, in any case."""

    order: str = "time"
    causes: frozenset[Cause] = frozenset()
    text: str = ""

    @property
    def filtered(self) -> bool:
        return bool(self.causes or self.text)

    def next_order(self) -> Listing:
        names = list(ORDERS)
        return replace(self, order=names[(names.index(self.order) + 1) % len(names)])

    def toggle(self, cause: Cause) -> Listing:
        return replace(self, causes=self.causes ^ {cause})

    def admits(self, valley: Valley) -> bool:
        """Whether the filters let it through."""
        if self.causes and valley.verdict.cause not in self.causes:
            return False
        return self.text.casefold() in _words(valley)

    def rows(self, valleys: Sequence[Valley], now: float) -> list[Valley]:
        """What is listed, from the top."""
        key = ORDERS[self.order]
        return sorted(filter(self.admits, valleys), key=lambda valley: key(valley, now), reverse=True)

    def beside(self, valleys: Sequence[Valley], now: float, chosen: str | None, step: int) -> Valley | None:
        """The row ``step`` below the chosen one (the first row where none is); None at the ends."""
        rows = self.rows(valleys, now)
        index = next((index for index, valley in enumerate(rows) if valley.id == chosen), None)
        if index is None:
            return rows[0] if rows else None
        return rows[index + step] if 0 <= index + step < len(rows) else None

    def says(self) -> str:
        """The filters and the order in words; "" for the usual ones."""
        parts = ["".join(letter for cause, letter in LETTERS.items() if cause in self.causes)] if self.causes else []
        parts += [f'"{self.text}"'] if self.text else []
        shown = f"only {' and '.join(parts)}" if parts else ""
        by = f"by {_SAID.get(self.order, self.order)}" if self.order != "time" else ""
        return ", ".join(filter(None, (shown, by)))


def length(valley: Valley, now: float) -> float:
    """Seconds; of an open valley so far."""
    return (now if valley.end_s is None else valley.end_s) - valley.start_s


def _words(valley: Valley) -> str:
    said = valley.verdict
    words = (CAUSE_NAMES[said.cause], said.detail, said.confidence, valley.kind, *valley.devices)
    return " ".join(words).casefold()
