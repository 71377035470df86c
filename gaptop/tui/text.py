"""Text from outside (model and thread names, labels, errors) made safe for a terminal, and fitted to cells."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.cells import cell_len, set_cell_size

from gaptop.recording.printable import printable

_PLAIN: Final = {
    "±": "+/-",
    "·": "|",
    "–": "-",
    "—": "-",
    "→": "->",
    "←": "<-",
    "×": "x",
    "…": "...",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "µ": "u",
    "°": " deg",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "\u00a0": " ",
    "\u2009": " ",
    "\u202f": " ",
    "▸": ">",
    "✓": "ok",
    "✗": "x",
}
"""What the project's own sentences use beyond ASCII, and how it reads without."""


@lru_cache(maxsize=4096)
def clean(text: str, ascii_only: bool = False) -> str:
    """The text as :func:`printable` shows it, with a visible mark also where a character would take no cell.

    In ASCII mode whatever is neither ASCII nor the project's own becomes ``?``.
    """
    if ascii_only:
        return "".join(map(_clean_ascii, text))
    return "".join(each if each <= "~" or cell_len(each) else "\ufffd" for each in printable(text))


def _clean_ascii(character: str) -> str:
    if " " <= character <= "~":
        return character
    return _PLAIN.get(character, "?")


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """The (already clean) text cut or padded to exactly ``width`` cells."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, max(0, width - cell_len(ellipsis))).rstrip() + ellipsis, width)


def fit_right(text: str, width: int, ellipsis: str = "…") -> str:
    """Like :func:`fit`, aligned to the right."""
    short = width - cell_len(text)
    return " " * short + text if short > 0 else fit(text, width, ellipsis)


def wrap(text: str, width: int, rows: int, ellipsis: str = "…") -> list[str]:
    """The (already clean) text broken at spaces into at most ``rows`` lines; what does not fit ends in an ellipsis."""
    if rows <= 0 or width <= 0:
        return []
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    if len(lines) > rows:
        lines = [*lines[: rows - 1], " ".join(lines[rows - 1 :])]
    return [line if cell_len(line) <= width else fit(line, width, ellipsis).rstrip() for line in lines]
