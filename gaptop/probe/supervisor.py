"""The probe as a child process: started, fed with commands, restarted when it dies, ended with us."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from gaptop.probe.child import Child
from gaptop.probe.heard import Heard
from gaptop.recording.lines import Event, encode

COMMAND: Final = (sys.executable, "-P", "-m", "gaptop.probe")
"""-P: whatever lies in the working directory, it is not searched for modules."""
_logger: Final = logging.getLogger(__name__)
"""Nothing above "info": without a log file, Python would write a warning over the screen."""
_INTERN_STEP: Final = 1_000_000
_DELAYS: Final = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each restart; after as many deaths within a minute the probe is given up."""
_WITHIN: Final = 60.0
_ASK: Final = 2.1
"""Seconds that the probe has to end by itself: its recorders' last windows take up to 1.4."""
_TERMINATE: Final = 0.3
_KILL: Final = 0.5
_USAGE: Final = 2
_CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)


class _Queue(Protocol):
    def put(self, item: bytes, /) -> None: ...


class ProbeProcess:
    """Runs the probe with ``config`` and gives every line (with its newline) to ``on_line``, a function or a queue.

    ``on_line`` is called on a thread of its own; an exception from it (a disk that is full) ends the probe, and its
    text is what :meth:`ended` says. The probe's log goes to the file ``config["log"]``, if that is given.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        on_line: Callable[[bytes], None] | _Queue,
        *,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._config = {**config, "intern_base": config.get("intern_base") or 0}
        self._log = Path(config["log"]) if config.get("log") else None
        self._deliver: Callable[[bytes], None] = on_line if callable(on_line) else on_line.put
        self._command = tuple(command)
        self._child: Child | None = None
        self._stopping = threading.Event()
        self._ended: str | None = None
        self._heard = Heard()
        self._deaths: deque[float] = deque(maxlen=len(_DELAYS))
        self._thread = threading.Thread(target=self._run, name="probe supervisor", daemon=True)
        self.failed = False
        """It ended for another reason than stop() or its own duration."""

    def start(self) -> None:
        """Start the probe; comes back at once."""
        self._origin: int = self._config.get("origin_ns") or time.monotonic_ns()
        self._config["origin_ns"] = self._origin
        self._thread.start()

    def ended(self) -> str | None:
        """Why no more lines will come, as a sentence; None while the probe runs or is being restarted."""
        return self._ended

    def send(self, command: Mapping[str, Any]) -> None:
        """Give the probe a command; it is lost while the probe is being restarted."""
        child = self._child
        if child is not None:
            child.send(json.dumps(dict(command)).encode() + b"\n")

    def stop(self) -> None:
        """End the probe and wait for that, at most 3 seconds; what it wrote until then is delivered."""
        self._stopping.set()
        if not self._thread.is_alive() or self._thread is threading.current_thread():
            return
        self.send({"do": "stop"})
        self._thread.join(_ASK)
        for number, patience in ((signal.SIGTERM, _TERMINATE), (signal.SIGKILL, _KILL)):
            child = self._child
            if not self._thread.is_alive():
                return
            if child is not None:
                child.signal(number)
            self._thread.join(patience)

    def _run(self) -> None:
        try:
            while self._ended is None:
                self._after(*self._one_life())
        except Exception as error:
            self.failed = True
            self._ended = str(error) or type(error).__name__

    def _one_life(self) -> tuple[int, bool]:
        """Exit status (negative: a signal), and whether it was killed because it hung."""
        child = Child(self._command, json.dumps(self._config).encode() + b"\n", self._log)
        self._child = child
        if self._stopping.is_set():
            child.send(b'{"do":"stop"}\n')
        try:
            for raw in child.lines():
                self._heard.note(raw)
                self._deliver(raw)
        finally:
            self._child = None
            status = child.reap()
        return status, child.silent

    def _after(self, status: int, silent: bool) -> None:
        if self._stopping.is_set():
            self._ended = "the measuring process was stopped."
        elif status == 0:
            self._ended = "the measuring process has done what it was asked to do."
        elif status == _USAGE:
            self._give_up("the measuring process refused its configuration")
        else:
            self._restart("it hung" if silent else _cause(status), status)

    def _restart(self, cause: str, status: int) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        recent = sum(now - death < _WITHIN for death in self._deaths)
        if recent >= len(_DELAYS):
            why = f"the measuring process died {recent} times within a minute (the last time: {cause})"
            self._give_up(why, _remedy(status))
            return
        if self._stopping.wait(_DELAYS[recent - 1]):
            self._ended = "the measuring process was stopped."
            return
        look = f" (its log: {self._log})" if self._log else ""
        remedy = f"if it goes on dying, run gaptop doctor --report{look}."
        self._mark("probe_restarted", f"the measuring process died ({cause}) and is started again", remedy, status)
        self._config["intern_base"] += _INTERN_STEP
        self._config["restart"] = self._heard.header

    def _give_up(self, why: str, remedy: str = "") -> None:
        look = f"look into {self._log} and " if self._log else ""
        says = f"{why}, so nothing is measured any more; {remedy}{look}run gaptop doctor --report."
        self._mark("probe_ended", says)
        self.failed = True
        self._ended = says

    def _mark(self, what: str, why: str, remedy: str = "", status: int | None = None) -> None:
        """Holes over what the dead probe can no longer tell, and the event; the log hears of it too."""
        now = round((time.monotonic_ns() - self._origin) / 1e9, 6)
        data: dict[str, Any] = {}
        if status is not None:
            data = {"signal": _signal_name(-status)} if status < 0 else {"exit_code": status}
        holes = list(self._heard.holes(now, "the measuring process died")) if self._heard.header else []
        lost = min((hole.end - hole.start for hole in holes), default=0.0)
        hole_of = f", with a hole of at least {lost:.1f} s in what is seen" if holes else ""
        says = f"{why}{hole_of}; {remedy}" if remedy else why
        _logger.info(says)
        if not self._heard.header:
            return
        for hole in holes:
            self._deliver(encode(hole))
        self._deliver(encode(Event(now, what, says, data=data)))


def _cause(status: int) -> str:
    return f"by {_signal_name(-status)}" if status < 0 else f"with exit code {status}"


def _remedy(status: int) -> str:
    """What may help where a signal tells of a crash in native code: of that the probe has most in the driver's."""
    if -status not in _CRASHES:
        return ""
    return "start gaptop with --no-gpu if the driver's library crashes (the log names the signal); "


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
