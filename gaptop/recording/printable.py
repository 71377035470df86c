"""Text from outside (names, labels, errors, files) made safe for a terminal.

The collectors have the same rule in ``gaptop_collectors.engines.address.printable``, for they may import nothing here.
"""

from __future__ import annotations

import unicodedata


def printable(text: object) -> str:
    """The text as one line in which nothing moves the cursor, changes the direction or is invisible.

    Control characters become their pictures (ESC is ``␛``), odd spaces a space, everything else that Python does not
    call printable ``\\ufffd``. What is safe stays as it is, so cleaning twice changes nothing more.
    """
    plain = str(text)
    return plain if plain.isprintable() else "".join(map(_shown, plain))


def printable_lines(text: object) -> str:
    """Like :func:`printable`, for text of several lines: line feeds stay."""
    return "\n".join(map(printable, str(text).split("\n")))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return " " if unicodedata.category(character) == "Zs" else "\ufffd"
