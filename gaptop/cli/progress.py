"""A line on standard error that says how far long work has come, where a person looks on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

import click

AGAIN: Final = 0.5
"""Seconds between two looks at the line."""

CLEAR: Final = "\r\x1b[K"


class Progress:
    """Tell it how much of ``whole`` is done; ``says`` puts that into words. Silent where standard error is no terminal,
    and for work that is done at once."""

    def __init__(self, whole: float, says: Callable[[float], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._whole = whole
        self._says = says
        self._clock = clock
        self._began = self._shown = clock()
        self._drawn = False
        self._looked_at = sys.stderr.isatty()

    def done(self, part: float) -> None:
        now = self._clock()
        if not self._looked_at or now - self._shown < AGAIN or part <= 0:
            return
        self._shown, self._drawn = now, True
        left = (now - self._began) / part * (self._whole - part)
        click.echo(f"{CLEAR}{self._says(part)}, about {duration(left)} to go", nl=False, err=True)

    def close(self) -> None:
        """Take the line away again."""
        if self._drawn:
            self._drawn = False
            click.echo(CLEAR, nl=False, err=True)


def duration(seconds: float) -> str:
    """For people: an estimate has no decimals."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"
