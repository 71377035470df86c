"""Arrivals from a file: one request a line, ``seconds,prompt tokens,output tokens``."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from random import Random

from gaptop.lab.core.requests import Wish

COLUMNS = "seconds,prompt tokens,output tokens"


class TraceError(Exception):
    """The file cannot be used: one sentence for people."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Open loop: (time, prompt tokens, output tokens) of each request, times relative to the cycle."""

    rows: tuple[tuple[float, int, int], ...]

    def first(self, rng: Random, base: float) -> Iterator[Wish]:
        """See ``loads.Load``."""
        for time, prompt, output in self.rows:
            yield Wish(base + time, prompt, output)

    def then(self, rng: Random, base: float, answered: float) -> Wish | None:
        """See ``loads.Load``."""
        return None


def read_trace(path: Path, room: int | None = None) -> Trace:
    """A first line without any number is a heading; empty lines are skipped. The first request comes at time 0.

    Raises TraceError where the file cannot be read or one of its lines cannot, or asks for more than ``room`` tokens.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            rows = [
                _row(path, reader.line_num, cells, room)
                for cells in reader
                if any(cell.strip() for cell in cells) and not (reader.line_num == 1 and _is_heading(cells))
            ]
    except OSError as error:
        raise TraceError(f"The trace {path} cannot be read ({error.strerror}); give a CSV file of {COLUMNS}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"The trace {path} is no text file ({error}); give a CSV file of {COLUMNS}.") from None
    if not rows:
        raise TraceError(f"The trace {path} has no requests; give a CSV file of {COLUMNS}.")
    rows.sort()
    begin = rows[0][0]
    return Trace(tuple((time - begin, prompt, output) for time, prompt, output in rows))


def _row(path: Path, line: int, cells: list[str], room: int | None) -> tuple[float, int, int]:
    try:
        time, prompt, output = cells
        row = float(time), int(prompt), int(output)
    except ValueError:
        said = ",".join(cells)[:60]
        raise _wrong(path, line, f"{said!r} is not {COLUMNS}") from None
    if not isfinite(row[0]):
        raise _wrong(path, line, f"{cells[0].strip()} is no time in seconds")
    if row[1] < 1 or row[2] < 1:
        raise _wrong(path, line, "a request has at least one prompt token and one output token")
    if room is not None and row[1] + row[2] > room:
        raise _wrong(path, line, f"a request of {row[1] + row[2]} tokens can never run here, {room} is the most")
    return row


def _wrong(path: Path, line: int, what: str) -> TraceError:
    return TraceError(f"The trace {path} cannot be used: line {line}: {what}; correct the line or take it out.")


def _is_heading(cells: list[str]) -> bool:
    return not any(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
