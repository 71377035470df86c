"""What decides the exit code of --fail-on."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from gaptop.cli.exits import Exit
from gaptop.cli.live import live
from gaptop.cli.output import exit_code
from gaptop.cli.report import report


def found(confidence: str, cause: str = "compiling", *, end: float | None = 2.0) -> dict[str, Any]:
    return {"valleys": [{"cause": cause, "confidence": confidence, "end_s": end, "final": end is not None}]}


@pytest.mark.parametrize(("confidence", "code"), [("high", 1), ("medium", 1), ("low", 0)])
def test_a_guess_is_no_finding(confidence: str, code: int) -> None:
    assert exit_code(found(confidence), ("no_demand", "compiling")) == code
    assert exit_code(found(confidence), ("no_demand",)) == Exit.FINE
    assert exit_code(found(confidence), None) == Exit.FINE


def test_a_valley_that_is_still_open_is_a_finding() -> None:
    assert exit_code(found("high", end=None), ("compiling",)) == Exit.FINDINGS


@pytest.mark.parametrize("command", [live, report])
def test_the_help_says_so(command: Any) -> None:
    said = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "with medium or high confidence" in said
