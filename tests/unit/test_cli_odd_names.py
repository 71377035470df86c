"""Whoever named a file may have put anything into its name: no message prints that as it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gaptop.cli import record
from gaptop.cli.exits import Sentences, Stop, tell
from gaptop.cli.main import main
from gaptop.recording.lines import Header, Tick, encode

ODD = "a\nb\x1b[31m\u202ec\udcff"
SHOWN = "a␊b␛[31m\ufffdc\ufffd"


def told(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Both streams of gaptop with these arguments, ended by itself."""
    monkeypatch.setattr(sys, "argv", ["gaptop", *arguments])
    with pytest.raises(SystemExit):
        main()
    read = capsys.readouterr()
    return read.out + read.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["open", ODD],
        ["report", ODD],
        ["report", "empty/" + ODD],
        ["report", "text/" + ODD],
        ["report", "good", ODD],
        ["export", "--as", "folded", ODD],
        ["export", "--as", "folded", "good/" + ODD],
        ["export", "--as", "folded", "good/" + ODD, "-o", "text/" + ODD],
        ["export", "--as", "perfetto", "good/" + ODD, "-o", "missing/" + ODD],
        ["export", "--as", "perfetto", "good/" + ODD, "-o", "new" + ODD],
        ["export", "--as", "folded", "--valley", "7", "good/" + ODD],
        ["web", "./" + ODD],
        ["web", "text/" + ODD],
        ["web", "--gil", "good/" + ODD],
        ["web", "good/" + ODD, "http://127.0.0.1:1"],
        ["--config", ODD, "--once"],
        ["--config", "text/" + ODD, "--once"],
        ["--config", "toml/" + ODD, "--once"],
        ["--activities", ODD, "--once"],
        ["--activities", "text/" + ODD, "--once"],
        ["--token-file", ODD, "--once"],
        ["--token-file", "two/" + ODD, "--once"],
        ["--header", f"X-A=@{ODD}", "--once"],
        ["--header", f"X-A=env:{ODD}", "--once"],
        ["record", "-o", "missing/" + ODD, "http://127.0.0.1:1"],
        ["lab", "run", "steady", "--seconds", "1s", "-o", "text/" + ODD],
        ["lab", "run", "steady", "--seconds", "1s", "-o", "missing/" + ODD],
        ["lab", "run", "steady", "--seconds", "1s", "-o", "new" + ODD],
        ["http://" + ODD, "--once"],
        [ODD, "--once"],
        ["demo", ODD],
        ["config", "--config", "good.toml/" + ODD],
        ["config", "--config", "good.toml/" + ODD, "--path"],
        ["stacks", ODD],
    ],
    ids=lambda arguments: " ".join(arguments).replace(ODD, "ODD"),
)
def test_a_name_stays_in_its_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "choose", lambda target: ())
    stream = encode(Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0)) + encode(Tick(1.0))
    files = {"empty": b"", "text": b"hello\n", "toml": b"thme = 1\n", "two": b"a\nb\n", "good": stream}
    for folder, content in {**files, "good.toml": b'theme = "nord"\n'}.items():
        Path(folder).mkdir()
        Path(folder, ODD).write_bytes(content)
    said = told(arguments, monkeypatch, capsys)
    assert "Traceback" not in said
    assert not set(said.replace("\n", "")) & set("\x1b\u202e\udcff")
    assert all(line != "b" and not line.startswith("b␛") for line in said.splitlines()), said
    assert SHOWN in said or repr(ODD)[1:-1] in said or "is no server" in said or "names no usable host" in said, said


def test_only_sentences_have_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tell("one\ntwo")
    tell(Sentences.of("one\ntwo", "three"))
    assert capsys.readouterr().err == "gaptop: one␊two\ngaptop: one␊two\nthree\n"
    assert Stop("one\ntwo", 3).format_message() == "one␊two"  # type: ignore[arg-type]
    assert Stop(Sentences.of("a", "b"), 3).format_message() == "a\nb"  # type: ignore[arg-type]
