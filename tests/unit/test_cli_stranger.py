"""What somebody types who does not know gaptop: a sentence, the right exit code, and never a traceback."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gaptop.cli.exits import Exit
from gaptop.cli.main import main

DOWN = "http://127.0.0.1:9"


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    monkeypatch.setattr(sys, "argv", ["gaptop", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return ended.value.code, said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["report", ""], Exit.USAGE, "an empty text names no file"),
        (["open", ""], Exit.USAGE, "an empty text names no file"),
        (["export", "--as", "folded", ""], Exit.USAGE, "an empty text names no file"),
        (["export", "--as", "folded", "-o", "", "text"], Exit.USAGE, "an empty text names no file"),
        (["record", "-o", "", DOWN], Exit.USAGE, "an empty text names no file"),
        (["lab", "run", "steady", "-o", ""], Exit.USAGE, "an empty text names no file"),
        (["--token-file", "", "--once", DOWN], Exit.USAGE, "an empty text names no file"),
        (["--ca", "", "--once", DOWN], Exit.USAGE, "an empty text names no file"),
        (["--ca", "missing", "--once", DOWN], Exit.USAGE, "cannot read the certificate missing: No such file"),
        (["--ca", ".", "--once", DOWN], Exit.USAGE, "cannot read the certificate .: Is a directory, so no https"),
        (["--token-file", "missing", "--once", DOWN], Exit.USAGE, "No such file or directory, so the server would be"),
        (["--token-file", "/dev/zero", "--once", DOWN], Exit.USAGE, "/dev/zero holds no secret that can be sent"),
        (["--token-file", "long", "--once", DOWN], Exit.USAGE, "long holds no secret that can be sent"),
        (["--token-file", "umlaut", "--once", DOWN], Exit.USAGE, "umlaut holds no secret that can be sent"),
        (["--header", "X A=b", "--once", DOWN], Exit.USAGE, "what begins with 'X' names no header"),
        (["--token-file", "a\0b", "--once", DOWN], Exit.USAGE, "or no name of a file"),
        (["--ca", "a\0b", "--once", DOWN], Exit.USAGE, "that is no name of a file"),
        (["--activities", "", "--once", DOWN], Exit.USAGE, "an empty text names no file"),
        (["--config", "", "--once", DOWN], Exit.USAGE, "an empty text names no file"),
        (["--header", "X-A=a\nb", "--once", DOWN], Exit.USAGE, "X-A cannot be sent, because"),
        (["--header", "X-A=\xfc", "--once", DOWN], Exit.USAGE, "X-A cannot be sent, because"),
        (["--fail-on", "", "--once", DOWN], Exit.USAGE, "'' names no cause, so nothing could fail; choose from no_dem"),
        (["--fail-on", ",", "--once", DOWN], Exit.USAGE, "',' names no cause"),
        (["report", "."], Exit.UNREADABLE, "cannot open .: Is a directory; name what gaptop record"),
        (["report", "missing"], Exit.UNREADABLE, "cannot open missing: No such file or directory; name what gaptop"),
        (
            ["web", "pipe"],
            Exit.UNREADABLE,
            "it is no regular file, so it cannot be read twice; pipe it instead: gaptop",
        ),
        (["help"], Exit.USAGE, "no command is called 'help'; did you mean gaptop --help? A host is named as"),
        (["version"], Exit.USAGE, "did you mean gaptop --version? A host"),
        (
            ["top"],
            Exit.USAGE,
            "no command is called 'top'; gaptop --help tells them. A host is named as http://top:PORT",
        ),
        (["65535", "--once"], Exit.NOTHING_TO_OBSERVE, "or its URL (if it is a port: http://127.0.0.1:65535)."),
        (["4294967296", "--once"], Exit.NOTHING_TO_OBSERVE, "give the pid of a running server, or its URL."),
        ([DOWN, "--once"], Exit.NOTHING_TO_OBSERVE, "has nothing listening, so there is nothing to watch; start the"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_it_is_told_in_a_sentence(
    arguments: list[str],
    code: Exit,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("hello\n")
    Path("long").write_text("x" * 20_000)
    Path("umlaut").write_text("h\xfcnter\n", encoding="utf-8")
    os.mkfifo("pipe")
    ended, said = run(arguments, monkeypatch, capsys)
    assert ended == code, said
    assert says in said


@pytest.mark.parametrize(
    ("name", "says"),
    [(".", "it is a folder, so"), ("pipe", "gaptop open - <pipe"), ("missing", "there is no such file;")],
)
def test_the_screen_opens_files_only(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    ended, said = run(["open", name], monkeypatch, capsys)
    assert ended == Exit.UNREADABLE
    assert says in said


@pytest.fixture
def strange() -> Iterator[str]:
    """Answers as its path says: a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = int(self.path.split("/")[1])
            if status == 0:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

        def handle_error(self) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *arguments: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (500, "answers with HTTP 500, but not as an engine"),
        (429, "answers with HTTP 429, but not as an engine"),
        (404, "answers, but not as an engine"),
        (503, "is still loading its model, so there is nothing to see yet; wait until it has."),
        (401, "wants credentials (HTTP 401), so nothing of it can be read; pass them with"),
        (302, "redirects to another place, which is not followed; give gaptop the server's own address."),
        (0, "breaks the connection without an answer; if it serves TLS, use https://."),
    ],
)
def test_a_server_that_is_no_engine(
    strange: str, status: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, said = run([f"{strange}/{status}", "--once"], monkeypatch, capsys)
    assert ended == Exit.NOTHING_TO_OBSERVE
    assert f"gaptop: {strange}/{status} {says}" in said


@pytest.mark.parametrize("text", ["Authorization: Bearer c2VjcmV0dG9rZW4=", "Authorization: Bearer c2VjcmV0"])
def test_a_secret_in_the_form_that_curl_takes_is_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, said = run(["--header", text, "--once", DOWN], monkeypatch, capsys)
    assert ended == Exit.USAGE
    assert "what begins with 'Authorization' names no header" in said
    assert "c2Vj" not in said
