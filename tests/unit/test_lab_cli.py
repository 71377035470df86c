"""``gaptop lab`` for people: the list of its commands, how far long work has come, a case in words."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from gaptop.cli import progress
from gaptop.cli.lab_score import score
from gaptop.cli.main import cli
from gaptop.cli.progress import Progress, duration
from gaptop.lab.score.explain import WIDTH

from .test_lab_score_cases import QUICK


def test_alone_it_lists_its_commands_and_is_no_error() -> None:
    shown = CliRunner().invoke(cli, ["lab"])
    assert shown.exit_code == 0
    assert "Error" not in shown.output
    commands = shown.output.partition("Commands:")[2]
    assert [line.split()[0] for line in commands.splitlines() if line.strip()] == ["run", "compare", "score"]


class Terminal:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, looks_on: bool) -> None:
        self.now = 0.0
        self.said: list[str] = []
        monkeypatch.setattr(sys.stderr, "isatty", lambda: looks_on, raising=False)
        monkeypatch.setattr("click.echo", lambda text, **_: self.said.append(text))

    def work(self) -> None:
        line = Progress(100, lambda part: f"{part:.0f} of 100 cases", clock=lambda: self.now)
        for seconds, done in ((0.1, 1), (10.0, 20), (10.2, 21), (30.0, 60)):
            self.now = seconds
            line.done(done)
        line.close()


def test_progress_says_how_much_is_done_and_how_long_the_rest_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, looks_on=True)
    terminal.work()
    clear = progress.CLEAR
    assert terminal.said == [
        f"{clear}20 of 100 cases, about 40 s to go",
        f"{clear}60 of 100 cases, about 20 s to go",
        clear,
    ]


def test_a_log_file_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, looks_on=False)
    terminal.work()
    assert terminal.said == []


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (99.4, "99 s"), (150.0, "2 min"), (5000.0, "83 min"), (9000.0, "2.5 h")]
)
def test_estimates_are_round(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_case_is_explained_in_words() -> None:
    lines = CliRunner().invoke(score, ["--explain", str(QUICK)]).output.splitlines()
    assert lines[0].startswith(f"Case {QUICK}, ")
    assert lines[1].startswith("Server: ")
    text = "\n".join(lines)
    for head in (
        "Conditions (seconds of the stream):",
        "Seen through:",
        "True valleys (! must be seen)",
        "Reported valleys",
        "Ledger: ",
    ):
        assert head in text
    assert "      seen: " in text
    assert "View(" not in text
    assert max(map(len, lines)) <= WIDTH
