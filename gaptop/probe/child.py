"""One life of a probe process: spawned, read, told things, ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from gaptop.recording.unpack import LONGEST_LINE

_DUMB: Final = 20.0
"""Seconds without a line (there are four ticks a second) after which a probe counts as hung."""
_PIECE: Final = 1 << 16
_MOST_LOG: Final = 1_000_000
_GRACE: Final = 0.5


class Child:
    """The process must be started by a thread that outlives it: the kernel ends it with that thread."""

    def __init__(self, command: Sequence[str], config: bytes, log: Path | None) -> None:
        with _opened_log(log) as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                # A session of its own: ctrl+c, ctrl+z and a lost terminal are ours to handle, not the probe's.
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._open = True
        self.silent = False
        """It was killed because it said nothing for too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = self._process.stdin
        self._out = self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._in.write(config)
        os.set_blocking(self._in.fileno(), False)

    def lines(self) -> Iterator[bytes]:
        """Its whole lines as they come, until it closes its output or says nothing for too long."""
        rest = b""
        poll = select.poll()
        poll.register(self._out.fileno(), select.POLLIN)
        while True:
            if not poll.poll(_DUMB * 1000):
                self.silent = True
                return
            piece = os.read(self._out.fileno(), _PIECE)
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line + b"\n"
            if not piece or len(rest) > LONGEST_LINE:
                return

    def send(self, text: bytes) -> None:
        """Write to its standard input; lost if it has ended or does not read."""
        with self._lock, contextlib.suppress(OSError):
            if self._open:
                os.write(self._in.fileno(), text)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with self._lock:
            if self._open:
                self._process.send_signal(number)

    def reap(self) -> int:
        """End it if it still runs; gives its exit status, negative for a signal."""
        with self._lock:
            self._open = False
            with contextlib.suppress(OSError):
                self._in.close()
        try:
            if not self.silent:
                return self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._out.close()
        return self._process.wait()


@contextlib.contextmanager
def _opened_log(path: Path | None) -> Iterator[IO[bytes] | int]:
    try:
        if path is None:
            yield subprocess.DEVNULL
            return
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > _MOST_LOG:
                path.replace(path.with_name(path.name + ".1"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        # A log that cannot be written must not keep anybody from measuring.
        yield subprocess.DEVNULL
        return
    with os.fdopen(descriptor, "wb") as file:
        yield file
