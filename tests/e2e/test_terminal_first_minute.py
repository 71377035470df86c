"""No server yet: the screen says what was looked for and what to do, and goes on by itself when one answers."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux
from tests.fakes import vllm_process

pytestmark = needs_tmux


def test_the_screen_waits_for_the_named_server_and_goes_on_when_it_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} http://127.0.0.1:{port}; echo code=$?")
        shown = terminal.until("looking for an LLM server", "What to do", "q quit", seconds=30)
        assert f"127.0.0.1:{port}" in shown
        terminal.until("devices.nvml", seconds=20)
        program = tmp_path / "vllm"
        program.symlink_to(vllm_process.__file__)
        command = [sys.executable, str(program), "serve", "tiny", "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                terminal.until("LIVE", f"127.0.0.1:{port}", seconds=30)
                terminal.press("q")
                terminal.until("code=0")
            finally:
                server.kill()


def test_q_leaves_the_waiting_screen_with_nothing_observed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} http://127.0.0.1:{port}; echo code=$?")
        terminal.until("looking for an LLM server", seconds=30)
        terminal.press("q")
        terminal.until("code=3")
