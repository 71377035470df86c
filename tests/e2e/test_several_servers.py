"""Several live servers and one gaptop: each has its own verdicts and devices, and one that goes takes no other."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaptop.cli.demo import probe_config_of
from gaptop.cli.ending import Ending
from gaptop.cli.own_rules import rules
from gaptop.cli.probe_lines import LiveLines
from gaptop.cli.session import watch
from gaptop.lab.launch import Lab, LabInfo
from gaptop.recording.lines import Batch, Hole
from gaptop.recording.reader import OpenError, open_stream
from gaptop.valleys.report import build
from tests.e2e.conftest import FakeServer
from tests.e2e.processes import wait_for
from tests.e2e.terminal import GAPTOP, Terminal, needs_tmux

QUIET, LOADED = "no_demand", "steady"


@pytest.fixture
def labs() -> Iterator[tuple[LabInfo, LabInfo]]:
    """A llama-server that has bursts with silence between them, and a vLLM that always has something to do."""
    with Lab() as first, Lab() as second:
        yield first.start(QUIET, dialect="llamacpp"), second.start(LOADED)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


def report_of(*arguments: str | Path, environ: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run([GAPTOP, *arguments], env=environ, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def states(report: dict[str, Any], kind: str) -> dict[str, str]:
    """By what stands behind the slash in the ids of such sources."""
    parts = [(*item["source"].partition("/"), item["state"]) for item in report["health"]]
    return {name: state for word, slash, name, state in parts if word == kind and slash}


def named(info: LabInfo, copy: Path, stop: threading.Event) -> None:
    """A lab's feed as it is beside others: its device has a name of its own, and tells whose process is on it."""
    place, feed = 0, Path(info.feed)
    own = {"uuid": f"SIM-{info.scenario}", "pids": [info.processes[-1].pid]}
    while not stop.wait(0.05):
        whole = feed.read_bytes() if feed.exists() else b""
        new = whole[place : whole.rfind(b"\n") + 1]
        place += len(new)
        with copy.open("ab") as out:
            for line in new.splitlines():
                out.write(json.dumps({**json.loads(line), **own}).encode() + b"\n")


def test_each_of_two_servers_is_judged_by_its_own_requests_and_device(
    labs: tuple[LabInfo, LabInfo], tmp_path: Path
) -> None:
    quiet, loaded = labs
    configs = [probe_config_of(info) for info in labs]
    copies = [tmp_path / info.scenario for info in labs]
    stop = threading.Event()
    relays = [
        threading.Thread(target=named, args=(info, copy, stop), daemon=True)
        for info, copy in zip(labs, copies, strict=True)
    ]
    for relay in relays:
        relay.start()
    servers = [server for config in configs for server in config["servers"]]
    config = {**configs[0], "servers": servers, "feeds": [str(copy) for copy in copies]}
    with Ending() as ending, LiveLines(config) as lines:
        timeline, assessment = watch(lines, 28.0, rules(), ending, lambda timeline, assessment: None)
    stop.set()
    report = build(timeline, assessment, window=None)
    assert {item["url"]: item["engine"] for item in report["source"]["servers"]} == {
        quiet.url: "llamacpp",
        loaded.url: "vllm",
    }
    for valley in report["valleys"]:
        mine = quiet if valley["server"] == quiet.url else loaded
        assert valley["devices"] == [f"SIM-{mine.scenario}"]
    causes = {
        url: {item["cause"] for item in report["valleys"] if item["server"] == url} for url in (quiet.url, loaded.url)
    }
    assert "no_demand" in causes[quiet.url]
    assert "no_demand" not in causes[loaded.url]
    lost = {row["device"]: row for row in report["ledger"] if row["cause"] == "no_demand"}
    assert list(lost) == [f"SIM-{QUIET}"]


def test_one_report_tells_of_both_and_of_a_third_that_is_not_up_yet(
    labs: tuple[LabInfo, LabInfo], environ: dict[str, str]
) -> None:
    urls = [info.url for info in labs]
    command = [GAPTOP, "--once", "--json", "--no-gpu", urls[0], str(labs[1].processes[0].pid), urls[1], "127.0.0.1:9"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    twice, waiting = done.stderr.splitlines()
    assert f"{urls[1]}: this is one server that was named twice" in twice
    assert "http://127.0.0.1:9 has nothing listening" in waiting
    report = json.loads(done.stdout)
    assert {item["url"] for item in report["source"]["servers"]} == {*urls, "http://127.0.0.1:9"}
    assert states(report, "metrics") == {urls[0]: "ok", urls[1]: "ok", "http://127.0.0.1:9": "absent"}
    assert set(states(report, "process")) == set(urls)
    assert {item["uuid"] for item in report["source"]["devices"]} == {f"cpu/{url[7:]}" for url in urls}


def test_one_that_comes_up_later_is_then_read_with_its_processes(
    fake_server: Callable[[], FakeServer], environ: dict[str, str], tmp_path: Path
) -> None:
    first = fake_server()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    path, url = tmp_path / "late.gaptop", f"http://localhost:{port}"
    command = [GAPTOP, "record", "--no-gpu", "-o", str(path), first.url, url]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as recording:
        try:
            wait_for(lambda: f"metrics/{first.url}".encode() in seen(path), "the first one is read", 40)
            program = [sys.executable, str(tmp_path / "vllm"), "serve", "tiny", "--port", str(port)]
            with subprocess.Popen(program, stdout=subprocess.DEVNULL) as late:
                try:
                    # Its processes are looked for rarely: that takes a look at every command line of the host.
                    wait_for(lambda: f"process/{url}".encode() in seen(path), "its processes are read", 60)
                    time.sleep(2)
                    recording.send_signal(signal.SIGINT)
                    assert recording.wait(15) == 0
                finally:
                    late.kill()
        finally:
            recording.kill()
        assert recording.stderr is not None
        assert f"{url} has nothing listening" in recording.stderr.read()
    report = report_of("report", "--json", path, environ=environ)
    assert states(report, "metrics") == {first.url: "ok", url: "ok"}
    [found] = [item for item in report["source"]["servers"] if item["url"] == url]
    assert (found["engine"], found["model"], found["pids"]) == ("vllm", "tiny", [late.pid])
    assert states(report, "proc")[str(late.pid)] == "ok"


def test_a_recording_goes_on_where_one_server_is_killed(
    labs: tuple[LabInfo, LabInfo], environ: dict[str, str], tmp_path: Path
) -> None:
    quiet, loaded = labs
    path = tmp_path / "two.gaptop"
    command = [GAPTOP, "record", "--no-gpu", "-o", str(path), quiet.url, loaded.url]
    with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as recording:
        try:
            wait_for(lambda: all(info.url.encode() in seen(path) for info in labs), "both are read", 40)
            time.sleep(4)
            os.kill(quiet.processes[0].pid, signal.SIGKILL)
            time.sleep(8)
            recording.send_signal(signal.SIGINT)
            assert recording.wait(15) == 0
        finally:
            recording.kill()
    newest = {info.url: max(times(path, info.url)) for info in labs}
    assert newest[loaded.url] - newest[quiet.url] > 4.0
    holes = [line for line in open_stream(path) if isinstance(line, Hole) and line.src == f"metrics/{quiet.url}"]
    assert holes[-1].end > newest[quiet.url] + 3.0, "its absence is told as it goes on"
    report = report_of("report", "--json", path, environ=environ)
    assert states(report, "metrics") == {quiet.url: "absent", loaded.url: "ok"}
    [gone] = [item for item in report["health"] if item["source"] == f"metrics/{quiet.url}"]
    assert quiet.url in gone["says"]


def seen(path: Path) -> bytes:
    """The ids of the sources of which a recording that is still being written has readings."""
    try:
        return b" ".join(line.src.encode() for line in open_stream(path) if isinstance(line, Batch))
    except OpenError:
        return b""  # nothing of it is on the disk yet


def times(path: Path, url: str) -> list[float]:
    """When the metrics of a server were read."""
    return [line.t[-1] for line in open_stream(path) if isinstance(line, Batch) and line.src == f"metrics/{url}"]


@needs_tmux
def test_tab_shows_each_server_and_one_that_went_is_lost_in_its_own_tab_alone(
    tmp_path: Path, fake_server: Callable[[], FakeServer]
) -> None:
    first, second = sorted((fake_server(), fake_server()), key=lambda server: server.url)
    one, two = first.url[7:], second.url[7:]
    with Terminal(tmp_path) as terminal:
        terminal.type(f"{GAPTOP} {first.url} {second.url} http://127.0.0.1:9; echo code=$?")
        terminal.until("LIVE", "3 servers", f"[all]  {one}  {two}  127.0.0.1:9 waiting", "8 run", seconds=40)
        terminal.press("Tab")
        terminal.until(f"all  [{one}]  {two}", "4 run", "vLLM 0.32.0", "● metrics")
        terminal.press("Tab")
        terminal.until(f"[{two}]", "4 run")
        second.process.send_signal(signal.SIGKILL)
        terminal.until(f"[{two} lost]", "no reading of the server for", f"Nothing listens at {second.url}")
        terminal.press("Tab")
        terminal.until("[127.0.0.1:9 waiting]", "Nothing listens at http://127.0.0.1:9")
        terminal.press("Tab", "Tab")
        shown = terminal.until(f"[{one}]", "● metrics", "4 run", f"{two} lost")
        assert "Nothing listens" not in shown
        terminal.resize(80, 24)
        terminal.until(f"[{one}]  {two} lost", "vLLM 0.32.0", "4 run")
        terminal.press("BTab")
        shown = terminal.until("[all]", "3 servers", "● metrics")
        assert all(len(line) <= 80 for line in shown.splitlines())
        terminal.press("q")
        terminal.until("code=0")
