"""Usage errors and help name the command as people type it, and each end has its documented exit code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gaptop.cli import main as cli_main
from gaptop.cli.exits import Exit
from gaptop.cli.main import cli

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize(
    ("arguments", "usage", "help_of"),
    [
        (["--nonsense"], "Usage: gaptop [OPTIONS] [URL|PID]", "gaptop"),
        (["--for", "1y"], "Usage: gaptop [OPTIONS] [URL|PID]", "gaptop"),
        (["--header", "Cookie=x"], "Usage: gaptop [OPTIONS] [URL|PID]", "gaptop"),
        (["record", "--nonsense"], "Usage: gaptop record [OPTIONS] [URL|PID]", "gaptop record"),
    ],
)
def test_usage_is_told_without_the_hidden_command(
    arguments: list[str],
    usage: str,
    help_of: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["gaptop", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli_main.main()
    assert ended.value.code == Exit.USAGE
    said = capsys.readouterr().err
    assert usage in said
    assert f"Try '{help_of} --help' for help." in said
    assert "live" not in said


def test_help_and_readme_give_the_same_exit_codes() -> None:
    help_text = " ".join(CliRunner().invoke(cli, ["--help"]).output.split())
    readme = " ".join(README.read_text().split())
    codes = re.search(r"Exit codes: ([^.]*(?:--fail-on[^.]*)?)\.", help_text)
    assert codes is not None
    assert codes[1].replace("`", "") in readme.replace("`", "")
    for code in Exit:
        assert re.search(rf"\b{int(code)}\b", codes[1])
    assert "4 file not readable or not writable" in codes[1]
