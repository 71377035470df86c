"""What the screen reads from: a probe of its own, or a recorded or piped stream. (See tui/feed.py.)"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from gaptop.cli.crash import keep_all
from gaptop.cli.paths import new_recording, places, state_dir
from gaptop.cli.probe_lines import LiveLines, decoded
from gaptop.recording.lines import Line, encode
from gaptop.recording.reader import OpenError, open_stream
from gaptop.recording.snapshot import write_snapshot
from gaptop.recording.spool import Spool
from gaptop.recording.writer import WriteError

Verdicts = Sequence[Mapping[str, Any]]


class LiveFeed:
    """A probe as a child. What it says is kept in a bounded spool on disk, from which snapshots are cut."""

    live = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._lines = LiveLines(config)
        self._spool = Spool(state_dir())

    def __enter__(self) -> LiveFeed:
        self._lines.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def drain(self, limit: int) -> list[Line]:
        """The lines that came since the last call, at most ``limit``; never waits."""
        drained: list[Line] = []
        while len(drained) < limit and (raw := self._lines.take(0)) is not None:
            self._spool.write(raw)
            line = decoded(raw)
            if line is not None:
                drained.append(line)
        return drained

    def ended(self) -> str | None:
        return self._lines.ended()

    def send(self, command: Mapping[str, Any]) -> None:
        """A command for the probe (it is logged in the stream as an event)."""
        self._lines.probe.send(dict(command))

    def save(self, start: float, end: float, verdicts: Verdicts) -> Path:
        """A snapshot of [start, end] into a new file in the working directory, or the state folder if that is not
        writable. Raises OSError."""
        return _save(lambda: self._spool.lines(start, end), start, end, verdicts)

    def keep(self) -> Path | None:
        """End the probe, and put all that the spool has into a new file, for a screen that broke; None where nothing
        had come. Raises OSError."""
        for raw in self._lines.rest():
            self._spool.write(raw)
        return keep_all(self._spool)

    def close(self) -> None:
        self._lines.probe.stop()
        self._spool.close()


class StreamFeed:
    """A recording, or a stream from a pipe, read by a thread of its own with back-pressure."""

    _AHEAD = 2_000
    """Lines read ahead of the screen: more would only take the first frame's CPU time, and memory."""

    def __init__(self, source: Path | BinaryIO) -> None:
        self.live = not isinstance(source, Path)
        self._source = source
        self._lines: deque[Line] = deque()
        self._room = threading.Semaphore(self._AHEAD)
        self._reason: str | None = None
        self._broke: Exception | None = None
        self._done = threading.Event()
        self._closed = False
        self._spool = Spool(state_dir()) if self.live else None
        threading.Thread(target=self._read, name="stream reader", daemon=True).start()

    def _read(self) -> None:
        reason = "end of the recording" if isinstance(self._source, Path) else "the recording gaptop ended"
        try:
            stream = open_stream(self._source)
            for line in stream:
                self._room.acquire()
                if self._closed:
                    return
                self._lines.append(line)
            reason = stream.says or reason
        except OpenError as error:
            reason = str(error)
        except Exception as error:
            # Nobody looks at this thread: it is raised where the lines are taken.
            self._broke = error
            return
        self._reason = reason
        self._done.set()

    def drain(self, limit: int) -> list[Line]:
        drained: list[Line] = []
        while self._lines and len(drained) < limit:
            line = self._lines.popleft()
            self._room.release()
            if self._spool is not None:
                self._spool.write(encode(line))
            drained.append(line)
        if not drained and self._broke is not None:
            raise self._broke
        return drained

    def ended(self) -> str | None:
        """Why no more lines will come; None while some may."""
        return self._reason if self._done.is_set() and not self._lines else None

    def send(self, command: Mapping[str, Any]) -> None:
        """A recording takes no commands."""

    def save(self, start: float, end: float, verdicts: Verdicts) -> Path:
        """A snapshot of [start, end] into a new file. Raises OSError."""
        if self._spool is not None:
            spool = self._spool
            return _save(lambda: spool.lines(start, end), start, end, verdicts)
        return _save(lambda: (encode(line) for line in open_stream(self._source)), start, end, verdicts)

    def keep(self) -> Path | None:
        """The recording itself, or a new file with all that came through the pipe; None where nothing had come. Raises
        OSError."""
        if self._spool is None:
            return self._source if isinstance(self._source, Path) else None
        if self._lines:
            self.drain(self._AHEAD)
        return keep_all(self._spool)

    def close(self) -> None:
        self._closed = True
        self._room.release()
        if self._spool is not None:
            self._spool.close()


def _save(lines: Callable[[], Iterable[bytes]], start: float, end: float, verdicts: Verdicts) -> Path:
    try:
        path = new_recording(socket.gethostname(), places()[0])
        return write_snapshot(_messages(lines()), start, end, verdicts, path)
    except WriteError as error:
        raise OSError(str(error)) from None


def _messages(raw_lines: Iterable[bytes]) -> Iterator[Line]:
    for raw in raw_lines:
        line = decoded(raw)
        if line is not None:
            yield line
