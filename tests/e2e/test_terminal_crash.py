"""A screen that breaks in a real terminal: the ring is kept, one sentence tells it, and the terminal is as before."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gaptop.lab.launch import LabInfo
from gaptop.recording.lines import Batch, Tick
from gaptop.recording.reader import open_stream
from tests.e2e import breaking
from tests.e2e.processes import family
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

pytestmark = needs_tmux
BREAKS = f"{sys.executable} {breaking.__file__}"


def told_and_restored(terminal: Terminal) -> str:
    """The sentence that stands on the terminal, in one line, once gaptop has ended with the code of a bug."""
    shown = terminal.until("code=70", seconds=40)
    assert terminal.ask("alternate_on") == "0"
    assert terminal.ask("cursor_flag") == "1"
    assert terminal.ask("mouse_any_flag") == "0"
    assert family(terminal.shell) == []
    assert "Traceback" not in shown
    terminal.type("clear; stty -a")
    assert not re.search(r"-(echo|icanon|isig|opost)\b", terminal.until("icanon"))
    return "".join(shown.split())


@pytest.mark.parametrize("where", ["render", "line", "input", "thread"])
def test_what_was_watched_is_kept_and_can_be_opened(tmp_path: Path, where: str) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{BREAKS} {where} now demo steady; echo code=$?")
        terminal.until("LIVE", "● metrics", "20 run", seconds=40)
        time.sleep(2)
        (tmp_path / "now").touch()
        terminal.press("x")
        told = told_and_restored(terminal)
    [kept] = tmp_path.glob("*.gaptop")
    assert "thisisabugingaptop(ZeroDivisionError:madefor␛[31matest)" in told
    assert f"atmostthelasthour,iskept:gaptopopen{kept}showsit" in told
    assert kept.stat().st_mode & 0o777 == 0o600
    log = (tmp_path / "state" / "gaptop" / "gaptop.log").read_text()
    assert "ZeroDivisionError: made for" in log
    assert "breaking.py" in log, "the traceback is there"
    stream = open_stream(kept)
    lines = list(stream)
    assert stream.says == ""
    ticks = [line.t for line in lines if isinstance(line, Tick)]
    assert ticks[0] < 1
    assert ticks[-1] > 2
    assert {line.src.partition("/")[0] for line in lines if isinstance(line, Batch)} >= {"feed", "metrics"}
    done = subprocess.run([GAPTOP, "report", kept, "--json"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["source"]["servers"][0]["engine"] == "vllm"
    assert report["window"]["seconds"] > 2


def test_what_came_through_a_pipe_is_kept(tmp_path: Path, steady_lab: LabInfo) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} record -o - {steady_lab.url} | {BREAKS} frame now open -; echo code=$?")
        terminal.until("LIVE", "20 run", seconds=40)
        (tmp_path / "now").touch()
        told = told_and_restored(terminal)
    [kept] = tmp_path.glob("*.gaptop")
    assert f"iskept:gaptopopen{kept}showsit" in told
    assert any(isinstance(line, Batch) for line in open_stream(kept))


def test_a_recording_that_breaks_the_screen_is_left_as_it_was(tmp_path: Path) -> None:
    made = subprocess.run([GAPTOP, "lab", "run", "steady", "-o", "run.gaptop"], cwd=tmp_path, timeout=60)
    assert made.returncode == 0
    before = (tmp_path / "run.gaptop").read_bytes()
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{BREAKS} key run.gaptop open run.gaptop; echo code=$?")
        terminal.until("q quit", "LEDGER", seconds=30)
        terminal.press("v")
        told = told_and_restored(terminal)
    assert "therecordingrun.gaptopisasitwas(senditwiththereport)" in told
    assert [path.name for path in tmp_path.glob("*.gaptop")] == ["run.gaptop"]
    assert (tmp_path / "run.gaptop").read_bytes() == before
