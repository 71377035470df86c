"""A simulated server that runs on this host is no server to find: that it is left out is told, and how to watch it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gaptop.lab.launch import LabInfo
from tests.e2e.terminal import GAPTOP


@pytest.mark.parametrize("arguments", [["--for", "1s"], ["doctor"], ["record", "-o", "x.gaptop", "--for", "1s"]])
def test_it_is_told_in_one_line(arguments: list[str], steady_lab: LabInfo, tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [GAPTOP, *arguments], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    [says] = [line for line in (done.stderr + done.stdout).splitlines() if steady_lab.url in line]
    assert "left out" in says
    assert "no real one" in says
    assert f"gaptop {steady_lab.url}" in says


def test_nothing_is_told_where_a_server_is_named(steady_lab: LabInfo, tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [GAPTOP, steady_lab.url, "--for", "1s"], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert "left out" not in done.stderr
