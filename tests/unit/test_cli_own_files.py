"""``gaptop doctor`` names the user's own files that are in force, and what is left out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gaptop.cli import doctor

RULE = '[[rule]]\nactivity = "gc"\nframes = ["a.py: crunch"]\n'
BROKEN = RULE + '\n[[rule]]\nactivity = "dreaming"\nframes = ["a.py: crunch"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """gaptop's configuration folder, which is there and empty."""
    monkeypatch.setattr(doctor, "_LOOK_SECONDS", 0.2)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "gaptop"
    folder.mkdir(parents=True)
    return folder


def told(*arguments: str) -> tuple[dict[str, Any], str]:
    """What doctor finds, and its text."""
    result = CliRunner().invoke(doctor.doctor, ["--no-gpu", "--no-host", "--json", *arguments, "http://127.0.0.1:9"])
    assert result.exit_code in (0, 3), result.output
    findings = json.loads(result.stdout)
    return findings, doctor._text(findings, with_log=False)


def test_a_file_that_is_not_there_is_named_with_what_that_means(folder: Path) -> None:
    findings, text = told()
    assert findings["config"] == {"path": str(folder / "config.toml"), "exists": False, "wrong": []}
    assert f"config     {folder}/config.toml: not there, so every setting is as usual; gaptop config --default" in text
    assert "activities" not in text


def test_what_is_wrong_in_the_file_is_told_in_the_words_of_every_command(folder: Path) -> None:
    (folder / "config.toml").write_text('theme = "nord"\nsymbols = "runes"\ncolor = 3\n')
    findings, text = told()
    assert findings["config"]["exists"] is True
    first, second = findings["config"]["wrong"]
    assert first.startswith(f"{folder}/config.toml:2: symbols cannot be")
    assert second.startswith(f"{folder}/config.toml:3: color is no setting")
    assert first.endswith("It is left out.")
    assert f"config     {folder}/config.toml\n           {folder}/config.toml:2: symbols cannot be" in text
    assert f"           {second}" in text


def test_the_file_that_was_named_is_the_one_in_force(folder: Path, tmp_path: Path) -> None:
    (folder / "config.toml").write_text('symbols = "runes"\n')
    own = tmp_path / "own.toml"
    own.write_text('theme = "nord"\n')
    findings, text = told("--config", str(own))
    assert findings["config"] == {"path": str(own), "exists": True, "wrong": []}
    assert f"config     {own}\n" in text


def test_own_rules_for_stacks_are_named_with_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    (folder / "activities.toml").write_text(BROKEN)
    findings, text = told()
    assert findings["paths"]["own_stack_rules"] == str(folder / "activities.toml")
    assert "line 5" in findings["paths"]["own_stack_rules_says"]
    assert f"activities {folder}/activities.toml\n           {findings['paths']['own_stack_rules_says']}" in text
    other = tmp_path / "other.toml"
    other.write_text(RULE)
    (folder / "config.toml").write_text(f'activities = "{other}"\n')
    findings, text = told()
    assert findings["paths"]["own_stack_rules"] == str(other), "the one that the configuration names"
    assert findings["paths"]["own_stack_rules_says"] is None


def test_a_user_without_a_home_is_told_what_to_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings, _ = told()
    findings["config"] = {"path": None, "exists": False, "wrong": []}
    assert "config     none: this user has no home folder; name a file with --config" in doctor._text(
        findings, with_log=False
    )
