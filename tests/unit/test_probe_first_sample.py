"""When a runner samples first: one period after what opening read already, at once where opening read nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Final

import pytest

from gaptop.probe import runner as runner_module
from gaptop.probe.runner import Plan, Runner
from gaptop.recording.lines import Line
from gaptop_collectors.collector import Batch, Delivered, Message, SourceInfo

PERIOD_S: Final = 0.5
CALL_S: Final = 0.012
"""What each call takes, as a scrape of a real server does."""
SERVER: Final = SourceInfo("metrics/x", "engines", "server", {}, ("step.count",), PERIOD_S)


class Clock:
    """Time that is moved by hand, for both a runner and its collector."""

    def __init__(self) -> None:
        self.now = 100.0

    def ns(self) -> int:
        return int(self.now * 1e9)


class Server:
    """A collector that reads already when it is opened, or not, and whose server may go away."""

    name = "engines"
    deadline = 1.0

    def __init__(self, clock: Clock, reads: bool, lost_at: int | None = None) -> None:
        self.clock, self.reads, self.lost_at = clock, reads, lost_at
        self.period = PERIOD_S
        self.samples = 0

    def open(self) -> Sequence[Message]:
        return [SERVER, *(self._read() if self.reads else [Delivered(SERVER.source, self.clock.ns())])]

    def sample(self) -> Sequence[Message]:
        self.samples += 1
        if self.samples == self.lost_at:
            raise ZeroDivisionError
        return self._read()

    def _read(self) -> list[Message]:
        at = self.clock.ns()
        self.clock.now += CALL_S
        return [Batch(SERVER.source, [at], {"step.count": [1.0]})]

    def boost(self, seconds: float) -> None:
        self.period = PERIOD_S / 5

    def close(self) -> None: ...


class Told:
    """What was handed out, with when that was."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.read: list[float] = []
        self.handed: list[float] = []

    def accept(self, runner: Runner, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, Batch):
                self.read += [at / 1e9 for at in message.times_ns]
                self.handed.append(self.clock.now)

    def write(self, lines: Iterable[Line]) -> None: ...

    def seconds(self) -> float:
        return self.clock.now

    def log_hint(self) -> str:
        return ""


def run(
    monkeypatch: pytest.MonkeyPatch, *, reads: bool, lost_at: int | None = None, boost_at: float | None = None
) -> Told:
    """A runner for a few seconds of time that is moved by its own waiting; ``lost_at``: only of the first collector."""
    clock = Clock()
    told = Told(clock)
    begun = clock.now
    made: list[Server] = []

    def make() -> Server:
        made.append(Server(clock, reads, None if made else lost_at))
        return made[-1]

    runner = Runner(Plan("engines", make), told)
    monkeypatch.setattr(
        runner_module,
        "time",
        SimpleNamespace(monotonic=lambda: clock.now, monotonic_ns=clock.ns, thread_time=lambda: 0.0),
    )

    def wait(left: float) -> None:
        until = clock.now + left
        if boost_at is not None and clock.now < begun + boost_at < until:
            clock.now = begun + boost_at
            made[-1].boost(2.0)
        else:
            clock.now = until + 1e-6
        runner._stopping = clock.now > begun + 3

    def wait_for(stopping: object, seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(runner, "_wake", SimpleNamespace(wait=wait, wait_for=wait_for))
    runner._run()
    return told


def test_the_first_look_after_a_reading_is_a_period_later_and_the_reading_is_not_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = run(monkeypatch, reads=True)
    gaps = [later - earlier for earlier, later in zip(told.read, told.read[1:], strict=False)]
    assert len(gaps) >= 4
    assert gaps == pytest.approx([PERIOD_S] * len(gaps), abs=2 * CALL_S)
    assert told.handed[0] == pytest.approx(told.read[0] + CALL_S)


def test_where_opening_read_nothing_the_first_sample_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = run(monkeypatch, reads=False)
    assert told.read[0] == pytest.approx(100.0)
    assert told.read[1] - told.read[0] == pytest.approx(PERIOD_S, abs=1e-3)


def test_a_collector_that_is_opened_again_is_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    told = run(monkeypatch, reads=True, lost_at=2)
    gaps = [later - earlier for earlier, later in zip(told.read, told.read[1:], strict=False)]
    assert max(gaps) > 2 * PERIOD_S  # the hole
    assert min(gaps) > 0.9 * PERIOD_S


def test_a_boost_brings_the_first_sample_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    told = run(monkeypatch, reads=True, boost_at=0.05)
    assert told.read[1] - told.read[0] == pytest.approx(PERIOD_S / 5, abs=2 * CALL_S)
