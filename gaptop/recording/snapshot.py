"""A snapshot: a recording cut to a range, with the verdicts that were on screen, in a new file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from gaptop.recording.lines import Frames, Header, Line, Range, Source, Verdict, times
from gaptop.recording.writer import StreamWriter, WriteError

LOOKBACK: Final = 120.0
"""Seconds before the range: the detector's recent level needs them."""
LOOKAHEAD: Final = 10.0
"""Seconds after it: sources that deliver late tell of the range there."""


def write_snapshot(
    lines: Iterable[Line],
    start: float,
    end: float,
    verdicts: Sequence[Mapping[str, Any]],
    path: Path,
    *,
    lookback: float = LOOKBACK,
    lookahead: float = LOOKAHEAD,
) -> Path:
    """Write what ``lines`` tell of [start - lookback, end + lookahead], and the verdicts, into a new file (mode 0600).

    The file appears whole or not at all. Where ``path`` exists, ``-2``, ``-3`` ... is added to its stem; the path that
    was used comes back. Raises WriteError.
    """

    def write(file: BinaryIO) -> None:
        writer = StreamWriter(file, compress=True)
        for line in _cut(lines, start - lookback, end + lookahead, writer):
            writer.write(line)
        writer.write(Range(start, end))
        for verdict in verdicts:
            writer.write(Verdict(verdict))
        writer.close()

    return write_whole(write, path)


def write_whole(write: Callable[[BinaryIO], None], path: Path) -> Path:
    """What ``write`` puts into the file that it is given, in a new one (mode 0600), whole or not at all, as
    :func:`write_snapshot` does. Raises WriteError, also what ``write`` raises."""
    descriptor, partial = _partial_file(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        return _move_to_free_name(partial, path)
    except (OSError, WriteError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise WriteError(
            f"cannot write {path}: {cause.strerror}; make room, or start gaptop in another folder."
        ) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


def _cut(lines: Iterable[Line], start: float, end: float, writer: StreamWriter) -> Iterator[Line]:
    sources: dict[str, Source] = {}
    begun = False
    for line in lines:
        span = times(line)
        if isinstance(line, Header):
            yield line
        elif isinstance(line, Frames):
            writer.learn(line)
        elif isinstance(line, Source):
            if not begun:
                sources[line.id] = line
            elif line.t <= end:
                yield line
        elif span is not None and span[0] <= end and span[1] >= start:
            if not begun:
                begun = True
                yield from sources.values()
            yield line


def _partial_file(path: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise WriteError(
            f"cannot write into {path.parent}: {error.strerror}; start gaptop in a folder that you may write to."
        ) from None


def _move_to_free_name(partial: str, path: Path) -> Path:
    number = 1
    while True:
        candidate = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            os.close(os.open(candidate, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            number += 1
            continue
        # The name is ours now; renaming over it makes the content appear at once.
        os.replace(partial, candidate)
        return candidate
