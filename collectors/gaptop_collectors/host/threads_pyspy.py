"""Python stacks of the server's processes, by py-spy: what every thread does, without touching the server.

py-spy runs as a child for each process, always ``--nonblocking`` (stopping the server's threads to read them would cost
it up to half of its speed), in rolling windows. The rate follows from the number of threads, so that all recorders
together stay inside 4 % of a core; it stands in the source's ``says``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gaptop_collectors.collector import CollectorError, Message, SourceInfo, Stacks
from gaptop_collectors.host.pyspy_command import check_right, find_pyspy, make_launcher
from gaptop_collectors.host.pyspy_driver import PySpyDriver
from gaptop_collectors.target import Processes, ServerProcess

_ORDER: Final = {"engine": 0, "worker": 1, "server": 2, "api": 3}
"""Roles that are watched, the ones that every step has to pass first."""


class PySpyThreads:
    """The collector. Its sources are ``threads/PID``; ``fast`` samples at 100 Hz whatever that costs."""

    name = "host.threads_pyspy"
    period = 0.5
    deadline = 1.0

    def __init__(self, processes: Processes, fast: bool = False) -> None:
        self._processes = processes
        self._fast = fast
        self._driver: PySpyDriver | None = None

    def open(self) -> Sequence[Message]:
        """Raises :class:`CollectorError` where no stack can be read: no py-spy, no Python process, no right."""
        launcher = make_launcher(find_pyspy())
        wanted = self._wanted()
        refusals = [error for error in (check_right(process.pid) for process in wanted) if error is not None]
        if len(refusals) == len(wanted):
            raise refusals[0]
        self._driver = PySpyDriver(launcher, fast=self._fast)
        self._driver.want(wanted)
        self._driver.start()
        return ()

    def sample(self) -> Sequence[Message]:
        """What came in since the last call; raises :class:`CollectorError` while nothing is watched any more (whoever
        calls us then declares the holes).
        """
        driver = self._driver
        if driver is None:
            raise RuntimeError("sample() before open()")
        if driver.failure is not None:
            raise RuntimeError("the py-spy driver died") from driver.failure
        messages = driver.take()
        news = any(isinstance(message, Stacks | SourceInfo) for message in messages)
        try:
            driver.want(self._wanted())
        except CollectorError:
            driver.want(())
            if not news and not driver.busy:
                raise
        trouble = driver.trouble()
        if trouble is not None and not news:
            raise trouble
        return messages

    def boost(self, seconds: float) -> None:
        """Sample faster at once, for at least two seconds; where one was had in the last six seconds or the budget has
        nothing left for it, only hand over early (at most once in three seconds).
        """
        driver = self._driver
        if driver is not None:
            driver.look_closer(seconds)

    def finish(self) -> Sequence[Message]:
        """The last windows: every recorder is asked to write, and what comes within a second is delivered."""
        driver = self._driver
        if driver is None:
            return ()
        driver.end()
        return driver.take()

    def close(self) -> None:
        if self._driver is not None:
            self._driver.end()
            self._driver = None

    def _wanted(self) -> list[ServerProcess]:
        current = self._processes.current()
        if not current:
            raise CollectorError(
                self._processes.why_empty() or "The server's processes are not seen, so neither are its stacks.",
                state="absent",
            )
        found = [process for process in current if process.python and process.role in _ORDER]
        if not found:
            raise CollectorError(
                "No process of this server is Python, so py-spy has nothing to read: its threads are read from /proc "
                "only (run state and waits, no stacks).",
                state="absent",
            )
        return sorted(found, key=lambda process: (_ORDER[process.role], process.pid))
