"""gaptop works without a folder of its own, and says what it does without; its log is private and has no secrets."""

from __future__ import annotations

import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gaptop.cli import doctor, paths
from gaptop.cli.target import Target, probe_config
from gaptop.recording.lines import Header, Tick, encode
from gaptop.recording.spool import Spool


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """What a test adds to the root logger is taken away again."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield root
    for handler in set(root.handlers) - set(before):
        handler.close()
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(params=["no such place", "a file in the way", "no home"])
def homeless(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if request.param == "no such place":
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/x")
    elif request.param == "a file in the way":
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.delenv("HOME", raising=False)
        # A user whom the system does not know: the tilde stays.
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)


@pytest.mark.usefixtures("homeless")
def test_without_a_folder_there_is_no_log_and_a_reason(tmp_path: Path) -> None:
    assert paths.start_log() is None
    assert paths.log_path() is None
    assert "XDG_STATE_HOME" in paths.no_log()
    assert probe_config(Target(), ())["log"] is None
    assert probe_config(Target(), ())["state"] is None  # never the temporary folder, which is everybody's
    assert paths.activities_file() is None
    assert not (tmp_path / "~").exists()


@pytest.mark.usefixtures("homeless")
def test_without_a_folder_a_snapshot_can_still_be_cut() -> None:
    assert paths.state_dir() == Path(tempfile.gettempdir())
    spool = Spool(paths.state_dir())
    for line in (Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0), Tick(1.0)):
        spool.write(encode(line))
    assert spool.says == ""
    assert len(list(spool.lines(0.0, 2.0))) == 2
    spool.close()


def test_what_the_probe_learns_is_kept_in_the_users_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert probe_config(Target(), ())["state"] == str(tmp_path / "gaptop")


def test_without_any_folder_the_screen_says_that_nothing_can_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setenv("XDG_STATE_HOME", "/proc/x")
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    spool = Spool(paths.state_dir() / "not" / "there")
    spool.write(encode(Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0)))
    assert spool.says.startswith("nothing can be saved")


@pytest.mark.usefixtures("homeless")
def test_doctor_says_that_there_is_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LOOK_SECONDS", 0.5)
    result = CliRunner().invoke(doctor.doctor, ["--no-gpu", "--no-host", "--json", "http://127.0.0.1:9"])
    assert result.exit_code in (0, 3)
    told = json.loads(result.stdout)["paths"]
    assert told["log"] is None
    assert "XDG_STATE_HOME" in told["no_log"]
    assert "log        none: " in doctor._text(json.loads(result.stdout), with_log=True)


def test_doctor_names_each_gpu_as_people_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LOOK_SECONDS", 0.5)
    result = CliRunner().invoke(doctor.doctor, ["--no-gpu", "--no-host", "--json", "http://127.0.0.1:9"])
    findings = json.loads(result.stdout)
    seen = {"collector": "devices.nvml", "state": "ok", "says": ""}
    findings["sources"] = [{"source": f"nvml/{uuid}", **seen} for uuid in ("GPU-1", "MIG-2")]
    facts: dict[str, object] = {"own_calls": None, "missing": [], "index": 1, "name": "NVIDIA H100\x1b[2J"}
    findings["devices"] = [
        {"source": "nvml/GPU-1", "slice": None, **facts},
        {"source": "nvml/MIG-2", "slice": "1g.10gb", **facts, "name": "NVIDIA H100"},
    ]
    cut = {**findings["devices"][1], "source": "nvml/MIG-3", "name": "NVIDIA A100 MIG 1g.10gb"}
    findings["devices"].append(cut)
    findings["sources"].append({"source": "nvml/MIG-3", **seen})
    text = doctor._text(findings, with_log=False)
    assert "  ok  nvml/MIG-3 (#1 NVIDIA A100 MIG 1g.10gb): ok" in text
    assert "  ok  nvml/GPU-1 (#1 NVIDIA H100" in text
    assert "\x1b" not in text
    assert "  ok  nvml/MIG-2 (#1 NVIDIA H100 1g.10gb): ok" in text


def test_a_log_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = paths.log_path()
    assert log is not None
    assert paths.no_log() == ""
    log.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: path != log)
    assert paths.log_path() is None
    assert str(log) in paths.no_log()


def test_the_log_is_for_its_owner_and_has_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root_logger: logging.Logger
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = paths.log_path()
    assert log is not None
    log.touch(mode=0o644)
    assert paths.start_log() == log
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    try:
        raise ValueError("http://me:hunter2@host: Cookie: sid=hunter2")
    except ValueError:
        root_logger.exception("asked with --api-key %s\x1b[2J", "hunter2")
    written = log.read_text()
    assert "asked with --api-key ***" in written
    assert "Traceback" in written
    assert "hunter2" not in written
    assert "\x1b" not in written
