"""Writing a text into a new file, never over one that exists."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gaptop.cli.exits import Exit, Stop


def exists(path: Path) -> Stop:
    """What is said where the file is there already."""
    return Stop(f"{path} exists and is not overwritten; remove it, or give another name with -o.", Exit.UNWRITABLE)


def put(path: Path | None, text: str) -> None:
    """Into a new file (mode 0600), whole or not at all; None is standard output. Raises Stop (exit 4)."""
    if path is None:
        click.echo(text, nl=False)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise exists(path) from None
    except OSError as error:
        raise Stop(f"cannot write {path}: {error.strerror}; give another place with -o.", Exit.UNWRITABLE) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        os.unlink(path)
        raise Stop(f"cannot write {path}: {error.strerror}; make room there, or use -o.", Exit.UNWRITABLE) from None
