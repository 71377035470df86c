"""The thread that starts, feeds and ends all recorders.

It is a thread of its own for two reasons: a trace must be read the moment it is written, and the kernel kills a
recorder when the *thread* that started it ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Hole, Message
from gaptop_collectors.host.ended import EndedSources
from gaptop_collectors.host.pyspy_budget import (
    FIRST_RATE,
    Load,
    Plan,
    Purse,
    closer,
    guessed_tick,
    make_plan,
)
from gaptop_collectors.host.pyspy_command import Launcher, stack_arguments
from gaptop_collectors.host.pyspy_recorder import Recorder, living_threads
from gaptop_collectors.host.pyspy_roller import SECOND, Roller
from gaptop_collectors.host.pyspy_trace import StackTable
from gaptop_collectors.target import ServerProcess

_BUSY_TURN: Final = 0.02
_CRITICAL: Final = ("engine", "worker", "server")
_RATION: Final = 6 * SECOND
"""At most one closer look in this time."""
_LEAST_LOOK: Final = 2.0
_TOO_FAST: Final = 1.1
_TOO_SLOW: Final = 0.8
"""A rate stays as long as it lies between these multiples of the planned one, so that sources are not described anew
for nothing; the budget is the stricter side."""


class PySpyDriver(threading.Thread):
    """``want`` says what to watch, ``take`` fetches messages; both from any thread."""

    def __init__(self, launcher: Launcher, *, fast: bool = False) -> None:
        super().__init__(name="py-spy driver", daemon=True)
        self.failure: BaseException | None = None
        self._launcher = launcher
        self._fast = fast
        self._lock = threading.Lock()
        self._out: list[Message] = []
        self._trouble: CollectorError | None = None
        self._wanted: tuple[ServerProcess, ...] = ()
        self._changed = self._leave = self._watching = False
        self._early = 0.0
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._table = StackTable()
        self._rollers: dict[tuple[int, int], Roller] = {}
        self._retiring: list[Roller] = []
        self._ended = EndedSources()
        self._loads: list[Load[tuple[int, int]]] = []
        self._plan: Plan[tuple[int, int]] = make_plan([])
        self._purse = Purse()
        self._earned_ns = time.monotonic_ns()
        self._looked_ns = self._earned_ns - _RATION

    def want(self, processes: Sequence[ServerProcess]) -> None:
        """Watch exactly these Python processes from now on."""
        with self._lock:
            if self._wanted == tuple(processes):
                return
            self._wanted, self._changed = tuple(processes), True
        self._wake()

    def look_closer(self, seconds: float) -> None:
        """Something is happening: sample faster for so long where the budget has something left for that, else only
        deliver soon what is being watched now."""
        with self._lock:
            self._early = seconds
        self._wake()

    def take(self) -> list[Message]:
        """The messages since the last call."""
        with self._lock:
            out, self._out = self._out, []
        return out

    def trouble(self) -> CollectorError | None:
        """Why nothing at all is watched; None while something is."""
        with self._lock:
            return self._trouble

    @property
    def busy(self) -> bool:
        """Whether some process is watched, or its last window is on its way."""
        with self._lock:
            return self._changed or self._watching

    def end(self) -> None:
        """Stop everything: SIGINT, after a second SIGKILL; returns when all recorders are gone. What they wrote until
        then can be taken."""
        self._leave = True
        self._wake()
        if self.ident is not None:
            self.join(5.0)

    def run(self) -> None:
        try:
            while not self._leave:
                self._turn()
        except BaseException as error:  # shown by the collector as the bug that it is
            self.failure = error
        finally:
            self._close()

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._wake_write >= 0:
                os.write(self._wake_write, b"!")

    def _turn(self) -> None:
        now = time.monotonic_ns()
        due = min((roller.next_step(now) for roller in self._all()), default=now + SECOND)
        self._select(max(0, due - now) / SECOND)
        with self._lock:
            changed, wanted, early = self._changed, self._wanted, self._early
            self._changed, self._early = False, 0.0
        if changed:
            self._adopt(wanted)
        now = time.monotonic_ns()
        if early:
            self._look_closer(early, now)
        out: list[Message] = []
        for roller in self._all():
            out += roller.step(now)
        self._bury(now, out)
        if any(roller.measured() for roller in self._rollers.values()):
            self._make_plan()
        out += self._ended.messages(now)
        alive = list(self._rollers.values())
        with self._lock:
            self._out += out
            self._watching = bool(alive) or bool(self._retiring)
            lost = [item.trouble for item in alive if item.lost and item.trouble is not None]
            self._trouble = lost[0] if lost and len(lost) == len(alive) else None

    def _select(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Recorder):
                key.data.readable(key.fd)
            else:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)

    def _all(self) -> list[Roller]:
        return [*self._retiring, *self._rollers.values()]

    def _adopt(self, wanted: Sequence[ServerProcess]) -> None:
        keys = {(process.pid, process.started): process for process in wanted}
        for key in [key for key in self._rollers if key not in keys]:
            roller = self._rollers.pop(key)
            roller.retire()
            self._retiring.append(roller)
        for key, process in keys.items():
            if key not in self._rollers:
                roller = Roller(process, self._start_recorder, self._table)
                roller.stagger(len(self._rollers))
                self._ended.discard(roller.source)
                self._rollers[key] = roller
        self._make_plan()

    def _make_plan(self) -> None:
        self._earn(time.monotonic_ns())
        self._loads = []
        for key, roller in self._rollers.items():
            if roller.lost:
                continue
            if roller.learnt.tick is None:
                roller.learnt.guess = guessed_tick(len(living_threads(roller.process.pid) or ()))
            self._loads.append(roller.learnt.load(key, roller.process.role in _CRITICAL))
        self._plan = plan = make_plan(self._loads, fast=self._fast)
        for key, roller in self._rollers.items():
            rate = FIRST_RATE if roller.lost else plan.rates.get(key, 0)
            if not _TOO_SLOW * rate <= roller.rate <= _TOO_FAST * rate:
                roller.rate = rate
            roller.window_ns = round(plan.window * SECOND)
            roller.over_budget = plan.over

    def _earn(self, now: int) -> None:
        self._purse.earn((now - self._earned_ns) / SECOND, self._plan.share)
        self._earned_ns = now

    def _look_closer(self, seconds: float, now: int) -> None:
        self._earn(now)
        looked = [load for load in self._loads if load.critical] or self._loads
        rollers = [self._rollers[load.key] for load in looked if load.key in self._rollers]
        seconds = min(self._plan.window, max(_LEAST_LOOK, seconds))
        hand_overs = sum(load.hand_over for load in looked)
        rate = None
        if not self._fast and now - self._looked_ns >= _RATION:
            rate = closer(self._loads, self._plan, seconds, self._purse.saved)
        if rate is not None:
            self._looked_ns = now
            more = sum((rate - self._plan.rates.get(load.key, 0)) * load.tick for load in looked)
            self._purse.spend(hand_overs + more * seconds)
            for roller in rollers:
                roller.look_closer(rate, round(seconds * SECOND))
        elif self._fast or self._purse.saved > hand_overs:
            self._purse.spend(hand_overs)
            for roller in rollers:
                roller.hand_over_early()

    def _bury(self, now: int, out: list[Message]) -> None:
        for roller in [item for item in self._retiring if item.over]:
            self._retiring.remove(roller)
            self._ended.add(roller.source)
            out.append(Hole(roller.source, min(roller.until, now), now, f"process {roller.process.pid} has ended"))

    def _start_recorder(self, pid: int, rate: int) -> Recorder:
        return Recorder(self._launcher, stack_arguments(pid, rate), rate, self._selector)

    def _close(self) -> None:
        rollers = self._all()
        for roller in rollers:
            roller.interrupt()
        until = time.monotonic() + 1.0
        while time.monotonic() < until and not all(roller.finished() for roller in rollers):
            self._select(_BUSY_TURN)
        try:
            last = [message for roller in rollers for message in roller.last()]
            with self._lock:
                self._out += last
        finally:
            for roller in rollers:
                roller.abandon()
            self._release()

    def _release(self) -> None:
        self._selector.close()
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_write = -1
