"""The probe's main loop: runs the collectors, keeps the clock of the stream, obeys commands."""

from __future__ import annotations

import json
import logging
import os
import platform
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import gaptop
from gaptop.probe.config import ProbeConfig
from gaptop.probe.inlet import Inlet
from gaptop.probe.outlet import Outlet
from gaptop.probe.runner import Plan, Runner
from gaptop.probe.selfcost import measure
from gaptop.probe.translate import Translator
from gaptop.probe.trigger import BOOST, Trigger
from gaptop.recording.lines import FORMAT, VERSION, Batch, Clock, Event, Header, Line, Tick
from gaptop.recording.redact import redact
from gaptop_collectors.collector import Message

_log: Final = logging.getLogger(__name__)
_TICK: Final = 0.25
_HEALTH: Final = 1.0
_SELF: Final = 2.0
_CLOCK: Final = 60.0
_GOODBYE: Final = 0.7
"""Seconds that the collectors have to close where nobody reads any more, so that a probe is gone within a second of its
parent."""
_HAND_OVER: Final = 1.4
"""Seconds that a recorder has where somebody does: it writes its last window within one, and delivers it."""
_MOST_BOOST: Final = 60.0


class Probe:
    """Runs plans until told to stop. ``run`` is to be called on the main thread, once."""

    def __init__(self, config: ProbeConfig, plans: Sequence[Plan], inlet: Inlet, descriptor: int) -> None:
        self._config = config
        self._origin = time.monotonic_ns() if config.origin_ns is None else config.origin_ns
        self._inlet = inlet
        self._outlet = Outlet(descriptor)
        self._translator = Translator(self._origin, config.intern_base)
        self._trigger = Trigger()
        self._order = threading.Lock()
        """Held while lines are queued, so that a tick never overtakes what was read before it."""
        self._runners = [Runner(plan, self) for plan in plans]
        self._next: dict[Callable[[], None], float] = {}
        self._until = 0.0
        self._stop = ""

    def run(self) -> None:
        """Until a stop command, a closed standard input or output, a signal, or the configured duration."""
        wake = _wake_on_signals(self._on_signal)
        if not self._config.restart:
            self.write([self._header()])
        for runner in self._runners:
            runner.start()
        begun = time.monotonic()
        self._until = begun + (float("inf") if self._config.duration is None else self._config.duration)
        for act in (self._write_clock, self._write_self, self._write_health, self._tick):
            self._next[act] = begun
        while not self._stop:
            readable, _, _ = select.select([self._inlet.descriptor, wake], [], [], self._until_next())
            if wake in readable:
                os.read(wake, 64)
            if self._inlet.descriptor in readable:
                self._obey()
            self._do_what_is_due()
            if self._outlet.broken:
                self._stop = "nobody reads the stream any more"
            elif time.monotonic() >= self._until:
                self._stop = "the time is over"
        _log.info("the probe ends: %s", self._stop)
        self._end()

    # For the runners (see runner.Exit).

    def accept(self, runner: Runner, messages: Sequence[Message]) -> None:
        with self._order:
            now = time.monotonic_ns()
            lines = [line for message in messages for line in self._translator.translate(message, now)]
            for line in lines:
                if isinstance(line, Batch):
                    self._trigger.see(line)
            runner.told(lines)
            self._outlet.put(lines)

    def write(self, lines: Iterable[Line]) -> None:
        with self._order:
            self._outlet.put(lines)

    def seconds(self) -> float:
        return round((time.monotonic_ns() - self._origin) / 1e9, 6)

    def log_hint(self) -> str:
        return f"the log {self._config.log}" if self._config.log else "its log"

    # The main loop's duties.

    def _until_next(self) -> float:
        return max(0.0, min(self._until, *self._next.values()) - time.monotonic())

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        for act, due in self._next.items():
            if due <= now:
                act()

    def _again(self, act: Callable[[], None], seconds: float) -> None:
        now = time.monotonic()
        due = self._next[act] + seconds
        self._next[act] = due if due > now else now + seconds

    def _tick(self) -> None:
        self._again(self._tick, _TICK)
        now = time.monotonic()
        for runner in self._runners:
            if late := runner.check(now):
                self.write(late)
        with self._order:
            t = self.seconds()
            boost = self._trigger.due(t)
            self._outlet.put([Tick(t)])
        if boost:
            self._boost(self._runners, BOOST)

    def _write_health(self) -> None:
        self._again(self._write_health, _HEALTH)
        self.write([line for runner in self._runners for line in (*runner.health(), *runner.holes())])

    def _write_self(self) -> None:
        self._again(self._write_self, _SELF)
        self.write([measure(self.seconds())])

    def _write_clock(self) -> None:
        self._again(self._write_clock, _CLOCK)
        utc = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.write([Clock(self.seconds(), utc, time.clock_gettime_ns(time.CLOCK_BOOTTIME))])

    def _boost(self, runners: Iterable[Runner], seconds: float) -> None:
        for runner in runners:
            runner.boost(seconds)

    # Commands.

    def _obey(self) -> None:
        self._inlet.read()
        for text in self._inlet.take():
            self._command(text)
        if self._inlet.ended and not self._stop:
            self._stop = "the program that started the probe has closed its standard input"

    def _command(self, text: bytes) -> None:
        try:
            body: Any = json.loads(text)
            what = body.get("do")
        except (ValueError, AttributeError, RecursionError):
            body, what = {}, None
        if what == "stop":
            self._stop = "told to"
        elif what == "boost":
            seconds = body.get("seconds", BOOST)
            if not isinstance(seconds, int | float) or not 0 < seconds <= _MOST_BOOST:
                seconds = BOOST
            self._boost(self._runners, float(seconds))
            self._event(f"sampling closer for {seconds:g} s, as asked.", {"do": "boost", "seconds": seconds})
        elif what == "handover":
            recorders = [runner for runner in self._runners if runner.plan.recorder]
            self._boost(recorders, BOOST)
            says = "the thread recorders hand over now, as asked." if recorders else "there is no thread recorder."
            self._event(says, {"do": "handover"})
        else:
            _log.warning("an unknown command was ignored: %s", redact(text[:200].decode(errors="replace")))
            self._event("an unknown command was ignored.", {})

    def _event(self, says: str, data: dict[str, Any]) -> None:
        self.write([Event(self.seconds(), "command", says, data=data)])

    def _on_signal(self, number: int) -> None:
        self._stop = f"signal {signal.Signals(number).name}"

    # Beginning and end.

    def _header(self) -> Header:
        begun = time.time() - (time.monotonic_ns() - self._origin) / 1e9
        return Header(
            format=FORMAT,
            version=VERSION,
            gaptop=gaptop.__version__,
            start_utc=datetime.fromtimestamp(begun, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            start_monotonic_ns=self._origin,
            host={"name": platform.node(), "kernel": platform.release(), "cores": os.cpu_count()},
            simulated=self._config.simulated,
        )

    def _end(self) -> None:
        if select.select([self._inlet.descriptor], [], [], 0)[0]:
            self._inlet.read()  # the signal may be the kernel's, for a parent that has died
        heard = not self._outlet.broken and not self._inlet.ended
        for runner in self._runners:
            runner.stop(finish=heard)
        begun = time.monotonic()
        for runner in self._runners:
            until = begun + (_HAND_OVER if heard and runner.plan.recorder else _GOODBYE)
            if not runner.join(max(0.0, until - time.monotonic())):
                _log.warning("%s did not close in time", runner.plan.name)
        self.write([Tick(self.seconds())])
        self._outlet.close(0.2)


def _wake_on_signals(handler: Callable[[int], None]) -> int:
    """Readable once a signal that ends the probe has come; nothing but a note is taken inside the handler."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    os.set_blocking(readable, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: handler(received))
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable
