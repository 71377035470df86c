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
        write_new(path, text)
    except FileExistsError:
        raise exists(path) from None
    except OSError as error:
        says = f"cannot write {path}: {error.strerror}; make room there, or give another place with -o."
        raise Stop(says, Exit.UNWRITABLE) from None


def write_new(path: Path, text: str) -> None:
    """Write a file (mode 0600), whole or not at all. Raises OSError: FileExistsError where it is there already."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.unlink(path)
        raise
