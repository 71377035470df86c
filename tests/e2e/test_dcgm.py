"""``gaptop --dcgm``: an exporter's GPU is a device, its resolution is told, and a valley that shows in it is found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gaptop.recording.lines import Batch, Event, Health, Line, Source, Tick, decode
from gaptop.recording.reader import open_stream
from tests.e2e.conftest import FakeServer
from tests.fakes.dcgm import IDLE_S, LABELS, UUID, exposition
from tests.fakes.endpoint import Site
from tests.fakes.nvml import build

ROOT = Path(__file__).parents[2]
GAPTOP = [sys.executable, "-m", "gaptop"]
SOURCE = f"dcgm/{UUID}"


@contextmanager
def exporter(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "tests.fakes.dcgm", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}", process
    finally:
        process.kill()
        process.wait()


def record(path: Path, server: str, address: str, until: Callable[[list[Line]], bool]) -> None:
    """Record until what was recorded is enough; looks whenever a tick comes."""
    command = [*GAPTOP, "record", server, "--no-gpu", "--no-host", "-o", "-", "--dcgm", address]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        lines: list[Line] = []
        asked = False
        with path.open("wb") as file:
            for raw in process.stdout:
                file.write(raw)
                line = decode(raw)
                if line is not None:
                    lines.append(line)
                if isinstance(line, Tick) and not asked and until(lines):
                    asked = True
                    process.terminate()
        assert process.wait(15) == 0
        assert until(lines), "the recording ended before there was enough"
    finally:
        process.kill()
        process.wait()


def busy(lines: list[Line]) -> list[tuple[float, float]]:
    return [
        (t, value)
        for line in lines
        if isinstance(line, Batch) and line.src == SOURCE
        for t, value in zip(line.t, line.values.get("device.busy", ()), strict=False)
        if value is not None
    ]


@pytest.fixture
def recorded(tmp_path: Path, fake_server: Callable[[], FakeServer]) -> Path:
    """Some work is seen, then some idle seconds, and work again."""
    path = tmp_path / "run.gaptop"
    with exporter("-c", "1000") as (address, process):
        asked = False

        def enough(lines: list[Line]) -> bool:
            nonlocal asked
            values = [value for _, value in busy(lines)]
            if not asked and len(values) > 4:
                asked = True
                process.send_signal(signal.SIGUSR1)
            low = [index for index, value in enumerate(values) if value < 0.2]
            return bool(low) and len(values) > low[-1] + 5

        record(path, fake_server().url, address, enough)
    return path


def test_a_valley_that_shows_in_collections_of_one_second_is_found(recorded: Path) -> None:
    lines: list[Line] = list(open_stream(recorded))
    info = [line for line in lines if isinstance(line, Source) and line.id == SOURCE][-1]
    assert info.window == pytest.approx(1.0, rel=0.16)
    assert info.window_measured
    times = [t for t, _ in busy(lines)]
    assert len(times) == len(set(times))
    report = subprocess.run(
        [*GAPTOP, "report", str(recorded), "--json"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    told = json.loads(report.stdout)
    (device,) = told["source"]["devices"]
    assert device["uuid"] == UUID
    assert device["window_seconds"] == pytest.approx(1.0, rel=0.16)
    assert device["window_measured"]
    valleys = [each for each in told["valleys"] if each["kind"] == "utilisation"]
    low = [t for t, value in busy(lines) if value < 0.2]
    assert valleys[0]["start_s"] == pytest.approx(low[0] - 1, abs=1.5)
    # A crowded machine may scrape too late for a collection; what was not seen is no valley.
    idle = sum(each["idle_s"] for each in valleys)
    assert 0.5 * len(low) < idle < IDLE_S + 1.2
    text = subprocess.run(
        [*GAPTOP, "report", str(recorded)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert "(measured)" in text.stdout


def test_a_slow_exporter_says_so_and_repeats_nothing(tmp_path: Path, fake_server: Callable[[], FakeServer]) -> None:
    path = tmp_path / "run.gaptop"
    with exporter("-c", "6000") as (address, _):
        record(path, fake_server().url, address, lambda lines: len(busy(lines)) >= 2)
    lines: list[Line] = list(open_stream(path))
    info = [line for line in lines if isinstance(line, Source) and line.id == SOURCE][-1]
    assert info.period == pytest.approx(6, rel=0.16)
    assert f"every {info.period:.2g} s (measured)" in info.says
    energy = [
        value
        for line in lines
        if isinstance(line, Batch) and line.src == SOURCE
        for value in line.values.get("device.energy", ())
    ]
    assert len(energy) == len(set(energy)) >= 3


def test_an_exporter_that_is_not_there_is_one_sentence_and_the_rest_goes_on(
    tmp_path: Path, fake_server: Callable[[], FakeServer]
) -> None:
    path = tmp_path / "run.gaptop"

    def enough(lines: list[Line]) -> bool:
        states = {line.src: line.state for line in lines if isinstance(line, Health)}
        engine = [state for src, state in states.items() if src.startswith("metrics/")]
        return states.get("devices.dcgm") == "absent" and engine == ["ok"]

    record(path, fake_server().url, "127.0.0.1:1", enough)
    says = [line.says for line in open_stream(path) if isinstance(line, Health) and line.src == "devices.dcgm"]
    assert any(
        "Nothing listens at http://127.0.0.1:1, so the GPUs it tells of are not visible" in each for each in says
    )


def test_a_gpu_that_nvml_shows_is_not_shown_twice() -> None:
    try:
        driver = build.environment({"devices": [{"series": [(0.5, 100.0)], "loop": True}]})
    except build.NoCompiler as error:
        pytest.skip(str(error))
    energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    body = "".join(exposition({energy: 5}, LABELS.replace(UUID, uuid)) for uuid in ("GPU-fake-0", "GPU-elsewhere"))
    with Site({"/metrics": body}) as site:
        config = {"dcgm": [site.url], "threads": "off"}
        probe = subprocess.Popen(
            [sys.executable, "-P", "-m", "gaptop.probe"],
            env=os.environ | driver,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert probe.stdin is not None
        assert probe.stdout is not None
        probe.stdin.write(json.dumps(config).encode() + b"\n")
        probe.stdin.flush()
        lines: list[Line] = []
        for raw in probe.stdout:
            if (line := decode(raw)) is not None:
                lines.append(line)
            left_out = [at for at, each in enumerate(lines) if isinstance(each, Event) and each.what == "dcgm_left_out"]
            if left_out and len(lines) > left_out[0] + 40:
                break
        probe.communicate(timeout=10)
    (note,) = [line for line in lines if isinstance(line, Event) and line.what == "dcgm_left_out"]
    assert "NVML on this host delivers it" in note.says
    order = [line.id for line in lines if isinstance(line, Source)]
    assert {"nvml/GPU-fake-0", "dcgm/GPU-elsewhere"} <= set(order)
    twice = "dcgm/GPU-fake-0"
    # Only a driver that is slower than an exporter's patience with it may come second.
    assert twice not in order or order.index(twice) < order.index("nvml/GPU-fake-0")
    assert not [line for line in lines[left_out[0] :] if isinstance(line, Source) and line.id == twice]


def test_doctor_tells_of_it() -> None:
    with exporter("-c", "30000", "--no-profiling") as (address, _):
        command = [*GAPTOP, "doctor", "http://127.0.0.1:1", "--no-gpu", "--no-host", "--json", "--dcgm", address]
        for _ in range(4):  # it looks for some seconds only, and this machine may be crowded
            found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout)
            seen = [each for each in found["sources"] if each["source"] == SOURCE]
            if seen:
                break
    (source,) = seen
    assert source["state"] == "ok"
    assert "not known yet" in source["says"]
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in source["says"]
