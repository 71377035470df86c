"""A real terminal for tests: a shell in a tmux server of its own, which is ended in the end."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

GAPTOP: Final = str(Path(sys.executable).with_name("gaptop"))
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: no real terminal")
_PROMPT: Final = "ready$ "


class Terminal:
    """``folder`` is the working directory and holds state and log; ``environ`` is set in the shell on top."""

    def __init__(
        self, folder: Path, columns: int = 120, rows: int = 40, environ: Mapping[str, str | None] | None = None
    ) -> None:
        self.folder = folder
        self._socket = f"gaptop-test-{os.getpid()}-{secrets.token_hex(4)}"
        self._size = columns, rows
        changed = {"LANG": "C.UTF-8", "LC_ALL": None, "LC_CTYPE": None, "NO_COLOR": None, "COLORTERM": None}
        changed |= {"XDG_STATE_HOME": str(folder / "state"), "ENV": None, **(environ or {})}
        self._term = changed.pop("TERM", None)
        self._environ = {name: value for name, value in os.environ.items() if name not in changed and name != "TMUX"}
        self._environ |= {name: value for name, value in changed.items() if value is not None}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.kill_server()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_server()

    def _start(self) -> None:
        columns, rows = self._size
        size = ["-x", str(columns), "-y", str(rows)]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(self.folder), "sh")
        if self._term is not None:
            self.type(f"export TERM={self._term}")
        # A shell of root ignores PS1 of the environment; quotes keep the prompt's text out of what is typed.
        self.type(f"PS1='{_PROMPT[:3]}''{_PROMPT[3:]}'; clear")
        self.until(_PROMPT.strip())

    def tmux(self, *arguments: str) -> str:
        """Run a tmux command on our own server; its output."""
        command = ["tmux", "-u", "-L", self._socket, *arguments]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout

    @property
    def shell(self) -> int:
        """The shell's pid."""
        return int(self.ask("pane_pid"))

    def ask(self, variable: str) -> str:
        return self.tmux("display-message", "-p", f"#{{{variable}}}").strip()

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def screen(self, *, escapes: bool = False) -> str:
        """What is on the screen, with trailing blanks removed; ``escapes`` keeps colours and attributes."""
        return self.tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def until(self, *texts: str, seconds: float = 15.0) -> str:
        """Wait until all these texts stand on the screen at once; gives the screen."""
        end = time.monotonic() + seconds
        while not all(text in (shown := self.screen()) for text in texts):
            assert time.monotonic() < end, f"not on screen after {seconds:g} s: {texts}\n{shown}"
            time.sleep(0.05)
        return shown

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def kill_server(self) -> None:
        """Take the terminal away: its processes get a hangup. Safe to call twice."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], env=self._environ, capture_output=True, timeout=20)
