"""The thread that starts, feeds and ends all recorders.

It is a thread of its own for two reasons: a trace must be read the moment it is written, and the kernel kills a
recorder when the *thread* that started it ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import threading
import time
from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Message
from gaptop_collectors.host.pyspy_command import Launcher, stack_arguments
from gaptop_collectors.host.pyspy_fleet import Fleet
from gaptop_collectors.host.pyspy_pace import SECOND
from gaptop_collectors.host.pyspy_recorder import Recorder
from gaptop_collectors.target import ServerProcess

_BUSY_TURN: Final = 0.02
_PATIENCE: Final = 5.0
_log: Final = logging.getLogger(__name__)


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
            self._early = max(self._early, seconds)
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
        then can be taken. A thread that was never started releases what it holds here."""
        self._leave = True
        self._wake()
        if self.ident is None:
            self._release()
            return
        self.join(_PATIENCE)
        if self.is_alive():
            _log.warning("the py-spy driver has not ended within %g s: its last windows are lost", _PATIENCE)

    def run(self) -> None:
        fleet = Fleet(self._start_recorder, fast=self._fast)
        try:
            while not self._leave:
                self._turn(fleet)
        except BaseException as error:  # shown by the collector as the bug that it is
            self.failure = error
        finally:
            self._close(fleet)

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._wake_write >= 0:
                os.write(self._wake_write, b"!")

    def _turn(self, fleet: Fleet) -> None:
        now = time.monotonic_ns()
        self._select(max(0, fleet.next_step(now) - now) / SECOND)
        with self._lock:
            changed, wanted, early = self._changed, self._wanted, self._early
            self._changed, self._early = False, 0.0
        if changed:
            fleet.adopt(wanted)
        now = time.monotonic_ns()
        if early:
            fleet.look_closer(early, now)
        out = fleet.step(now)
        with self._lock:
            self._out += out
            self._watching = fleet.watching
            self._trouble = fleet.trouble()

    def _select(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Recorder):
                key.data.readable(key.fd)
            else:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)

    def _start_recorder(self, pid: int, rate: int) -> Recorder:
        return Recorder(self._launcher, stack_arguments(pid, rate), rate, self._selector)

    def _close(self, fleet: Fleet) -> None:
        rollers = fleet.all
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
        with self._lock:
            if self._wake_write < 0:
                return
            self._selector.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_write = -1
