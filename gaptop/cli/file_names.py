"""Names of files as people type them, and recordings that are opened by name."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from gaptop.cli.exits import Exit, Stop

_NAME: Final = "name what gaptop record, or the key s on its screen, wrote"


class FileName(click.ParamType[str]):
    """Any text but none: ``-o "$OUT"`` of a variable that is not set is no wish for the default."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value):
            self.fail("an empty text names no file; give its name, or leave it out for the default.", param, ctx)
        return str(value)


def require_recording(path: str | os.PathLike[str]) -> None:
    """Raises Stop (exit 4) for what cannot be opened and read again: what is missing, a folder, a pipe."""
    if os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise Stop(f"cannot open {path}: it is a folder, so there is nothing to show; {_NAME}.", Exit.UNREADABLE)
    if os.path.exists(path):
        raise Stop(
            f"cannot open {path}: it is no regular file, so it cannot be read twice; pipe it instead: gaptop open - "
            f"<{path}",
            Exit.UNREADABLE,
        )
    raise Stop(f"cannot open {path}: there is no such file; {_NAME}.", Exit.UNREADABLE)
