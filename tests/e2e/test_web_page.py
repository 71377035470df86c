"""What ``gaptop web`` starts for a page, spoken to as textual-serve does: packets on its input and output."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.browser import Served
from tests.e2e.processes import alive, family, wait_for
from tests.e2e.terminal import GAPTOP

ENDS = 10.0
"""Seconds within which a page's gaptop has ended: two of grace, the rest for a machine that does other things."""
PRELUDE = b"__GANGLION__\n"
QUIT = json.dumps({"type": "quit"}).encode()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run.gaptop"
    command = [GAPTOP, "lab", "run", "cache_pressure", "--seconds", "15s", "-o", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path


class PageProcess:
    """The process of a page; ``output`` is what was read of it so far."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        command = [sys.executable, "-P", "-m", "gaptop.cli.page", "web", "--page", *arguments]
        environ = {**os.environ, "XDG_STATE_HOME": str(folder), "COLUMNS": "120", "ROWS": "40", "LC_ALL": "C.UTF-8"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self._stdout = self.process.stdin, self.process.stdout
        self.output = b""

    def read(self, seconds: float = 0.05) -> bool:
        """Read on; False where nothing came."""
        if not select.select([self._stdout], [], [], seconds)[0]:
            return False
        piece = os.read(self._stdout.fileno(), 1 << 16)
        self.output += piece
        return bool(piece)

    def until(self, text: str) -> None:
        wait_for(lambda: self.read() and text.encode() in self.output, f"{text} was sent", 40)

    def send(self, kind: bytes, payload: bytes) -> None:
        self.input.write(kind + len(payload).to_bytes(4, "big") + payload)

    def narrow(self) -> None:
        """Let its output hold as little as can be."""
        fcntl.fcntl(self._stdout, fcntl.F_SETPIPE_SZ, 4096)

    def waiting(self) -> int:
        """Bytes that it has written and nobody read."""
        return int(struct.unpack("i", fcntl.ioctl(self._stdout, termios.FIONREAD, bytes(4)))[0])

    def end(self) -> int:
        """Its exit status, once it has ended by itself."""
        return self.process.wait(ENDS)

    def close(self) -> None:
        self.process.kill()
        with self.process:
            pass


@pytest.fixture
def page(recording: Path, tmp_path: Path) -> Iterator[PageProcess]:
    page = PageProcess(str(recording), folder=tmp_path)
    yield page
    page.close()


def test_it_has_a_session_of_its_own_and_ends_when_told(page: PageProcess) -> None:
    page.until("CACHE PRESSURE")
    assert page.output.startswith(PRELUDE)
    assert os.getsid(page.process.pid) == page.process.pid, "ctrl+c on the server's terminal is not for it"
    page.send(b"M", QUIT)
    assert page.end() == 0


def test_it_ends_with_who_serves_it(page: PageProcess) -> None:
    page.until("LEDGER")
    page.input.close()
    page.end()


def test_it_ends_where_nobody_takes_its_output(page: PageProcess) -> None:
    """A tab that hangs and then goes: textual-serve reads no more, and tells it to quit."""
    page.narrow()
    page.until("LEDGER")
    counts = [0]
    while len(set(counts[-4:])) > 1 or len(counts) < 5:
        page.send(b"D", b"d")  # draws much anew each time
        time.sleep(0.7)
        counts.append(page.waiting())
    assert counts[-1] > 0, "its output is full"
    page.send(b"M", QUIT)
    page.end()


@pytest.mark.parametrize(("option", "last"), [("--mouse", b"h"), ("--no-mouse", b"l")])
def test_the_mouse_is_left_alone_where_that_was_asked_for(
    option: str, last: bytes, recording: Path, tmp_path: Path
) -> None:
    page = PageProcess(str(recording), option, folder=tmp_path)
    try:
        page.until("LEDGER")
        for mode in (b"1000", b"1003", b"1006"):
            _, told, after = page.output.rpartition(b"\x1b[?" + mode)
            assert told
            assert after.startswith(last)
    finally:
        page.close()


async def test_a_browser_that_does_not_answer_cannot_hold_the_end_up(recording: Path, tmp_path: Path) -> None:
    with Served(tmp_path, [str(recording)]) as served:
        async with aiohttp.ClientSession() as session:
            socket = await session.ws_connect(f"{served.address}ws?width=120&height=40", autoclose=False)
            await socket.receive()
            running = family(served.process.pid)
            assert running
            served.process.terminate()
            assert await asyncio.to_thread(served.process.wait, ENDS - 2) == 0
            assert not any(alive(process.pid) for process in running)


def test_what_it_says_in_place_of_a_screen_is_one_packet(tmp_path: Path) -> None:
    page = PageProcess(str(tmp_path / "no\x1b[31m.gaptop"), folder=tmp_path)
    output, errors = page.process.communicate(timeout=30)
    assert page.process.returncode == 4
    assert output.startswith(PRELUDE + b"D")
    told = output[len(PRELUDE) + 5 :]
    assert int.from_bytes(output[len(PRELUDE) + 1 :][:4], "big") == len(told)
    assert told.decode().split("\r\n")[0] == errors.decode().rstrip("\n")
    assert "no␛[31m.gaptop: there is no such file; name what" in told.decode()
    assert b"\x1b" not in told
