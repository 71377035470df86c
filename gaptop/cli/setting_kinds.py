"""What kinds of settings there are: how each is read from the configuration file and from the environment."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gaptop.tui.keymap import BadKey, keys_named
from gaptop.tui.keys import NAMES

_MOST_MEANT: Final = 4
_NEARLY: Final = 0.05

Value = str | bool | float | tuple[str, ...]


class BadValue(ValueError):
    """A sentence's end: what is wrong with a value."""


class Kind(Protocol):
    """``read`` takes what TOML gave, ``parse`` the text of a variable; both raise BadValue."""

    def read(self, given: object) -> Value: ...

    def parse(self, text: str) -> Value: ...


@dataclass(frozen=True, slots=True)
class Text:
    """Some text; none where it is empty."""

    def read(self, given: object) -> Value:
        if not isinstance(given, str):
            raise BadValue("it is text in quotes")
        return given

    def parse(self, text: str) -> Value:
        return text


@dataclass(frozen=True, slots=True)
class FilePath(Text):
    """The path of a file; one in the configuration file starts from the folder of that file."""


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, given: object) -> Value:
        word = given.strip().lower() if isinstance(given, str) else given
        if word in self.words:
            return str(word)
        raise BadValue(meant(word, self.words))

    def parse(self, text: str) -> Value:
        return self.read(text)


@dataclass(frozen=True, slots=True)
class Switch:
    """Yes or no."""

    def read(self, given: object) -> Value:
        if not isinstance(given, bool):
            raise BadValue("it is true or false")
        return given

    def parse(self, text: str) -> Value:
        word = text.strip().lower()
        if word in ("1", "true", "yes", "on", "y", "t"):
            return True
        if word in ("0", "false", "no", "off", "n", "f"):
            return False
        raise BadValue("it is 1 or 0 (true or false)")


@dataclass(frozen=True, slots=True)
class Number:
    """A number between two others."""

    low: float
    high: float

    def read(self, given: object) -> Value:
        if isinstance(given, bool) or not isinstance(given, int | float) or not self.low <= given <= self.high:
            raise BadValue(f"it is a number from {self.low:g} to {self.high:g}")
        return float(given)

    def parse(self, text: str) -> Value:
        try:
            return self.read(float(text))
        except ValueError:
            return self.read(None)


@dataclass(frozen=True, slots=True)
class Words:
    """A list of texts; ``between`` divides them in a variable."""

    between: str = r"\s+"

    def read(self, given: object) -> Value:
        parts = [given] if isinstance(given, str) else given
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise BadValue('it is a list of texts, ["one", "another"]')
        return tuple(part for part in parts if part)

    def parse(self, text: str) -> Value:
        return self.read([part.strip() for part in re.split(self.between, text) if part.strip()])


LANES: Final = {name.lower().replace(" ", "_"): digit for digit, name in NAMES}
"""Lanes as the configuration calls them, and their digits."""


@dataclass(frozen=True, slots=True)
class Lanes(Words):
    """Lanes, by name or digit."""

    between: str = ","

    def read(self, given: object) -> Value:
        parts = given if isinstance(given, list) else [given]
        return tuple(dict.fromkeys(_lane(part) for part in parts if part != ""))


@dataclass(frozen=True, slots=True)
class KeyList:
    """Keys for one thing: text with commas between them, or a list."""

    def read(self, given: object) -> Value:
        parts = [part for part in (given if isinstance(given, list) else [given]) if isinstance(part, str)]
        if isinstance(given, list) and len(parts) < len(given) or not isinstance(given, list | str):
            raise BadValue('it is keys in quotes, like "space,p"')
        try:
            return tuple(dict.fromkeys(key for part in parts for key in keys_named(part))) or keys_named("")
        except BadKey as error:
            raise BadValue(str(error)) from None

    def parse(self, text: str) -> Value:
        return self.read(text)


@dataclass(frozen=True, slots=True)
class Zone(Text):
    """A time zone by its name."""

    def read(self, given: object) -> Value:
        if given in ("local", "UTC"):
            return str(given)
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only where one is named

        try:
            return ZoneInfo(given).key if isinstance(given, str) else self.read("?")
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise BadValue('it is "local", "UTC", or a name like "Europe/Berlin" that this host knows') from None

    def parse(self, text: str) -> Value:
        return self.read(text)


def meant(given: object, words: Sequence[str]) -> str:
    """The words that may be meant, or all there are."""
    text = str(given).strip().lower()
    found = alike(text, words, 0.6) or [word for word in words if len(word) > 2 and text.startswith(word)]
    return f"did you mean {' or '.join(map(repr, found))}?" if found else f"it is one of {', '.join(words)}"


def alike(text: str, words: Sequence[str], least: float) -> list[str]:
    """The words of which the text is a part, as ``dark`` is of ``ansi-dark``; else the one that is spelt most like it,
    and another one that is nearly as like. ``least`` is the smallest ratio of difflib."""
    having = [word for word in words if text in re.split(r"[-_.]", word)]
    if having:
        return having[:_MOST_MEANT]
    found = difflib.get_close_matches(text, words, 2, least)
    like = [difflib.SequenceMatcher(None, word, text).ratio() for word in found]
    return [word for word, ratio in zip(found, like, strict=True) if ratio > like[0] - _NEARLY]


def _lane(given: object) -> str:
    name = str(given).strip().lower().replace(" ", "_").replace("-", "_")
    for known, digit in LANES.items():
        if name in (known, str(digit)) and not isinstance(given, bool):
            return known
    raise BadValue(f"{given!r} is no lane; {meant(name, list(LANES))}")
