"""``gaptop record``: asked to end it leaves a whole file; a full disk leaves what was flushed, and a sentence."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop.lab.launch import LabInfo
from gaptop.recording.lines import Batch, Tick
from gaptop.recording.reader import open_stream
from tests.e2e.processes import alive, family, wait_for, with_words
from tests.e2e.terminal import GAPTOP


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


def read(path: Path) -> tuple[float, int, str]:
    """The last tick, the number of readings, and what the reader has to say about the file."""
    stream = open_stream(path)
    lines = list(stream)
    last = max((line.t for line in lines if isinstance(line, Tick)), default=0.0)
    return last, sum(isinstance(line, Batch) for line in lines), stream.says


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_asked_to_end_it_completes_the_file(
    tmp_path: Path, steady_lab: LabInfo, environ: dict[str, str], number: signal.Signals
) -> None:
    path = tmp_path / "run.gaptop"
    command = [GAPTOP, "record", "-o", str(path), steady_lab.url]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as recorder:
        wait_for(lambda: path.is_file() and path.stat().st_size > 0, "the file has a beginning")
        begun = time.monotonic()
        wait_for(lambda: with_words(family(recorder.pid), "py-spy record"), "threads are recorded")
        time.sleep(1.5)
        running = family(recorder.pid)
        asked = time.monotonic()
        recorder.send_signal(number)
        _, said = recorder.communicate(timeout=10)
    assert recorder.returncode == 0
    assert f"wrote {path}" in said
    assert not [process for process in running if alive(process.pid)]
    last, readings, says = read(path)
    assert says == "", "the file is complete"
    assert readings > 0
    assert last > asked - begun - 1.0, "it goes on to the end"


def full(path: Path, said: str, code: int) -> None:
    """One sentence, no success, and what was flushed opens."""
    told = [line for line in said.splitlines() if "recording into" not in line]
    assert len(told) == 1, said
    assert told[0].startswith(f"gaptop: cannot write {path}: ")
    assert "can be opened" in told[0]
    assert code not in (0, 1)
    last, readings, _ = read(path)
    assert last > 0
    assert readings > 0
    report = subprocess.run([GAPTOP, "report", path], capture_output=True, text=True, timeout=30)
    assert report.returncode == 0, report.stderr
    assert "was read up to its last whole line only" in report.stderr


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tiny file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(tiny_disk: Path, steady_lab: LabInfo, environ: dict[str, str]) -> None:
    path = tiny_disk / "run.gaptop"
    command = [GAPTOP, "record", "-o", str(path), "--threads", "fast", "--for", "60s", steady_lab.url]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=70)
    assert "the disk is full" in done.stderr
    full(path, done.stderr, done.returncode)


def test_a_file_that_may_not_grow(tmp_path: Path, steady_lab: LabInfo, environ: dict[str, str]) -> None:
    path = tmp_path / "run.gaptop"
    command = [GAPTOP, "record", "-o", str(path), "--for", "60s", steady_lab.url]
    # 6 kB, and no further: the way of a file system's or a user's limit.
    done = subprocess.run(
        command,
        env=environ,
        capture_output=True,
        text=True,
        timeout=70,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000)),
    )
    full(path, done.stderr, done.returncode)


def test_a_full_device_behind_standard_output(steady_lab: LabInfo, environ: dict[str, str]) -> None:
    with open("/dev/full", "wb") as device:
        done = subprocess.run(
            [GAPTOP, "record", "-o", "-", steady_lab.url],
            env=environ,
            stdout=device,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    assert done.returncode not in (0, 1)
    assert done.stderr.count("\n") == 1
    assert "cannot write the stream: the disk is full" in done.stderr
