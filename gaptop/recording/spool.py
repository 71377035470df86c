"""What a live screen keeps on disk: about an hour of the stream, so that a snapshot can be cut from it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Final

from gaptop.recording.context import Context, Repeats
from gaptop.recording.lines import Tick, decode, encode, kind_of
from gaptop.recording.reader import OpenError, open_stream
from gaptop.recording.snapshot import LOOKAHEAD, LOOKBACK, write_whole
from gaptop.recording.writer import StreamWriter, WriteError

_SEGMENTS: Final = 16
_LATEST: Final = 60.0
"""Seconds after which even the slowest source has delivered what it saw."""


@dataclass
class _Segment:
    file: IO[bytes]
    writer: StreamWriter
    began: float
    ended: float

    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size


class Spool:
    """A ring of unlinked files (mode 0600), each readable alone. ``says`` is a sentence when it had to give up.

    ``keep_seconds`` of stream time and ``max_bytes`` on disk bound it; the oldest segment goes first.
    """

    def __init__(self, directory: Path, keep_seconds: float = 3600.0, max_bytes: int = 64 << 20) -> None:
        self._directory = directory
        self._keep = keep_seconds
        self._max_bytes = max_bytes
        self._segments: deque[_Segment] = deque()
        self._context = Context()
        self._now = 0.0
        self.says = ""

    def write(self, raw: bytes) -> None:
        """Keep one encoded line. A disk that is full ends the keeping, not the screen: ``says`` tells."""
        if self.says:
            return
        try:
            if kind_of(raw) == "tick":
                self._tick(raw)
            if not self._segments:
                self._next_segment()
            self._segments[-1].writer.write(raw)
        except (OSError, WriteError) as error:
            self._give_up(error)

    def lines(self, start: float, end: float) -> Iterator[bytes]:
        """The encoded lines that :func:`gaptop.recording.snapshot.write_snapshot` needs for this range: the header, the
        newest sources before it, the stacks, and what was told around the range. Raises WriteError: nothing is kept."""
        if self.says:
            raise WriteError(self.says)
        repeats = Repeats()
        for segment in list(self._segments):
            if segment.ended < start - LOOKBACK or segment.began > end + LOOKAHEAD + _LATEST:
                continue
            try:
                segment.writer.sync()
            except WriteError as error:
                self._give_up(error)
                raise WriteError(self.says) from None
            with _opened_again(segment) as file:
                try:
                    stream = open_stream(file)
                except OpenError:
                    continue
                # A segment repeats what its forerunner told.
                yield from (encode(line) for line in stream if not repeats.repeated(line))

    def keep(self, path: Path) -> Path | None:
        """Put everything into a new file that can be opened, as :func:`gaptop.recording.snapshot.write_snapshot` names
        it; None where there is nothing. It is copied as it stands, so that no line can be in the way, and nothing can
        be written to the spool afterwards. Raises WriteError."""
        if self.says:
            raise WriteError(self.says)
        if not self._segments:
            return None
        with contextlib.suppress(WriteError):
            # Where even that finds no room, the file is read up to its last whole line.
            self._segments[-1].writer.close()
        return write_whole(self._copy, path)

    def close(self) -> None:
        """Give the disk space back."""
        while self._segments:
            self._segments.popleft().file.close()

    def _give_up(self, error: OSError | WriteError) -> None:
        self.close()
        cause = error if isinstance(error, OSError) else error.__cause__
        why = cause.strerror if isinstance(cause, OSError) else str(error)
        self.says = (
            f"nothing can be saved: what comes is kept in {self._directory}, which cannot be written ({why}); make "
            "room there, or set XDG_STATE_HOME to another folder, and start gaptop again."
        )

    def _copy(self, target: BinaryIO) -> None:
        for segment in self._segments:
            with _opened_again(segment) as file:
                shutil.copyfileobj(file, target)

    def _tick(self, raw: bytes) -> None:
        line = decode(raw)
        if not isinstance(line, Tick):
            return
        self._now = line.t
        if not self._segments:
            return
        newest = self._segments[-1]
        newest.ended = self._now
        if self._now - newest.began >= self._keep / _SEGMENTS or newest.size() >= self._max_bytes // _SEGMENTS:
            newest.writer.close()
            self._next_segment()
        total = sum(segment.size() for segment in self._segments)
        while len(self._segments) > 1 and (self._segments[0].ended < self._now - self._keep or total > self._max_bytes):
            oldest = self._segments.popleft()
            total -= oldest.size()
            oldest.file.close()

    def _next_segment(self) -> None:
        descriptor, name = tempfile.mkstemp(dir=self._directory, prefix="gaptop-spool-")
        os.unlink(name)
        file = os.fdopen(descriptor, "wb", buffering=0)
        writer = StreamWriter(file, compress=True, context=self._context)
        self._segments.append(_Segment(file, writer, self._now, self._now))


def _opened_again(segment: _Segment) -> BinaryIO:
    """For reading: it has no name any more."""
    return os.fdopen(os.open(f"/proc/self/fd/{segment.file.fileno()}", os.O_RDONLY | os.O_CLOEXEC), "rb")
