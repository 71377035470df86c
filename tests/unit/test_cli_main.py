"""How the command line ends: words that are no commands, outputs that cannot be written, and bugs of our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from gaptop.cli.exits import Exit
from gaptop.cli.main import cli, main

TOUR = Path(__file__).parent.parent / "data" / "lab" / "tour.gaptop"


@pytest.mark.parametrize(
    ("typed", "meant"), [("rcord", "gaptop record"), ("demos", "gaptop demo"), ("xyzzy", "http://")]
)
def test_a_mistyped_command_is_no_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["gaptop", typed])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == Exit.USAGE
    assert meant in capsys.readouterr().err


def test_output_that_cannot_be_written_is_a_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gaptop", "report", str(TOUR)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == Exit.UNWRITABLE
    assert done.stderr.count("\n") == 1
    assert "cannot write the output" in done.stderr


def test_a_closed_output_is_no_bug() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m gaptop report "$1" >&-', sys.executable, str(TOUR)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (Exit.FINE, "")


def test_a_bug_is_a_sentence_and_has_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(**options: object) -> None:
        raise RuntimeError("\x1b[31mred")

    monkeypatch.setattr(cli, "main", breaks)
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == Exit.BROKEN
    assert "bug in gaptop (RuntimeError" in told
    assert "\x1b" not in told


def test_the_help_tells_of_each_command_what_it_tells_of_itself() -> None:
    ctx = click.Context(cli, info_name="gaptop")
    lines = cli.get_help(ctx).partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    told = dict(line.split(None, 1) for line in lines)
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        assert command is not None
        assert told[name] == command.get_short_help_str(100)
