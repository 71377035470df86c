"""The user's own files for gaptop, as ``gaptop doctor`` tells them: which are in force, and what is wrong in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gaptop.cli.of_command import in_force
from gaptop.cli.paths import activities_file
from gaptop.recording.printable import printable


def config_found() -> dict[str, Any]:
    """The configuration file: its path (None for a user without a home), whether it is there, and a sentence for each
    thing in it that is left out."""
    settings = in_force()
    path = settings.path
    return {
        "path": None if path is None else str(path),
        "exists": path is not None and path.exists(),
        "wrong": list(settings.wrong),
    }


def rules_found() -> dict[str, Any]:
    """The user's own rules for stacks: the path, and what is wrong with them; both None where there are none."""
    named = in_force()["activities"]
    path = Path(named) if named else activities_file()
    return {
        "own_stack_rules": None if path is None else str(path),
        "own_stack_rules_says": None if path is None else _fault(path),
    }


def lines(config: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[str]:
    """Both for people, each below its name."""
    if config["path"] is None:
        yield "config     none: this user has no home folder; name a file with --config or GAPTOP_CONFIG"
    else:
        there = (
            "" if config["exists"] else ": not there, so every setting is as usual; gaptop config --default prints one"
        )
        yield f"config     {printable(config['path'])}{there}"
    yield from (f"           {printable(sentence)}" for sentence in config["wrong"])
    if rules["own_stack_rules"]:
        yield f"activities {printable(rules['own_stack_rules'])}"
    if rules["own_stack_rules_says"]:
        yield f"           {printable(rules['own_stack_rules_says'])}"


def _fault(rules: Path) -> str | None:
    from gaptop_collectors.host.activities import ActivityFileError, load_activities

    try:
        load_activities(rules)
    except ActivityFileError as error:
        return str(error)
    return None
