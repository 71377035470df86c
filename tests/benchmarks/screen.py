"""gaptop in a pseudo-terminal of 120x40 that counts what it is sent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

COLUMNS, ROWS = 120, 40
_ESCAPES: Final = re.compile(rb"\x1b\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b.")
_KEPT: Final = 1 << 20


def environment(folder: Path) -> dict[str, str]:
    """This process's, for a UTF-8 terminal; state and compiled modules go below ``folder``.

    An installed gaptop is compiled once; without this a checkout whose user forbids that would compile at each start.
    """
    own = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "XDG_STATE_HOME": str(folder)}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | own | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}


class Screen:
    """``arguments`` are gaptop's; ``folder`` takes its state. A thread reads and keeps what it draws."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self._command = [sys.executable, "-m", "gaptop", *arguments]
        self._environment = environment(folder)
        self._read = b""
        self.size = 0
        self.begun = 0.0

    def __enter__(self) -> Self:
        self._master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.begun = time.monotonic()
        self._process = subprocess.Popen(
            self._command, stdin=terminal, stdout=terminal, stderr=terminal, env=self._environment, process_group=0
        )
        os.close(terminal)
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(8)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(2)
        os.close(self._master)

    @property
    def pid(self) -> int:
        return self._process.pid

    def until(self, *texts: str, seconds: float = 30.0) -> float | None:
        """Seconds from the start until all of these texts were drawn; None where they never were."""
        while time.monotonic() - self.begun < seconds:
            drawn = _ESCAPES.sub(b"", self._read)
            if all(text.encode() in drawn for text in texts):
                return time.monotonic() - self.begun
            if self._process.poll() is not None:
                return None
            time.sleep(0.01)
        return None

    def press(self, keys: str) -> None:
        """As if they were typed."""
        os.write(self._master, keys.encode())

    def _drain(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 1 << 16)
            except OSError:
                return
            if not piece:
                return
            self.size += len(piece)
            self._read = (self._read + piece)[-_KEPT:]
