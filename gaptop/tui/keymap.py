"""Which keys are in force: the table's, changed by what the user gave. Pure, and nothing of Textual here."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from gaptop.tui.keys import FOOTER, KEYS, Hint

Keys = tuple[str, ...]
Keymap = Mapping[str, Keys]
"""The keys of each id."""

_MODIFIERS: Final = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_NAMED: Final = (
    *("up", "down", "left", "right", "home", "end", "insert", "delete", "pageup", "pagedown"),
    *("tab", "space", "enter", "escape", "backspace"),
    *(f"f{number}" for number in range(1, 25)),
)
_SHORT_NAMES: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""As Textual calls these characters."""
_MEANT: Final = {
    **{"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown"},
    **{
        "page_up": "pageup",
        "page_down": "pagedown",
        "period": "full_stop",
        "dot": "full_stop",
        "equals": "equals_sign",
    },
    **{"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"},
}
"""Other words for a key, and what a terminal sends for both."""
_SHOWN: Final = {"end": "End", "home": "Home", "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn"}
_ARROWS: Final = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
_BACK: Final = "back"
_HOW: Final = "write it like p, space, ctrl+k or f5"
_FIXED: Final = {key: one.id for one in KEYS if one.priority for key in one.keys}


class BadKey(ValueError):
    """A sentence's end: what is wrong with a key that was given."""


def key_named(text: str) -> str:
    """The key as Textual calls it. Raises BadKey."""
    given = text.strip()
    *modifiers, last = given.split("+") if len(given) > 1 else [given]
    modifiers = [modifier.strip().lower() for modifier in modifiers]
    last = last.strip()
    if not last or any(modifier not in _MODIFIERS for modifier in modifiers):
        raise BadKey(f"{given!r} is no key; {_HOW}")
    name = _of_character(last) if len(last) == 1 else _MEANT.get(last.lower(), last.lower())
    if len(last) > 1 and name not in _NAMED and name not in _characters():
        near = difflib.get_close_matches(name, [*_NAMED, *_characters()], 1)
        raise BadKey(f"{given!r} is no key; " + (f"did you mean {near[0]}?" if near else _HOW))
    if modifiers == ["shift"] and len(name) == 1 and name.isalpha():
        return name.upper()
    whole = "+".join([*sorted(set(modifiers), key=_MODIFIERS.index), name.lower() if modifiers else name])
    return _MEANT.get(whole, whole)


def keys_named(text: str) -> Keys:
    """The keys of a list with commas between them. Raises BadKey."""
    given = ["comma"] if text.strip() == "," else [part for part in text.split(",") if part.strip()]
    if not given:
        raise BadKey("it needs a key")
    return tuple(dict.fromkeys(key_named(part) for part in given))


def usual() -> dict[str, Keys]:
    """The keys of the table."""
    return {key.id: key.keys for key in KEYS}


def in_force(own: Keymap) -> tuple[dict[str, Keys], dict[str, str]]:
    """The keys of every id, and why some of ``own`` cannot be had (by id): those are left out.

    A key that the user gives to something is taken from where the table has it, unless nothing would be left there.
    """
    refused: dict[str, str] = {}
    taken: dict[str, str] = {}
    for name, keys in own.items():
        if says := _reserved(name, keys) or _given_twice(name, keys, taken):
            refused[name] = says
        else:
            taken |= dict.fromkeys(keys, name)
    while True:
        chosen = {name: keys for name, keys in own.items() if name not in refused}
        taken = {key: name for name, keys in chosen.items() for key in keys}
        force = {key.id: chosen.get(key.id) or tuple(each for each in key.keys if each not in taken) for key in KEYS}
        lost = next((key for key in KEYS if not force[key.id]), None)
        if lost is None:
            return force, refused
        taker = taken[lost.keys[0]]
        refused[taker] = f"{shown(lost.keys[0])} is the only key of {lost.id}; give {lost.id} another one as well"


def _reserved(name: str, keys: Keys) -> str:
    for key in keys:
        if name in _FIXED.values():
            return f"{' and '.join(each for each, own in _FIXED.items() if own == name)} always quit; use quit"
        if key in _FIXED:
            return f"{key} always quits"
        if key == "escape" and name != _BACK:
            return "Esc only ever leads back; choose another key"
    return ""


def _given_twice(name: str, keys: Keys, taken: Mapping[str, str]) -> str:
    twice = next((key for key in keys if key in taken), None)
    return "" if twice is None else f"{shown(twice)} is given to {taken[twice]} as well; a key can do one thing"


def changed(force: Keymap) -> dict[str, str]:
    """What Textual has to be told: the ids whose keys are not the table's."""
    return {key.id: ",".join(force[key.id]) for key in KEYS if force[key.id] != key.keys}


def shown(key: str, ascii_only: bool = False) -> str:
    """The key as people read it."""
    *modifiers, last = key.split("+")
    if not ascii_only and last in _ARROWS:
        return "+".join([*modifiers, _ARROWS[last]])
    return "+".join([*modifiers, _SHOWN.get(last) or _characters().get(last, last)])


def shown_all(keys: Sequence[str], ascii_only: bool = False) -> str:
    return " ".join(shown(key, ascii_only) for key in keys)


def hints(force: Keymap, table: Sequence[Hint] = FOOTER) -> tuple[tuple[Hint, str], ...]:
    """The footer's places with their keys."""
    return tuple((hint, _hint(hint, force)) for hint in table)


def _hint(hint: Hint, force: Keymap) -> str:
    keys = [force[name][0] for name in hint.ids]
    return "arrows" if keys == ["left", "right"] else hint.between.join(shown(key, True) for key in keys)


def _of_character(character: str) -> str:
    if character.isalnum():
        return character
    try:
        name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    except ValueError:
        raise BadKey(f"{character!r} is no key; {_HOW}") from None
    return _SHORT_NAMES.get(name, name)


@cache
def _characters() -> dict[str, str]:
    """Names of what a keyboard prints, without letters, digits and the space."""
    marks = (chr(code) for code in range(0x21, 0x7F))
    return {_of_character(mark): mark for mark in marks if not mark.isalnum()}
