"""A roller on a clock of its own, with recorders that do what the test says."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import cast

from gaptop_collectors.collector import Frame, Message, StackSpan
from gaptop_collectors.host.pyspy_pace import SECOND
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_roller import Roller
from gaptop_collectors.host.pyspy_trace import BadTrace, StackTable, Trace
from gaptop_collectors.target import ServerProcess

PROCESS = ServerProcess(4242, "engine", "VLLM::EngineCore", True, 1)
MS = 1_000_000


class FakeRecorder:
    """Lives as the test says: ``live`` after so long, writes at once when asked."""

    def __init__(self, clock: Callable[[], int], rate: int) -> None:
        self._clock = clock
        self.started_ns = clock()
        self.rate = rate
        self.live_ns: int | None = None
        self.asked_ns: int | None = None
        self.heard_ns = 0
        self.sampled = True
        self.errors = 0
        self.code: int | None = None
        self.ending = False
        self.cpu_seconds = 0.1
        self.start_seconds = 0.02
        self.output = ""
        self.behind = False
        self.error_share = 0.0
        self.covered: tuple[int, int] | None = None
        self.bad = False
        self.killed = False

    def go_live(self, now: int) -> None:
        self.live_ns = now

    def write(self, until: int, start: int | None = None) -> None:
        assert self.live_ns is not None
        self.covered, self.code = (start or self.live_ns, until), 0

    def fail(self, output: str) -> None:
        self.output, self.code = output, 1

    def poll(self) -> bool:
        return self.code is not None

    def used_seconds(self) -> float:
        return 0.05

    def stop(self) -> None:
        self.asked_ns = self.asked_ns or self._clock()

    def kill(self) -> None:
        self.killed, self.code = True, -9

    def trace(
        self, table: StackTable, delay_ns: int, not_before_ns: int | None, join_ns: int, alive: Collection[int] | None
    ) -> tuple[Trace, int] | None:
        if self.bad:
            raise BadTrace("py-spy's output is not JSON (x)")
        if self.covered is None:
            return None
        start = max(self.covered[0], not_before_ns or 0)
        span = StackSpan(4242, start, self.covered[1], (Frame("step", "core.py", 1),))
        return Trace((start, self.covered[1]), [span], {4242: "MainThread"}), 300_000


class World:
    """A roller on a clock of its own."""

    def __init__(self, rate: int = 50) -> None:
        self.now = time.monotonic_ns()
        self.recorders: list[FakeRecorder] = []
        self.out: list[Message] = []
        self.roller = Roller(PROCESS, self.start, StackTable())
        self.now = self.roller.until
        self.roller.pace.rate = rate

    def start(self, pid: int, rate: int) -> Recorder:
        assert pid == PROCESS.pid
        self.recorders.append(FakeRecorder(lambda: self.now, rate))
        return cast(Recorder, self.recorders[-1])

    def go(self, seconds: float) -> None:
        """Step on in turns of 50 ms."""
        until = self.now + round(seconds * SECOND)
        while self.now < until:
            self.now += 50 * MS
            self.out += self.roller.step(self.now)

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.out if isinstance(message, kind)]


def live_for(world: World, seconds: float) -> FakeRecorder:
    world.go(0.1)
    recorder = world.recorders[-1]
    recorder.go_live(world.now)
    world.go(seconds)
    return recorder
