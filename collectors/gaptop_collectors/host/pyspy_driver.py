"""The thread that starts, feeds and ends all recorders.

It is a thread of its own for two reasons: a trace must be read the moment it is written, and the kernel kills a
recorder when the *thread* that started it ends.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import threading
import time
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Hole, Message
from gaptop_collectors.host.ended import EndedSources
from gaptop_collectors.host.pyspy_budget import Load, make_plan, tick_seconds
from gaptop_collectors.host.pyspy_command import Launcher
from gaptop_collectors.host.pyspy_folder import PrivateFolder
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.host.pyspy_roller import SECOND, Roller
from gaptop_collectors.host.pyspy_trace import StackTable
from gaptop_collectors.target import ServerProcess

_BUSY_TURN: Final = 0.02
_CRITICAL: Final = ("engine", "worker", "server")
_GUESSED_PYTHON: Final = 8
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
        self._changed = self._early = self._leave = self._watching = False
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._folder = PrivateFolder()
        self._numbers = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._table = StackTable()
        self._rollers: dict[tuple[int, int], Roller] = {}
        self._retiring: list[Roller] = []
        self._ended = EndedSources()

    def want(self, processes: Sequence[ServerProcess]) -> None:
        """Watch exactly these Python processes from now on."""
        with self._lock:
            if self._wanted == tuple(processes):
                return
            self._wanted, self._changed = tuple(processes), True
        self._wake()

    def hand_over(self) -> None:
        """Deliver soon what is being watched now."""
        with self._lock:
            self._early = True
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
        """Stop everything: SIGINT, after a second SIGKILL; returns when all recorders and the folder are gone. What
        they wrote until then can be taken."""
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
            self._changed = self._early = False
        if changed:
            self._adopt(wanted)
        now = time.monotonic_ns()
        out: list[Message] = []
        for roller in self._all():
            if early:
                roller.hand_over_early()
            out += roller.step(now)
        self._bury(now, out)
        if any(roller.measured() for roller in self._rollers.values()):
            self._plan()
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
        self._plan()

    def _plan(self) -> None:
        loads = []
        for key, roller in self._rollers.items():
            known = len(roller.threads) or _GUESSED_PYTHON
            model = tick_seconds(known, max(0, _count_threads(roller.process.pid) - known))
            tick = roller.tick_seconds if roller.tick_seconds is not None else model
            loads.append(Load(key, roller.process.role in _CRITICAL, tick, roller.start_seconds))
        plan = make_plan(loads, fast=self._fast)
        for key, roller in self._rollers.items():
            rate = plan.rates.get(key, 0)
            if not _TOO_SLOW * rate <= roller.rate <= _TOO_FAST * rate:
                roller.rate = rate
            roller.window_ns = round(plan.window * SECOND)

    def _bury(self, now: int, out: list[Message]) -> None:
        for roller in [item for item in self._retiring if item.over]:
            self._retiring.remove(roller)
            self._ended.add(roller.source)
            out.append(Hole(roller.source, min(roller.until, now), now, f"process {roller.process.pid} has ended"))

    def _start_recorder(self, pid: int, rate: int) -> Recorder:
        fifo = self._folder.path / f"{pid}-{next(self._numbers)}"
        return Recorder(self._launcher, pid, rate, fifo, self._selector)

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
        self._folder.remove()


def _count_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
