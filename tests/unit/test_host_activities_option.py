"""A user's own rules: named on the command line or lying in the configuration folder, also for old recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from gaptop.cli.ending import Ending
from gaptop.cli.feeds import StreamFeed
from gaptop.cli.main import cli
from gaptop.cli.noticed import Noticed
from gaptop.cli.own_rules import rules
from gaptop.cli.paths import activities_file
from gaptop.cli.probe_lines import LiveLines
from gaptop.cli.session import watch
from gaptop.recording.lines import encode
from gaptop.tui.session import Session
from gaptop.valleys.report import build
from gaptop_collectors.host.activities import load_activities

from .valley_streams import ENGINE, Stream

RULE = '[[rule]]\nactivity = "gc"\nframes = ["a.py: crunch"]\n'
BROKEN = RULE + '\n[[rule]]\nactivity = "dreaming"\nframes = ["a.py: crunch"]\n'


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine in code that gaptop's rules do not know; the configuration folder is empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "old.gaptop"
    lines = Stream(4).stacks(ENGINE, "engine", lambda t: "crunch").lines()
    path.write_bytes(b"".join(encode(line) for line in lines))
    return path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def coverage(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["coverage"]


def test_an_old_recording_is_read_with_new_rules(recording: Path, tmp_path: Path) -> None:
    before = coverage(run("report", str(recording), "--json"))
    assert before["matched_ratio"] == 0.0
    assert before["unmatched"][0]["function"] == "crunch"
    own = tmp_path / "mine.toml"
    own.write_text(RULE)
    after = coverage(run("report", str(recording), "--json", "--activities", str(own)))
    assert (after["matched_ratio"], after["unmatched"]) == (1.0, [])


def test_open_and_the_variable_know_them_too(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(RULE)
    assert "rules name 0%" in run("open", str(recording)).stdout
    assert "rules name 100%" in run("open", str(recording), "--activities", str(own)).stdout
    monkeypatch.setenv("GAPTOP_ACTIVITIES", str(own))
    assert "rules name 100%" in run("open", str(recording)).stdout


def test_the_file_in_the_configuration_folder_is_found(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "gaptop"
    folder.mkdir(parents=True)
    (folder / "activities.toml").write_text(RULE)
    assert activities_file() == folder / "activities.toml"
    assert coverage(run("report", str(recording), "--json"))["matched_ratio"] == 1.0
    other = tmp_path / "other.toml"
    other.write_text("")
    assert coverage(run("report", str(recording), "--json", "--activities", str(other)))["matched_ratio"] == 0.0


DAMAGED = [
    (BROKEN, "line 5: activity 'dreaming' is not known; use one of schedule, "),
    ("[[rule]]\nactivity = ", "line 2"),
    (b"[[rule]]\n\xff", "line 2: this is no UTF-8 text; save the file as UTF-8."),
    (b" " * 1_000_001, "larger than a file of rules can be"),
]
DAMAGES = ["unknown activity", "no TOML", "no text", "too large"]


def put(path: Path, text: str | bytes | None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("text", "place"),
    [*DAMAGED, (None, "cannot be read (No such file or directory); correct the path")],
    ids=[*DAMAGES, "missing"],
)
@pytest.mark.parametrize("how", ["option", "variable"])
@pytest.mark.parametrize("command", [["report"], ["open"], ["export", "--as", "folded"]])
def test_a_damaged_file_that_was_named_is_refused_in_one_sentence(
    recording: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | bytes | None,
    place: str,
    how: str,
    command: list[str],
) -> None:
    own = put(tmp_path / "mine.toml", text)
    if how == "variable":
        monkeypatch.setenv("GAPTOP_ACTIVITIES", str(own))
    result = run(*command, str(recording), *(["--activities", str(own)] if how == "option" else []))
    assert result.exit_code == 2
    assert result.stdout == ""
    said = " ".join(result.stderr.split())
    assert said.startswith(f"gaptop: {own}")
    assert place in said
    assert said.endswith("Without --activities (or GAPTOP_ACTIVITIES) gaptop's own rules stand alone.")
    assert "--activities" in run(command[0], "--help").stdout, "help is given even so"


@pytest.mark.parametrize(("text", "place"), DAMAGED, ids=DAMAGES)
def test_a_damaged_file_in_the_configuration_folder_is_left_out_and_that_is_seen(
    recording: Path, tmp_path: Path, text: str | bytes, place: str
) -> None:
    own = put(tmp_path / "config/gaptop/activities.toml", text)
    result = run("report", str(recording), "--json")
    assert coverage(result)["matched_ratio"] == 0.0
    said = " ".join(result.stderr.split())
    assert said.startswith(f"gaptop: {own}")
    assert place in said
    assert said.endswith("Until then only gaptop's own rules name what threads do.")
    told = json.loads(result.stdout)
    health = next(row for row in told["health"] if row["source"] == "activities")
    assert health["state"] == "failing"
    assert f"gaptop: {health['says']}" == said
    assert "only gaptop's own rules name" in " ".join(run("report", str(recording)).stdout.split())


class Probe:
    """Stands in for LiveLines: a recording is what the probe says, and then it is interrupted."""

    def __init__(self, recording: Path, ending: Ending) -> None:
        self._raw, self._ending = recording.read_bytes().splitlines(keepends=True), ending

    def take(self, timeout: float) -> bytes | None:
        self._ending.wanted = len(self._raw) <= 1
        return self._raw.pop(0)

    def rest(self) -> list[bytes]:
        return []


def test_the_screen_and_a_live_report_are_told_too(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "config/gaptop/activities.toml", BROKEN)
    notice = rules().notice
    assert notice is not None
    feed = Noticed(StreamFeed(recording), notice)
    session = Session(feed, rules().classify)
    while session.ended is None:
        session.pump(1.0)
    assert notice in session.healths.values()
    assert session.timeline.header is not None
    with Ending() as ending:
        lines = cast(LiveLines, Probe(recording, ending))
        timeline, assessment = watch(lines, 60.0, rules(), ending, lambda timeline, assessment: None)
    assert notice.says in build(timeline, assessment, window=None)["hints"]
    feed.close()
    (tmp_path / "config/gaptop/activities.toml").write_text(RULE)
    assert rules().notice is None


def test_a_path_cannot_speak_to_the_terminal(recording: Path, tmp_path: Path) -> None:
    result = run("report", str(recording), "--activities", str(tmp_path / "\x1b[2Jx"))
    assert "\x1b" not in result.stderr
    assert "cannot be read" in result.stderr


def test_the_readmes_example_is_a_rule(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    own = tmp_path / "mine.toml"
    own.write_text(next(block for block in readme.split("```") if "[[rule]]" in block))
    assert load_activities(own).classify([("Loop.admit", "/srv/mypackage/loop.py", 1)]) == "schedule"


@pytest.mark.parametrize("command", [[], ["open"], ["report"], ["demo"]])
def test_the_option_stands_in_the_help(command: list[str]) -> None:
    assert "--activities FILE" in run(*command, "--help").stdout
