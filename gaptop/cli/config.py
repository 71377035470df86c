"""``gaptop config``: every setting with its value and where it came from."""

from __future__ import annotations

import difflib
import json
import os
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.in_force import VARIABLE, Found, Settings
from gaptop.cli.of_command import config_option, in_force
from gaptop.cli.settings import SECTIONS, SETTINGS, Setting
from gaptop.recording.printable import printable
from gaptop.recording.redact import redact

_WIDTH: Final = 100
_HEAD: Final = """\
gaptop's configuration. What stands here counts where neither the command line nor a variable (GAPTOP_NAME, as
GAPTOP_THEME or GAPTOP_LANES_FOLD) says otherwise; every line is the default: remove its # to change it."""


@click.command(short_help="Show every setting, its value and where it came from.")
@config_option
@click.option("--path", "as_path", is_flag=True, help="Only the path of the configuration file.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--default", "as_default", is_flag=True, help="A configuration file with all defaults, to be saved.")
def config(*, as_path: bool, as_json: bool, as_default: bool) -> None:
    """Show every setting, its value and where it came from.

    The command line counts first, then the environment, then the configuration file, then the default."""
    if as_path + as_json + as_default > 1:
        raise click.UsageError("--path, --json and --default exclude each other.")
    if as_default:
        click.echo(default_file(), nl=False)
        return
    for sentence in _mistaken(os.environ):
        tell(sentence)
    settings = in_force()
    if as_path:
        if settings.path is None:
            raise Stop("this user has no home folder; name a file with --config or GAPTOP_CONFIG.", Exit.UNREADABLE)
        click.echo(printable(settings.path))
    elif as_json:
        click.echo(json.dumps(_json(settings), indent=2))
    else:
        click.echo("\n".join(_lines(settings)))


def _mistaken(environ: Iterable[str]) -> Iterator[str]:
    """Variables that look like one of a setting and are none."""
    known = [VARIABLE, *(setting.variable for setting in SETTINGS.values())]
    for name in environ:
        if (
            name.startswith("GAPTOP_")
            and name not in known
            and (near := difflib.get_close_matches(name, known, 1, 0.8))
        ):
            yield f"the variable {name} says nothing to gaptop; did you mean {near[0]}?"


def default_file() -> str:
    """Valid TOML in which every default is a comment."""
    lines = [*_comment(_HEAD), ""]
    section = ""
    for setting in SETTINGS.values():
        if setting.section != section:
            section = setting.section
            lines += ["", *_comment(SECTIONS[section]), f"[{section}]", ""]
        lines += [*_comment(setting.says), f"# {setting.key} = {_toml(_shown(setting, Found(setting.default)))}"]
        if not section:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _shown(setting: Setting, found: Found) -> Any:
    """The value without secrets, as it may be told to anybody."""
    value = found.value
    if isinstance(value, tuple):
        return ",".join(value) if setting.section == "keys" else [redact(part) for part in value]
    return redact(value) if isinstance(value, str) else value


def _lines(settings: Settings) -> list[str]:
    path = settings.path
    there = "" if path is None or path.exists() else " (not there; gaptop config --default prints one)"
    rows = [f"# {printable(path) if path else 'no configuration file: this user has no home folder'}{there}", ""]
    width = max(map(len, SETTINGS))
    values = {}
    for name, found in settings.found.items():
        values[name] = printable(_toml(_shown(SETTINGS[name], found)))
    most = min(max(map(len, values.values())), 32)
    for name, found in settings.found.items():
        rows.append(f"{name:<{width}} = {values[name]:<{most}}  # {printable(found.place or found.origin)}")
    return rows


def _json(settings: Settings) -> dict[str, Any]:
    return {
        "schema": 1,
        "path": None if settings.path is None else str(settings.path),
        "exists": settings.path is not None and settings.path.exists(),
        "wrong": list(settings.wrong),
        "settings": {
            name: {
                "value": _shown(SETTINGS[name], found),
                "default": _shown(SETTINGS[name], Found(SETTINGS[name].default)),
                "origin": found.origin,
                "place": found.place or None,
                "variable": SETTINGS[name].variable,
            }
            for name, found in settings.found.items()
        },
    }
