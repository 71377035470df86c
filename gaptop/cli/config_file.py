"""Reads the configuration file. Whatever is wrong in it is a sentence with its place; nothing here decides whether that
ends gaptop."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gaptop.cli.setting_kinds import BadValue, FilePath, Value, alike
from gaptop.cli.settings import MEANT, SECTIONS, SETTINGS

_LARGEST: Final = 1_000_000
_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END: Final = " (at end of document)"
_HINTS: Final = {
    "Invalid value": "text stands in quotes",
    "Cannot overwrite a value": "the same is set above",
    "Cannot mutate immutable namespace": "the same is set above",
}
"""What the sentences of tomllib that people meet most mean here, by how they begin."""
_LINE: Final = re.compile(r"^\s*(?:\[\s*(?P<section>[^\]]+?)\s*\]|(?P<key>[A-Za-z0-9_.\"'-]+)\s*=)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Given:
    """A value and its place, ``file:line``."""

    value: Value
    place: str


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file sets, by name, and sentences on what is wrong in it."""

    values: Mapping[str, Given] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


def read_config(path: Path) -> ConfigFile:
    """Never raises."""
    import tomllib  # most have no such file

    try:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        return ConfigFile(wrong=(f"{path}: it cannot be read ({error.strerror}); correct the path, or its rights.",))
    if len(raw) > _LARGEST:
        return ConfigFile(wrong=(f"{path}: it is larger than a configuration can be; is it the right file?",))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return ConfigFile(wrong=(f"{path}:{line}: this is no UTF-8 text; save the file as UTF-8.",))
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return ConfigFile(wrong=(_no_toml(path, text, str(error)),))
    except RecursionError:
        return ConfigFile(wrong=(f"{path}: it is nested too deeply for a configuration; is it the right file?",))
    return _Reading(path, text).read(document)


def _no_toml(path: Path, text: str, says: str) -> str:
    """``says`` is what tomllib says, with a line or with the end of the file."""
    at = _AT_LINE.search(says)
    what = _AT_LINE.sub("", says).removesuffix(_AT_END)
    hint = next((f": {hint}" for begin, hint in _HINTS.items() if what.startswith(begin)), "")
    if at is not None:
        return f"{path}:{at[1]}: this is no TOML ({what}{hint}); correct that line."
    last = text.rstrip().count("\n") + 1
    return (
        f"{path}:{last}: this is no TOML ({what}{hint}), which shows at the end of the file; correct what begins in "
        "that line, or above it and has no end."
    )


class _Reading:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = _lines(text)
        self._values: dict[str, Given] = {}
        self._wrong: list[str] = []

    def read(self, document: Mapping[str, object]) -> ConfigFile:
        for key, value in document.items():
            if key not in SECTIONS:
                self._take(key, value)
            elif isinstance(value, dict):
                for own, inner in value.items():
                    self._take(f"{key}.{own}", inner)
            else:
                self._complain(key, f"{key} is a section; write [{key}] in a line of its own and the settings below it")
        return ConfigFile(self._values, tuple(self._wrong))

    def _take(self, name: str, value: object) -> None:
        setting = SETTINGS.get(name)
        if setting is None:
            self._complain(name, f"{name} is no setting{_meant(name)}")
            return
        try:
            read = setting.kind.read(value)
        except BadValue as error:
            self._complain(name, f"{name} cannot be {short(value)}; {error}")
            return
        if isinstance(setting.kind, FilePath) and read:
            read = str(self._path.parent / os.path.expanduser(str(read)))
        self._values[name] = Given(read, self._place(name))

    def _complain(self, name: str, says: str) -> None:
        self._wrong.append(ended(f"{self._place(name)}: {says}"))

    def _place(self, name: str) -> str:
        line = self._lines.get(name)
        return f"{self._path}:{line}" if line else str(self._path)


def ended(says: str) -> str:
    """The sentence with its end."""
    return says if says.endswith("?") else f"{says}."


def _lines(text: str) -> dict[str, int]:
    """The line in which each name is set, as far as that is seen without parsing (tomllib does not tell)."""
    found: dict[str, int] = {}
    section = ""
    for match in _LINE.finditer(text):
        line = text.count("\n", 0, match.start(match.lastgroup or 0)) + 1
        if match["section"] is not None:
            section = match["section"].strip("[ ]\"'")
            found.setdefault(section, line)
        else:
            key = ".".join(part.strip("\"'") for part in match["key"].split("."))
            found.setdefault(f"{section}.{key}" if section else key, line)
            found.setdefault(section or key.partition(".")[0], line)
    return found


def _meant(name: str) -> str:
    """What an unknown name may stand for, as the end of a sentence."""
    section, _, key = name.rpartition(".")
    if name in MEANT or (key in MEANT and section):
        return f"; use {MEANT.get(name) or MEANT[key]}"
    if key in SETTINGS:
        return f"; {key} is one, and stands above the first line in brackets"
    # Within its section: what all names there have in common makes none of them likelier.
    own = {setting.key: full for full, setting in SETTINGS.items() if setting.section == section}
    near = [own[one] for one in alike(key, list(own), 0.7)]
    near = near or [one for one in SETTINGS if one.rpartition(".")[2] == key]
    if not near and not section:
        near = [f"[{one}]" for one in alike(key, list(SECTIONS), 0.7)]
    return f"; did you mean {' or '.join(near)}?" if near else "; gaptop config tells all there are"


def short(value: object) -> str:
    """The value in a sentence, without secrets."""
    from gaptop.recording.redact import redact  # only where something is wrong

    shown = str(value).lower() if isinstance(value, bool) else redact(repr(value))
    return shown if len(shown) <= 40 else shown[:39] + "…"
