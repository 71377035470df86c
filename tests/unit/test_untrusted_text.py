"""What a server, a file or another user's command line says never steers the terminal, whichever way it is shown."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.cli import main as cli_main
from gaptop.cli.exits import Exit, Stop, show, tell
from gaptop.cli.output import print_report
from gaptop.probe.translate import Translator
from gaptop.recording.lines import Header, Line, Tick, decode, encode
from gaptop.recording.printable import printable, printable_lines
from gaptop.recording.reader import OpenError, open_stream
from gaptop.timeline.timeline import Timeline
from gaptop.tui.glyphs import ASCII, UNICODE
from gaptop.tui.panels import header
from gaptop.tui.scene import Scene
from gaptop.tui.view import View
from gaptop.valleys import report, report_text
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop_collectors.engines import address
from gaptop_collectors.engines.vllm import VllmEngine
from gaptop_collectors.target import HttpOptions, Server
from tests.fakes.endpoint import Site

EVIL = 'a"b\\c\n[bold red]d[/]\x1b]0;pwned\x07\x9b2J\x7f\u202e\u200be'
"""Quotes, a newline, markup, escape sequences of 7 and 8 bits, delete, a direction mark, a character of no width."""
OBEYED = "\n\x1b\x07\x9b\x7f\u202e\u200b"


def assert_safe(text: str) -> None:
    assert not set(text) & set(OBEYED)
    assert text.isprintable()


@given(st.text())
def test_the_two_cleaning_functions_have_one_meaning(text: str) -> None:
    if "://" not in text:
        assert address.printable(text, 10_000) == printable(text)
    assert_safe(printable(text))
    assert printable(printable(text)) == printable(text)
    assert printable_lines(text).count("\n") == text.count("\n")


def test_what_is_safe_stays_and_the_rest_is_seen() -> None:
    assert printable("Qwen/Qwen3-8B (模型) [bold] é") == "Qwen/Qwen3-8B (模型) [bold] é"
    assert printable("a\x1b[2J\tb\xa0c\x7f\x9b\u202e\udc80") == "a␛[2J␉b c␡\ufffd\ufffd\ufffd"


def test_errors_and_sentences_are_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    Stop(f"two found:\n  {EVIL}", Exit.USAGE).show()
    tell(EVIL.replace("\n", ""))
    show(click.BadParameter(EVIL))
    assert_safe(capsys.readouterr().err.replace("\n", ""))


@pytest.mark.parametrize("arguments", [["--x\x1b]0;pwned\x07"], ["record", "--for", "\x1b[2J"], ["\x9b2J://h"]])
def test_usage_errors_are_cleaned(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gaptop", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli_main.main()
    assert ended.value.code == Exit.USAGE
    said = capsys.readouterr().err
    assert_safe(said.replace("\n", ""))
    assert "Error: " in said


def test_a_header_of_another_version_cannot_write_to_the_terminal() -> None:
    raw = json.dumps({"k": "header", "format": "gaptop", "version": [9, 0], "gaptop": EVIL}) + "\n"
    with pytest.raises(OpenError, match="newer gaptop") as refused:
        open_stream(io.BytesIO(raw.encode()))
    assert_safe(str(refused.value))


def test_a_stream_is_ascii_and_keeps_every_character() -> None:
    line = Header("gaptop", (1, 0), EVIL + "é\udc80", "2026-01-31T00:00:00Z", 0)
    raw = encode(line)
    assert raw.isascii()
    assert not set(raw.decode().rstrip("\n")) & set(OBEYED)
    assert decode(raw) == line


@pytest.fixture(scope="module")
def watched() -> tuple[Timeline, Assessment]:
    """A vLLM whose metrics name its model so, through the collector, the probe's translation and the stream."""
    label = EVIL.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    metrics = "".join(
        f'{name}{{engine="0",model_name="{label}"}} 1\n'
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:generation_tokens_total")
    )
    metrics += f'vllm:num_requests_waiting_by_reason{{engine="0",reason="{label}"}} 1\n'
    with Site({"/metrics": metrics}) as site:
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        messages = engine.open()
        engine.close()
    translator = Translator(0)
    lines: list[Line] = [Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0)]
    lines += [line for message in messages for line in translator.translate(message, 10**9)]
    timeline = Timeline()
    analyst = Analyst(timeline)
    for line in [*lines, Tick(1.0), Tick(2.0)]:
        again = decode(encode(line))
        assert again is not None
        timeline.apply(again)
        analyst.apply(again)
    return timeline, analyst.finish()


def named(built: dict[str, Any]) -> str:
    return str(built["source"]["servers"][0]["model"])


def test_the_report_as_json(watched: tuple[Timeline, Assessment], capsys: pytest.CaptureFixture[str]) -> None:
    built = report.build(*watched, window=None)
    assert "[bold red]d[/]" in named(built)
    built["source"]["servers"][0]["model"] = EVIL  # as a recording of somebody else may have it
    for ascii_only in (False, True):
        print_report(built, as_json=True, ascii_only=ascii_only)
        said = capsys.readouterr().out
        assert said.isascii()
        assert_safe(said.replace("\n", ""))
        assert named(json.loads(said)) == EVIL


def test_the_report_as_text(watched: tuple[Timeline, Assessment]) -> None:
    built = report.build(*watched, window=None)
    built["source"]["servers"][0]["model"] = EVIL
    for ascii_only in (False, True):
        text = report_text.render(built, ascii=ascii_only, width=100)
        assert_safe(text.replace("\n", ""))
        assert "[bold red]d[/]" in text, "shown as it is, not as markup"
        (line,) = [line for line in text.splitlines() if "[bold red]" in line]
        assert line.startswith("server"), "a newline in a name begins no line"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_header_of_the_screen(watched: tuple[Timeline, Assessment], glyphs: Any) -> None:
    timeline, assessment = watched
    view = View(level=0, columns=80, right=0, following=True)
    scene = Scene(timeline, timeline.sources, assessment, view, 2.0, None, None, False, glyphs, None, None)
    pieces = header.first_line(scene, 200, live=True, ended=EVIL, busy=False)
    text = "".join(piece for piece, _ in pieces)
    assert_safe(text)
    assert "[bold red]d[/]" in text


def test_doctor_and_the_log(tmp_path: Path) -> None:
    from gaptop.cli import doctor

    log = tmp_path / "log"
    log.write_text(f"{EVIL}\n", errors="replace")
    source = {"source": EVIL, "collector": "c", "state": "ok", "says": EVIL}
    findings = {
        "gaptop": "0",
        "python": "3",
        "system": "s",
        "cores": 1,
        "user": "u",
        "libraries": {},
        "stacks": EVIL,
        "terminal": {"TERM": "xterm", "encoding": "utf-8"},
        "paths": {"log": str(log), "no_log": None, "own_stack_rules": EVIL, "own_stack_rules_says": EVIL},
        "config": {"path": EVIL, "exists": True, "wrong": [EVIL]},
        "servers": [{"url": "http://h", "engine": "vllm", "version": None, "model": EVIL}],
        "server_says": EVIL,
        "sources": [source],
    }
    assert_safe(doctor._text(findings, with_log=True).replace("\n", ""))
