"""Where the engine runs, as the front end sees it: in a process of its own, or in the front end's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Protocol

from gaptop.lab.live import engine_process


class Backend(Protocol):
    """``messages`` is what the engine writes."""

    messages: IO[bytes]
    pid: int

    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class OwnProcess:
    """Starts the engine process."""

    def __init__(self, scenario: str, seed: int, feed: Path) -> None:
        command = [sys.executable, "-m", engine_process.__name__, scenario, str(seed), str(feed), str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdout is not None
        self.messages = self._process.stdout
        self.pid = self._process.pid

    def alive(self) -> bool:
        """See Backend."""
        return self._process.poll() is None

    def stop(self) -> None:
        """See Backend."""
        self._process.kill()
        self._process.wait()


class SameProcess:
    """The engine is another thread here, and ends with us. ``descriptor``: the end of its pipe that is read."""

    def __init__(self, descriptor: int) -> None:
        self.messages: IO[bytes] = os.fdopen(descriptor, "rb", 0)
        self.pid = os.getpid()

    def alive(self) -> bool:
        """See Backend."""
        return True

    def stop(self) -> None:
        """See Backend."""
