"""Which value of each setting counts. One precedence for all: the command line, then the environment, then the
configuration file, then the default.

A file that was named (``--config``, GAPTOP_CONFIG) is used or refused, and so is a variable. What is wrong in the file
that only lies in the configuration folder must not keep anybody from watching: it is left out, and that is said.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from gaptop.cli.config_file import ConfigFile, ended, read_config, short
from gaptop.cli.exits import Exit, Sentences, Stop
from gaptop.cli.paths import config_file
from gaptop.cli.setting_kinds import BadValue, Value
from gaptop.cli.settings import SETTINGS
from gaptop.tui import keymap

Origin = Literal["default", "file", "environment"]
VARIABLE: Final = "GAPTOP_CONFIG"
_LEFT_OUT: Final = " It is left out."


@dataclass(frozen=True, slots=True)
class Found:
    """A value, and where it came from; ``place`` is a variable's name or ``file:line``."""

    value: Value
    origin: Origin = "default"
    place: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """``named`` says that the user pointed at ``path``; ``wrong`` are sentences on what is left out of it; ``keys`` are
    those in force, of every id."""

    found: Mapping[str, Found]
    path: Path | None
    named: bool
    keys: keymap.Keymap
    wrong: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.found[name].value

    def insisted(self, name: str) -> bool:
        """Whether the user asked for it in a way that is met or refused."""
        origin = self.found[name].origin
        return origin == "environment" or (origin == "file" and self.named)


def settings(named: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """What is in force without a command line. ``named`` is the file of ``--config``. Raises Stop (exit 2)."""
    environ = os.environ if environ is None else environ
    named = named or environ.get(VARIABLE) or None
    path = Path(named) if named else config_file()
    read = ConfigFile()
    if path is not None and (named or os.path.lexists(path)):
        read = read_config(path)
    found = {name: _find(name, environ, read) for name in SETTINGS}
    wrong = list(read.wrong)
    own: dict[str, keymap.Keys] = {}
    # First what cannot be refused, then as the file has it.
    variables = [name for name, one in found.items() if one.origin == "environment"]
    for name in (*variables, *(name for name in read.values if found[name].origin == "file")):
        if name.startswith("keys."):
            own[name.removeprefix("keys.")] = found[name].value  # type: ignore[assignment]
    keys, refused = keymap.in_force(own)
    for key, says in refused.items():
        one = found[f"keys.{key}"]
        sentence = f"{one.place}: keys.{key} cannot be {keymap.shown_all(own[key])}; {says}."
        if one.origin == "environment":
            raise Stop(sentence, Exit.USAGE)
        wrong.append(sentence)
    for name, one in found.items():
        if name.startswith("keys."):
            key = name.removeprefix("keys.")
            found[name] = Found(keys[key]) if key in refused else replace(one, value=keys[key])
    if wrong and named:
        raise Stop(Sentences.of(*wrong), Exit.USAGE)
    return Settings(found, path, named is not None, keys, tuple(sentence + _LEFT_OUT for sentence in wrong))


def _find(name: str, environ: Mapping[str, str], read: ConfigFile) -> Found:
    setting = SETTINGS[name]
    if text := environ.get(setting.variable):
        try:
            return Found(setting.kind.parse(text), "environment", setting.variable)
        except BadValue as error:
            raise Stop(ended(f"{setting.variable} cannot be {short(text)}; {error}"), Exit.USAGE) from None
    if (given := read.values.get(name)) is not None:
        return Found(given.value, "file", given.place)
    return Found(setting.default)
