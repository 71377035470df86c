"""``gaptop web`` before there is a page: what is refused, with which sentence, and what a page is started with."""

from __future__ import annotations

import importlib.util
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gaptop.cli import web_server
from gaptop.cli.exits import Exit
from gaptop.cli.main import cli
from gaptop.recording.lines import Header, Tick, encode
from tests.unit.test_cli_imports import modules_after


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["web", *arguments])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "a 'b' $(touch c).gaptop"
    path.write_bytes(encode(Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0)) + encode(Tick(1.0)))
    return path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(words, title, port) of what would be served."""
    calls: list[Any] = []

    def serve(*arguments: Any) -> Exit:
        calls.append(arguments)
        return Exit.FINE

    monkeypatch.setattr(web_server, "serve", serve)
    return calls


def test_the_command_is_light_until_it_serves() -> None:
    assert not modules_after("import gaptop.cli.web") & {"textual_serve", "aiohttp", "textual", "jinja2", "psutil"}
    assert "web " in CliRunner().invoke(cli, ["--help"]).output


def test_a_page_is_started_with_the_words_that_were_typed(recording: Path, served: list[Any]) -> None:
    words = ("--port", "0", "--sweep", "off", str(recording), "--theme", "nord")
    assert run(*words).exit_code == Exit.FINE
    assert served == [(words, f"gaptop {recording.name}", 0)]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-"], Exit.USAGE, "reads no pipe"),
        (["--port", "70000"], Exit.USAGE, "70000 is not in the range"),
        (["--port", "many"], Exit.USAGE, "'many' is not a valid integer"),
        (["missing.gaptop"], Exit.UNREADABLE, "missing.gaptop: there is no such file; name what"),
        (["./missing"], Exit.UNREADABLE, "there is no such file;"),
        (["text"], Exit.UNREADABLE, "text is not a gaptop stream"),
        (["."], Exit.UNREADABLE, "cannot open .: it is a folder, so"),
        (["text", "http://127.0.0.1:1"], Exit.USAGE, "text is a recording, and a recording is shown by itself"),
        (["text", "--gil"], Exit.USAGE, "--gil is about a server that is watched, and text is a recording"),
        (["http://"], Exit.USAGE, "http://"),
    ],
)
def test_what_cannot_be_shown_is_told_before_a_page_is_opened(
    arguments: list[str], code: Exit, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: list[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("hello\n")
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert says in done.output
    assert not served


def test_without_a_server_the_page_waits_and_that_is_told(served: list[Any]) -> None:
    done = run("http://127.0.0.1:1/", "--port", "0")
    assert done.exit_code == Exit.FINE, done.output
    assert served == [(("http://127.0.0.1:1/", "--port", "0"), "gaptop http://127.0.0.1:1", 0)]
    assert done.stderr.startswith("gaptop: http://127.0.0.1:1 has nothing listening")
    assert "\ngaptop: the page waits: it looks again every two seconds" in done.stderr
    assert done.stderr.count("\n") == 2


def test_without_the_extra_its_name_is_told(
    recording: Path, monkeypatch: pytest.MonkeyPatch, served: list[Any]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = run(str(recording))
    assert done.exit_code == Exit.USAGE
    assert "pip install 'gaptop[web]'" in done.output
    assert done.output.count("\n") == 1
    assert not served
    assert run(f"{recording}.none").exit_code == Exit.UNREADABLE, "what is wrong with the file comes first"


def test_a_port_that_is_taken(recording: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(str(recording), "--port", str(port))
    assert done.exit_code == Exit.USAGE
    assert f"port {port} of 127.0.0.1 (Address already in use)" in done.output
    assert "--port 0" in done.output


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(command, title, address) of a server that ends at once; the environment it leaves is taken back."""
    for name in ("TERM", "COLORTERM", "LC_ALL", "COLORFGBG"):
        monkeypatch.setenv(name, "dumb")
    servers: list[Any] = []

    def show(self: Any, listening: socket.socket) -> None:
        servers.append((self.command, self.title, listening.getsockname()))

    monkeypatch.setattr(web_server._Pages, "show", show)
    return servers


def test_no_shell_takes_a_file_for_something_else(recording: Path, shown: list[Any]) -> None:
    assert run(str(recording), "--port", "0").exit_code == Exit.FINE
    [(command, title, address)] = shown
    python, *options = shlex.split(command.removeprefix("exec "))
    assert python == sys.executable
    assert options == ["-P", "-m", "gaptop.cli.page", "web", "--page", str(recording), "--port", "0"]
    assert "$(touch c)'" not in shlex.split(command)
    assert title == f"gaptop {recording.name}"
    assert address[0] == "127.0.0.1"


def test_a_page_shows_all_colours_and_characters_wherever_it_is_served_from(recording: Path, shown: list[Any]) -> None:
    from gaptop.tui import terminal

    before = dict(os.environ)
    assert terminal.needs_ascii(before)
    assert terminal.colours(before) == "none"
    run(str(recording), "--port", "0")
    assert not terminal.needs_ascii(os.environ)
    assert terminal.colours(os.environ) == "true"
    assert terminal.own_theme({**before, "COLORFGBG": "0;15"}) != terminal.own_theme(os.environ)


@pytest.mark.parametrize(
    ("connection", "says"), [("", "of this machine"), ("::1 1 ::1 22", "ssh -N -L 8123:127.0.0.1:8123 ")]
)
def test_where_the_page_is(connection: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", connection)
    told = web_server._where(8123, "secret")
    assert "http://127.0.0.1:8123/secret/ " in told
    assert says in told
