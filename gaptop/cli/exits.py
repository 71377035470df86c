"""How gaptop ends: the exit codes, and errors as one sentence on standard error."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import IO, Any, NoReturn

import click

from gaptop.recording.printable import printable, printable_lines


class Exit(IntEnum):
    """Exit codes; documented in --help and README. A file that cannot be read and one that cannot be written share
    theirs; BROKEN is a bug of gaptop's own."""

    FINE = 0
    FINDINGS = 1
    USAGE = 2
    NOTHING_TO_OBSERVE = 3
    UNREADABLE = 4
    UNWRITABLE = 4
    BROKEN = 70
    INTERRUPTED = 130


class Sentences(str):
    """Several sentences, each in a line of its own. In any other text that is told a line feed can only come from
    outside, as from the name of a file, and is shown as what it is."""

    @classmethod
    def of(cls, *sentences: str) -> Sentences:
        return cls("\n".join(map(printable, sentences)))


class Stop(click.ClickException):
    """Ends gaptop with a sentence: what is wrong, what it means, the remedy."""

    def __init__(self, says: str, code: Exit) -> None:
        super().__init__(_shown(says))
        self.exit_code = int(code)  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"gaptop: {self.format_message()}", file=file or sys.stderr)


def tell(says: str) -> None:
    """One sentence on standard error; it may quote names of servers and files."""
    click.echo(f"gaptop: {_shown(says)}", err=True)


def _shown(says: str) -> str:
    return says if isinstance(says, Sentences) else printable(says)


def show(error: click.ClickException) -> None:
    """The error on standard error, as click shows it but with what was typed made safe for the terminal."""
    if isinstance(error, Stop):
        error.show()
        return
    lines = []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        lines += [error.ctx.get_usage(), f"Try '{error.ctx.command_path} --help' for help.", ""]
    says = error.format_message()
    # Of click's own messages only that on what is missing has lines: the words to choose from, each behind a tab.
    says = "\n".join(map(str.strip, says.split("\n"))) if isinstance(error, click.MissingParameter) else printable(says)
    click.echo(printable_lines("\n".join([*lines, f"Error: {says}"])), err=True)


def broken(error: BaseException, kept: str = "") -> NoReturn:
    """A bug of gaptop's own: the traceback goes to the log, or where there is none to the user, who gets a sentence in
    any case. ``kept`` is a part of it: what became of what was measured."""
    import logging
    import traceback

    from gaptop.cli.paths import log_path
    from gaptop.recording.redact import redact

    if logging.getLogger().handlers:
        logging.getLogger(__name__).error("gaptop broke", exc_info=error)
        where = f"the log {log_path()} has the details"
    else:
        click.echo(printable_lines(redact("".join(traceback.format_exception(error)))), err=True, nl=False)
        where = "no log could be written, so the details stand above"
    what = " ".join(redact(f"{type(error).__name__}: {error}").split())
    tell(f"this is a bug in gaptop ({what}); {kept and kept + '; '}{where}; please report it.")
    sys.exit(Exit.BROKEN)
