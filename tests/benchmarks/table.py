"""How results are told."""

from __future__ import annotations

from collections.abc import Sequence

Row = tuple[str, str, str, bool | None]
"""What was measured, the result, the budget, and whether it is kept; None where nothing is to be judged."""


def share(what: str, measured: float, budget: float) -> Row:
    """Shares of a core."""
    return what, f"{measured:.2%} of a core", f"≤ {budget:.0%}", measured <= budget


def at_most(what: str, measured: float, budget: float, unit: str, digits: int = 2) -> Row:
    return what, f"{measured:.{digits}f} {unit}", f"≤ {budget:g} {unit}", measured <= budget


def told(what: str, measured: str) -> Row:
    """A number without a budget."""
    return what, measured, "-", None


def missing(what: str, why: str) -> Row:
    return what, f"not measured here: {why}", "-", None


def text(rows: Sequence[Row]) -> str:
    """The rows under one another."""
    words = {True: "ok", False: "OVER", None: ""}
    cells = [("what", "measured", "budget", "ok"), *((*row[:3], words[row[3]]) for row in rows)]
    widths = [max(len(row[n]) for row in cells if n != 1 or not row[n].startswith("not measured")) for n in range(4)]
    lines = [" | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "-|-".join("-" * width for width in widths), *lines[1:]])
