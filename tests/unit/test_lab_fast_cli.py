"""``gaptop lab run``: what it writes, and what it says when it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gaptop.cli.exits import Exit
from gaptop.cli.lab_run import run
from gaptop.cli.main import cli
from gaptop.cli.report import lines_of
from gaptop.lab.scenarios import SCENARIOS

from .lab_fast import sources


def test_it_lists_the_scenarios() -> None:
    done = CliRunner().invoke(run, ["--list"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(SCENARIOS)


def test_it_writes_the_view_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.gaptop"
    asked = ["--seconds", "9s", "--seed", "3", "--window", "0.5", "--dialect", "vllm-0.8", "--no-stacks", "--no-host"]
    done = CliRunner().invoke(run, ["steady", "-o", str(path), *asked, "--refresh", "40", "--gpm"])
    assert done.exit_code == 0, done.output
    assert f"{path}.truth.jsonl" in done.output
    truth = [json.loads(line) for line in (tmp_path / "run.gaptop.truth.jsonl").read_text().splitlines()]
    head = truth[0]
    assert (head["scenario"], head["seed"], head["seconds"]) == ("steady", 3, 9.0)
    assert head["view"]["refresh"] == ["steps", 40]
    assert {line["k"] for line in truth[1:]} <= {"idle", "stall", "slow"}
    found = sources(tuple(lines_of(path)))
    assert {name.partition("/")[0] for name in found} == {"nvml", "metrics", "proc"}
    server = found["metrics/http://127.0.0.1:8000"]
    assert (server.refresh, server.entity["version"]) == ("40 steps", "0.8.5")
    device = next(line for line in found.values() if line.kind == "device")
    assert (device.window, "device.sm_active" in device.signals) == (0.5, True)


@pytest.mark.parametrize("suffix", ["", ".truth.jsonl"])
def test_it_writes_over_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "run.gaptop"
    path.with_name(path.name + suffix).write_text("mine")
    done = CliRunner().invoke(run, ["steady", "-o", str(path), "--seconds", "1s"])
    assert done.exit_code == Exit.UNWRITABLE
    assert f"{path}{suffix} exists and is not overwritten" in done.output
    assert path.with_name(path.name + suffix).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope", "-o", "x"], "no scenario is called 'nope'"),
        (["steady"], "name a new file with -o FILE"),
        (["steady", "-o", "x", "--refresh", "soon"], "'soon' is not a duration"),
        (["steady", "-o", "-"], "are two files"),
        *(
            (["steady", "-o", "x", option, "nan"], "'nan' is no number")
            for option in ("--scrape", "--window", "--stacks")
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(words: list[str], says: str) -> None:
    done = CliRunner().invoke(run, words)
    assert done.exit_code == Exit.USAGE
    assert says in done.output


def test_what_was_broken_off_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(self: object) -> Iterator[str]:
        yield "a part"
        raise KeyboardInterrupt

    monkeypatch.setattr("gaptop.lab.fast.driver.Fast.told", told)
    done = CliRunner().invoke(run, ["steady", "-o", str(tmp_path / "a"), "--seconds", "1s"])
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_recording_and_truth_are_their_owners_alone(tmp_path: Path) -> None:
    assert CliRunner().invoke(run, ["steady", "-o", str(tmp_path / "a"), "--seconds", "1s"]).exit_code == 0
    assert {item.stat().st_mode & 0o777 for item in tmp_path.iterdir()} == {0o600}


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(run, ["steady", "-o", str(tmp_path / "no" / "run.gaptop"), "--seconds", "1s"])
    assert done.exit_code == Exit.UNWRITABLE
    assert "cannot write" in done.output


def test_it_is_a_command_of_gaptop(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["lab", "run", "steady", "-o", str(tmp_path / "a"), "--seconds", "1s"])
    assert done.exit_code == 0, done.output
