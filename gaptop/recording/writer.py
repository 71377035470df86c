"""Writing a stream: plain lines on a pipe, several gzip members in a file.

Each member can be read alone, since it begins with the header, the newest source lines, and (just before the spans that
need them) the stacks. What was written is flushed within a second, so a file that is cut anywhere opens up to there.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from gaptop.recording.context import Context
from gaptop.recording.lines import Frames, Line, Spans, encode
from gaptop.recording.redact import redact_line

MEMBER_SECONDS: Final = 5.0
FLUSH_SECONDS: Final = 1.0
_GZIP: Final = 31
_MEMBER_END: Final = 64
"""Bytes that end a member, with some to spare."""
_FULL: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is as large as this file system allows",
    errno.EIO: "the disk reports an error",
}


class WriteError(Exception):
    """Nothing more can be written; the text says why, what is safe, and what to do."""


class SizeReached(WriteError):
    """The file has the size that was asked for. It is closed and complete."""


class _Sink(Protocol):
    def write(self, raw: bytes) -> None: ...
    def flush(self) -> None: ...
    def new_member(self) -> None: ...
    def finish(self) -> None: ...
    def size_with(self, coming: int) -> int:
        """The most bytes the target can have after writing so many more and finishing."""
        ...


class _Plain:
    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._size = 0

    def write(self, raw: bytes) -> None:
        _write_all(self._target, raw)
        self._size += len(raw)

    def flush(self) -> None:
        self._target.flush()

    def new_member(self) -> None: ...

    def finish(self) -> None:
        self._target.flush()

    def size_with(self, coming: int) -> int:
        return self._size + coming


class _Gzip:
    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._size = 0
        self._unknown = 0

    def write(self, raw: bytes) -> None:
        self._unknown += len(raw)
        self._out(self._packer.compress(raw))

    def flush(self) -> None:
        self._out(self._packer.flush(zlib.Z_SYNC_FLUSH))
        self._target.flush()
        self._unknown = 0

    def new_member(self) -> None:
        self.finish()
        self._packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)

    def finish(self) -> None:
        self._out(self._packer.flush(zlib.Z_FINISH))
        self._target.flush()
        self._unknown = 0

    def size_with(self, coming: int) -> int:
        pending = self._unknown + coming
        return self._size + pending + pending // 1000 + 2 * _MEMBER_END

    def _out(self, packed: bytes) -> None:
        _write_all(self._target, packed)
        self._size += len(packed)


def _write_all(target: BinaryIO, data: bytes) -> None:
    # A raw pipe may take only a part of what it is given.
    view = memoryview(data)
    while view:
        view = view[target.write(view) or 0 :]


class StreamWriter:
    """Writes lines to a new file (mode 0600; never over one that exists) or to an open binary stream.

    Messages are redacted; bytes are taken as they are (they come from a probe, which has redacted them). A plain
    stream is flushed line by line. A ``context`` that has followed the stream so far lets it go on in a new file.
    Errors of a pipe whose reader has gone come through as BrokenPipeError; every other
    failure to write, also a path that cannot be opened, is a :class:`WriteError`.
    """

    def __init__(
        self,
        target: BinaryIO | Path,
        compress: bool,
        max_size: int | None = None,
        *,
        context: Context | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = str(target) if isinstance(target, Path) else "the stream"
        self._owned = isinstance(target, Path)
        self._target = _create(target) if isinstance(target, Path) else target
        self._sink: _Sink = _Gzip(self._target) if compress else _Plain(self._target)
        self._compress = compress
        self._max_size = max_size
        self._clock = clock
        self._context = Context() if context is None else context
        self._began = self._flushed = clock()
        self._closed = False
        self._guarded(self._open_member)

    def write(self, line: Line | bytes) -> None:
        """Append one line (bytes: with its newline). Raises WriteError, SizeReached or BrokenPipeError."""
        if self._closed:
            raise WriteError(f"{self._name} is closed.")
        raw = line if isinstance(line, bytes) else encode(redact_line(line))
        self._guarded(lambda: self._write(raw))

    def learn(self, line: Line) -> None:
        """Know a source or stacks without writing them; stacks are written when spans need them."""
        self._context.note(encode(redact_line(line)))

    def flush(self) -> None:
        """Make what was written readable, at most once a second: call it also while no lines come."""
        if not self._closed and self._clock() - self._flushed >= FLUSH_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Make everything that was written readable now."""
        if not self._closed:
            self._guarded(self._flush)

    def close(self) -> None:
        """End the last member; closes a file that it opened itself. Raises WriteError or BrokenPipeError."""
        if self._closed:
            return
        self._guarded(self._sink.finish)
        self._closed = True
        self._release()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            self._closed = True
            self._release()
            if isinstance(error, BrokenPipeError):
                raise
            why = _FULL.get(error.errno or 0, error.strerror or str(error))
            raise WriteError(
                f"cannot write {self._name}: {why}; what was recorded up to a second before can be opened. "
                "Make room there, or choose another place."
            ) from error

    def _write(self, raw: bytes) -> None:
        if self._compress and self._clock() - self._began >= MEMBER_SECONDS:
            self._sink.new_member()
            self._began = self._flushed = self._clock()
            self._open_member()
        known = self._context.note(raw)
        if isinstance(known, Spans):
            for frames in self._context.missing(known):
                self._append(frames)
        self._append(raw)
        if isinstance(known, Frames):
            self._context.given(known)
        if not self._compress or self._clock() - self._flushed >= FLUSH_SECONDS:
            self._flush()

    def _open_member(self) -> None:
        for repeated in self._context.opening():
            self._append(repeated)

    def _append(self, raw: bytes) -> None:
        if self._max_size is not None and self._sink.size_with(len(raw)) > self._max_size:
            self._sink.flush()
            if self._sink.size_with(len(raw)) > self._max_size:
                self.close()
                raise SizeReached(
                    f"{self._name} has reached {self._max_size} bytes, so the recording ended there; it is complete: "
                    "give a larger --max-size for a longer one."
                )
        self._sink.write(raw)

    def _flush(self) -> None:
        self._flushed = self._clock()
        self._sink.flush()

    def _release(self) -> None:
        if self._owned:
            try:
                self._target.close()
            except OSError:
                # The failure that led here is the one to tell.
                return


def _create(path: Path) -> BinaryIO:
    """A new file that nobody else may read; or the pipe or character device (``/dev/null``) that has this name."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        descriptor = _existing(path)
    except OSError as error:
        raise WriteError(
            f"cannot write {path}: {error.strerror}; give a folder that you may write to with -o FILE."
        ) from None
    return os.fdopen(descriptor, "wb", buffering=0)


def _existing(path: Path) -> int:
    try:
        # Only looked at so far: opening something else for writing could already do harm.
        if not _takes_a_stream(os.lstat(path).st_mode):
            raise WriteError(
                f"{path} exists and is not overwritten, nor is a link followed; remove it, or give another name with "
                "-o FILE."
            )
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror}; give another name with -o FILE.") from None
    if not _takes_a_stream(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise WriteError(f"{path} was replaced while it was opened; give another name with -o FILE.")
    return descriptor


def _takes_a_stream(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
