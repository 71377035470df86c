"""Commands without a screen, from start to exit code: nothing to watch, too much to watch, interrupted, findings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gaptop.lab.launch import Lab
from tests.e2e.conftest import FakeServer
from tests.e2e.processes import family, wait_for, with_words
from tests.e2e.terminal import GAPTOP

ALONE = ("unshare", "--pid", "--fork", "--mount-proc", "--net", "--map-root-user")
"""Its own process table and network, so that servers of this host are not found."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.parametrize("arguments", [[], ["--once", "--json"], ["record", "-o", "never.gaptop"]])
def test_no_server_is_one_sentence(tmp_path: Path, environ: dict[str, str], arguments: list[str]) -> None:
    if shutil.which("unshare") is None or subprocess.run([*ALONE, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare cannot make a process table of its own here, so another server might be found")
    done = subprocess.run(
        [*ALONE, GAPTOP, *arguments], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "no LLM server found on this host" in done.stderr
    assert "gaptop demo" in done.stderr
    assert not (tmp_path / "never.gaptop").exists()


def test_all_servers_of_the_host_are_listed_and_watched(
    environ: dict[str, str], fake_server: Callable[[], FakeServer]
) -> None:
    servers = fake_server(), fake_server()
    done = subprocess.run([GAPTOP, "--for", "4s", "--json"], env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "servers found on this host, and all are watched" in done.stderr
    watched = {server["url"]: server["pids"] for server in json.loads(done.stdout)["source"]["servers"]}
    for server in servers:
        assert f"{server.url}  vLLM 0.32.0  tiny  pid {server.process.pid}\n" in done.stderr
        assert watched[server.url] == [server.process.pid]


def test_ctrl_c_prints_what_there_is(environ: dict[str, str], fake_server: Callable[[], FakeServer]) -> None:
    command = [GAPTOP, "--for", "60s", "--json", "--fail-on", "no_demand", fake_server().url]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as watching:
        wait_for(lambda: with_words(family(watching.pid), "gaptop.probe"), "the probe runs")
        time.sleep(4)
        running = family(watching.pid)
        watching.send_signal(signal.SIGINT)
        said, errors = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert errors == ""
    report = json.loads(said)
    assert report["source"]["servers"][0]["model"] == "tiny"
    assert 0.5 < report["window"]["seconds"] < 30
    assert not [process for process in running if Path(f"/proc/{process.pid}").exists()]


def test_ctrl_c_before_anything_was_seen(environ: dict[str, str], fake_server: Callable[[], FakeServer]) -> None:
    server = fake_server()
    server.process.send_signal(signal.SIGSTOP)
    with subprocess.Popen([GAPTOP, "--once", server.url], env=environ, stderr=subprocess.PIPE, text=True) as watching:
        time.sleep(0.6)
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert "Traceback" not in errors


def test_each_valley_is_one_line_and_findings_are_the_exit_code(environ: dict[str, str]) -> None:
    pipe = subprocess.PIPE
    with Lab() as lab:
        # The lab's device is not seen by its URL, and its processes' cores are not what it computes on.
        command = [GAPTOP, "--stream", "--no-host", lab.start("no_demand").url]
        # A second one beside it, whose reader has seen enough after one valley.
        with (
            subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as cut,
            subprocess.Popen(
                [*command, "--for", "20s", "--fail-on", "no_demand"], env=environ, stdout=pipe, stderr=pipe, text=True
            ) as whole,
        ):
            assert cut.stdout is not None
            assert cut.stderr is not None
            assert json.loads(cut.stdout.readline())["cause"] == "no_demand"
            running = family(cut.pid)
            cut.stdout.close()
            assert cut.stderr.read() == ""
            said, errors = whole.communicate(timeout=40)
    assert cut.returncode == 0
    assert not [process for process in running if Path(f"/proc/{process.pid}").exists()]
    assert errors == ""
    valleys = [json.loads(line) for line in said.splitlines()]
    assert len(valleys) >= 2
    assert len({valley["id"] for valley in valleys}) == len(valleys)
    assert all(valley["final"] for valley in valleys[:-1])
    assert all(valley["final"] == (valley["end_s"] is not None) for valley in valleys), "the last one may be open"
    assert {valley["cause"] for valley in valleys} == {"no_demand"}
    assert whole.returncode == 1
