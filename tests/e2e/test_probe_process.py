"""A real probe process with made-up collectors: isolation, order, commands, and its end with its parent."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaptop.recording.lines import Batch, Event, Header, Health, Hole, Line, Source, Tick, Watermark, decode

FAKE = (sys.executable, str(Path(__file__).with_name("fake_probe.py")))


class Running:
    """A probe that the test talks to directly."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.process = subprocess.Popen(FAKE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[Line] = []
        self._rest = b""
        self.tell(config)

    def tell(self, body: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(body).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, wanted: Callable[[Line], bool], seconds: float = 10.0) -> Line:
        """Read until a line that is wanted comes."""
        end = time.monotonic() + seconds
        seen = 0
        while True:
            for line in self.lines[seen:]:
                if wanted(line):
                    return line
            seen = len(self.lines)
            assert time.monotonic() < end, self.lines[-5:]
            self._read(0.2)

    def to_the_end(self, seconds: float = 10.0) -> float:
        """Read until the probe has ended; gives how long that took."""
        begun = time.monotonic()
        while self._read(0.2):
            assert time.monotonic() - begun < seconds
        self.process.wait(seconds)
        return time.monotonic() - begun

    def _read(self, timeout: float) -> bool:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        if not select.select([descriptor], [], [], timeout)[0]:
            return True
        piece = os.read(descriptor, 1 << 16)
        *whole, self._rest = (self._rest + piece).split(b"\n")
        self.lines.extend(line for text in whole if (line := decode(text)) is not None)
        return bool(piece)

    def of(self, kind: type[Any]) -> list[Any]:
        return [line for line in self.lines if isinstance(line, kind)]


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def begin(*collectors: str, **config: Any) -> Running:
        running.append(Running({"feeds": list(collectors), **config}))
        return running[-1]

    yield begin
    for probe in running:
        probe.process.kill()
        probe.process.wait()
        for pipe in (probe.process.stdin, probe.process.stdout, probe.process.stderr):
            assert pipe is not None
            pipe.close()


def reads(source: str, after: float = 0.0) -> Callable[[Line], bool]:
    return lambda line: isinstance(line, Batch) and line.src == f"fake/{source}" and line.t[0] > after


def state(source: str, *states: str) -> Callable[[Line], bool]:
    return lambda line: isinstance(line, Health) and line.src in (source, f"fake/{source}") and line.state in states


def test_the_stream_starts_with_a_header_and_keeps_its_order(start: Callable[..., Running]) -> None:
    probe = start("steady", duration=1.3, simulated=True)
    assert probe.to_the_end() < 5
    assert probe.process.returncode == 0
    header = probe.lines[0]
    assert isinstance(header, Header)
    assert header.simulated
    assert header.host["cores"] == os.cpu_count()
    told: dict[str, float] = {}
    last_tick = 0.0
    for line in probe.lines:
        match line:
            case Batch():
                assert line.t[0] > told.get("mark", -1.0)
                # It was read before it was queued, so a tick may have come between, but not two.
                assert line.t[0] > last_tick - 0.25
                told["batch"] = line.t[-1]
            case Watermark():
                assert told["batch"] == line.t
                told["mark"] = line.t
            case Tick():
                assert line.t >= last_tick
                last_tick = line.t
    ticks = [tick.t for tick in probe.of(Tick)]
    assert 5 <= len(ticks) <= 8
    readings = [line.t[0] for line in probe.of(Batch)]
    assert 11 <= len(readings) <= 14
    assert all(earlier < later for earlier, later in zip(readings, readings[1:], strict=False))
    assert "hunter2" not in probe.of(Source)[0].entity["name"]


def test_a_hung_collector_leaves_the_others_running(start: Callable[..., Running]) -> None:
    probe = start("steady", "hangs")
    late = probe.until(state("hangs", "late"))
    assert isinstance(late, Health)
    assert late.newest is not None
    # Its deadline is half a second; a second after that, at the latest, it shows.
    assert late.t - late.newest < 1.6
    assert "hangs has not answered" in late.says
    probe.until(reads("steady", after=late.t + 0.5))
    event = probe.until(lambda line: isinstance(line, Event) and line.what == "our_slow_call")
    assert isinstance(event, Event)
    assert event.data["collector"] == "hangs"
    assert 2.9 < event.data["seconds"] < 4.5
    gaps = [later.t[0] - earlier.t[0] for earlier, later in _pairs(probe, "steady")]
    assert max(gaps) < 0.5
    probe.until(reads("hangs", after=event.t))
    probe.until(lambda line: state("hangs", "ok")(line) and isinstance(line, Health) and line.t > event.t)


def _pairs(probe: Running, source: str) -> list[tuple[Batch, Batch]]:
    batches = [line for line in probe.of(Batch) if line.src == f"fake/{source}"]
    return list(zip(batches, batches[1:], strict=False))


def test_a_collector_that_never_comes_back_has_holes(start: Callable[..., Running]) -> None:
    probe = start("hangsforever")
    hole = probe.until(lambda line: isinstance(line, Hole), seconds=15)
    assert isinstance(hole, Hole)
    assert hole.src == "fake/hangsforever"
    assert hole.end - hole.start > 9
    probe.tell({"do": "stop"})
    assert probe.to_the_end() < 1.6


def test_failures_are_health_lines_and_nothing_else(start: Callable[..., Running]) -> None:
    probe = start("steady", "raises", "refused", "unimportable", "prints")
    failing = probe.until(state("raises", "failing"))
    assert isinstance(failing, Health)
    assert "ZeroDivisionError: a bug in this collector" in failing.says
    refused = probe.until(state("refused", "refused"))
    assert isinstance(refused, Health)
    assert refused.says == "no right to read it; run it with sudo."
    absent = probe.until(state("unimportable", "absent"))
    assert isinstance(absent, Health)
    assert "a_package_that_is_not_there" in absent.says
    probe.until(reads("steady", after=0.5))
    probe.until(reads("prints", after=0.5))
    probe.tell({"do": "stop"})
    probe.to_the_end()
    assert probe.process.returncode == 0
    assert probe.process.stderr is not None
    log = probe.process.stderr.read().decode()
    assert "Traceback" in log
    assert "hello from a library" in log
    assert "steady closed" in log


def test_commands_are_obeyed_and_logged(start: Callable[..., Running]) -> None:
    probe = start("steady")
    probe.until(reads("steady"))
    probe.tell({"do": "boost", "seconds": 5})
    probe.tell({"do": "dance"})
    assert probe.process.stdin is not None
    probe.process.stdin.write(b"[]\n\xff{\n")
    probe.process.stdin.flush()
    probe.until(lambda line: reads("steady")(line) and isinstance(line, Batch) and line.values["device.power"] == [1.0])
    probe.until(lambda _: len(probe.of(Event)) >= 4)
    events = probe.of(Event)
    assert [event.what for event in events] == ["command"] * 4
    assert events[0].data == {"do": "boost", "seconds": 5}


def test_told_to_stop_a_recorder_delivers_its_last_window_before_the_last_tick(start: Callable[..., Running]) -> None:
    probe = start("steady", "records", "failstofinish")
    probe.until(reads("steady", after=0.3))
    probe.tell({"do": "stop"})
    assert probe.to_the_end() < 2.0
    (last,) = [line for line in probe.of(Batch) if line.src == "fake/records"]
    assert probe.lines.index(last) < probe.lines.index(probe.of(Tick)[-1])
    assert probe.process.stderr is not None
    log = probe.process.stderr.read().decode()
    assert "records closed" in log
    assert "failstofinish closed" in log


def test_when_the_time_is_over_a_recorder_delivers_too(start: Callable[..., Running]) -> None:
    probe = start("records", duration=0.5)
    probe.to_the_end()
    assert [line.src for line in probe.of(Batch)] == ["fake/records"]


def test_where_nobody_reads_any_more_no_recorder_is_waited_for(start: Callable[..., Running]) -> None:
    probe = start("steady", "records")
    probe.until(reads("steady", after=0.3))
    assert probe.process.stdin is not None
    probe.process.stdin.close()
    assert probe.to_the_end() < 0.9
    assert not [line for line in probe.of(Batch) if line.src == "fake/records"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(start: Callable[..., Running], number: signal.Signals) -> None:
    probe = start("steady")
    probe.until(reads("steady"))
    probe.process.send_signal(number)
    assert probe.to_the_end() < 1.5
    assert probe.process.returncode == 0
    assert probe.process.stderr is not None
    assert b"steady closed" in probe.process.stderr.read()


def test_a_closed_input_ends_it_although_a_collector_hangs(start: Callable[..., Running]) -> None:
    probe = start("steady", "hangsforever")
    probe.until(reads("steady", after=0.3))
    assert probe.process.stdin is not None
    probe.process.stdin.close()
    assert probe.to_the_end() < 1.6
    assert probe.process.returncode == 0


def test_a_closed_output_ends_it(start: Callable[..., Running]) -> None:
    probe = start("steady")
    probe.until(reads("steady"))
    assert probe.process.stdout is not None
    probe.process.stdout.close()
    assert probe.process.wait(3) == 0


def test_without_a_configuration_it_says_so(start: Callable[..., Running]) -> None:
    probe = start("steady", threads="sometimes")
    probe.to_the_end()
    assert probe.process.returncode == 2
    assert probe.process.stderr is not None
    assert b"threads is 'sometimes'" in probe.process.stderr.read()
