"""Reading a stream back: from a file or a pipe, plain or gzip, whole or cut anywhere."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gaptop.recording import unpack
from gaptop.recording.context import Repeats
from gaptop.recording.lines import FORMAT, VERSION, BadLine, Header, Line, decode
from gaptop.recording.printable import printable


class OpenError(Exception):
    """Nothing of it can be read; one sentence says what it is and what to do."""


class Stream(Iterator[Line]):
    """The messages of a stream, in order, without the repeats that make each part of a file readable alone.

    ``header`` is known from the start. ``skipped`` counts lines that were damaged, ``unknown`` those of kinds from a
    newer version, and ``says`` is a sentence when not everything could be read ("" while or when all is well).
    """

    def __init__(self, source: Path | str | BinaryIO) -> None:
        self.name = str(source) if isinstance(source, Path | str) else "the stream"
        self.skipped = 0
        self.unknown = 0
        self.says = ""
        self._file: BinaryIO | None = None
        if isinstance(source, Path | str):
            try:
                self._file = source = io.FileIO(source)
            except OSError as error:
                raise OpenError(
                    f"cannot open {self.name}: {error.strerror}; name what gaptop record, or the key s on its screen, "
                    "wrote."
                ) from None
        self._raw = unpack.lines(source)
        self._repeats = Repeats()
        try:
            self.header = self._first()
        except BaseException:
            self.close()
            raise
        self._lines = self._following()

    def __next__(self) -> Line:
        return next(self._lines)

    def close(self) -> None:
        """Close the file that it opened itself; an open stream that was given stays open."""
        if self._file is not None:
            self._file.close()

    def _first(self) -> Header:
        try:
            raw = next(self._raw, None)
        except unpack.Damage as damage:
            raise OpenError(f"{self.name} cannot be read: {damage}, and no whole line comes before.") from None
        except OSError as error:
            raise OpenError(f"cannot read {self.name}: {error.strerror}.") from None
        if raw is None:
            raise OpenError(f"{self.name} is empty: nothing was recorded in it.")
        _refuse_other_version(self.name, raw)
        try:
            line = decode(raw)
        except BadLine:
            line = None
        if isinstance(line, Header) and line.format == FORMAT:
            return line
        if not raw.endswith(b"\n") and raw.startswith(b'{"k":"header"'):
            raise OpenError(f"{self.name} ends within its first line: nothing was recorded in it.")
        raise OpenError(
            f"{self.name} is not a gaptop stream; gaptop opens what gaptop record, or the key s on its screen, wrote."
        )

    def _following(self) -> Iterator[Line]:
        self._repeats.repeated(self.header)
        yield self.header
        try:
            for raw in self._raw:
                line = self._read(raw)
                if line is not None:
                    yield line
                elif self.says:
                    break
        except unpack.Damage as damage:
            self._end(str(damage))
        except OSError as error:
            self._end(error.strerror or str(error))
        finally:
            self.close()

    def _read(self, raw: bytes) -> Line | None:
        try:
            line = decode(raw)
        except BadLine:
            if raw.endswith(b"\n"):
                self.skipped += 1
            else:
                self._end("it ends within a line")
            return None
        if line is None:
            self.unknown += 1
        elif self._repeats.repeated(line):
            return None
        elif isinstance(line, Header):
            self._end("a second recording begins there; open it alone")
            return None
        return line

    def _end(self, why: str) -> None:
        self.says = f"{self.name} was read up to its last whole line only: {why}."


def open_stream(source: Path | str | BinaryIO) -> Stream:
    """Open a recording (a path) or a binary stream, which may still be growing. Raises OpenError.

    Waits for the first line; later ones are given as they arrive.
    """
    return Stream(source)


def _refuse_other_version(name: str, raw: bytes) -> None:
    """Another major version may have a header of another shape, so look at nothing but format and version."""
    try:
        body = json.loads(raw)
        if body["k"] != "header" or body["format"] != FORMAT:
            return
        theirs = [int(part) for part in body["version"]][:2]
        major = theirs[0]
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        return
    if major == VERSION[0]:
        return
    writer = printable(body.get("gaptop", "another version"))[:40]
    remedy = (
        "install a newer gaptop (pip install --upgrade gaptop) to open it"
        if major > VERSION[0]
        else f"open it with gaptop {writer}"
    )
    raise OpenError(
        f"{name} is a stream of format {'.'.join(map(str, theirs))}, written by gaptop {writer}, and this gaptop reads "
        f"format {VERSION[0]}.{VERSION[1]}; {remedy}."
    )
