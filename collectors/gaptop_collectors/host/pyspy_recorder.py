"""One `py-spy record` on one process, writing into a pipe that we drain. Driven by a selector, never blocking.

The pipe has no name: py-spy opens it through its own /proc/self/fd, and nothing is left on a disk, whoever is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from typing import Final

from gaptop_collectors.host import pyspy_command, pyspy_trace
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.pyspy_trace import StackTable, Trace

_CHUNK: Final = 1 << 18
_MOST_TEXT: Final = 1 << 16
_MOST_BODY: Final = 64 << 20
_CLOCK_LOOKS: Final = 5
_COUNTS: Final = re.compile(r"Samples: (\d+) Errors: (\d+)")


class Recorder:
    """States: started, live (py-spy says that it samples), asked to stop, ended. All times are monotonic ns."""

    def __init__(
        self, launcher: pyspy_command.Launcher, arguments: Sequence[str], rate: int, selector: selectors.BaseSelector
    ) -> None:
        self.rate = rate
        self.live_ns: int | None = None
        self.asked_ns: int | None = None
        self.heard_ns = 0
        """When something last came from it."""
        self.ended = False
        self.code: int | None = None
        self.cpu_seconds = 0.0
        self.start_seconds = 0.0
        """CPU time that it took to begin (ELF files, attaching); ``cpu_seconds`` is all of it, known at the end."""
        self._told_seconds = 0.0
        self._waits: int | None = None
        self._selector = selector
        self._written_ns: int | None = None
        self._body = bytearray()
        self._texts: dict[int, bytearray] = {}
        self._watched: set[int] = set()
        self._body_fd, writable = os.pipe2(os.O_CLOEXEC)
        self.started_ns = time.monotonic_ns()
        self._wall_offset = _wall_offset()
        try:
            self._process = subprocess.Popen(
                [*launcher.command, *arguments, "-o", f"/proc/self/fd/{writable}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=pyspy_command.environment(),
                pass_fds=(writable,),
                preexec_fn=launcher.in_child,
                process_group=0,
            )
        except OSError:
            os.close(self._body_fd)
            raise
        finally:
            os.close(writable)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        for fd in (self._out, self._err, self._body_fd):
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ, self)
            self._watched.add(fd)
        self._texts = {self._out: bytearray(), self._err: bytearray()}

    def readable(self, fd: int) -> None:
        """Something can be read from one of our descriptors, or its other end is closed."""
        now = time.monotonic_ns()
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._unwatch(fd)
            return
        self.heard_ns = now
        if fd == self._body_fd:
            self._written_ns = self._written_ns or now
            self._body += data
            if len(self._body) > _MOST_BODY:
                self.kill()
        elif len(self._texts[fd]) < _MOST_TEXT:
            self._texts[fd] += data
            if self.live_ns is None and fd == self._out and b"Sampling process" in self._texts[fd]:
                self.live_ns = now
                self.start_seconds = _cpu_seconds(self._process.pid)
                self._waits = _waits(self._process.pid)

    def poll(self) -> bool:
        """Whether it has ended and all that it wrote is here."""
        if self.ended:
            return True
        if self._watched & {self._out, self._err}:
            return False
        if self.code is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)  # unlike Popen.wait it tells the CPU time
            if pid == 0:
                return False
            self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_seconds = max(self.cpu_seconds, usage.ru_utime + usage.ru_stime)
        while self._body_fd in self._watched:  # its writer is gone: this ends at the end of the file
            self.readable(self._body_fd)
        self.ended = True
        self._release()
        return True

    @property
    def ending(self) -> bool:
        """Whether it has closed its output but was not seen to end: no descriptor will tell, so it must be polled."""
        return not self.ended and not self._watched & {self._out, self._err}

    def stop(self) -> None:
        """Ask it to write and end: SIGINT, since SIGTERM writes nothing."""
        if self.asked_ns is None:
            self.asked_ns = time.monotonic_ns()
            self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, with the loss of what it has not written. The watched process is not touched by this."""
        self._signal(signal.SIGKILL)

    def abandon(self) -> None:
        """Kill it, wait for it and release everything."""
        if self.code is None:
            self.kill()
            self.code = self._process.wait()
        self.ended = True
        self._release()

    @property
    def sampled(self) -> bool:
        """Whether it has surely looked since it is live: py-spy's main thread waits once for its sampler, and once more
        after each sample (measured, 0.4.3). True where the kernel does not tell."""
        waits = _waits(self._process.pid) if self.code is None else None
        return waits is None or self._waits is None or waits >= self._waits + 2

    def used_seconds(self) -> float:
        """CPU time until now, or all of it once it has ended."""
        if self.code is None:
            self.cpu_seconds = max(self.cpu_seconds, _cpu_seconds(self._process.pid))
        return self.cpu_seconds

    def newly_used(self) -> float:
        """CPU time since the last call. The last one is to come after it has ended."""
        before, self._told_seconds = self._told_seconds, self.used_seconds()
        return self._told_seconds - before

    @property
    def output(self) -> str:
        """All that py-spy said."""
        return b"".join(self._texts.values()).decode("utf-8", "replace")

    @property
    def body(self) -> bytes:
        """What it wrote."""
        return bytes(self._body)

    @property
    def behind(self) -> bool:
        """Whether py-spy could not keep its rate."""
        return "behind in sampling" in self.output

    @property
    def stopped(self) -> bool:
        """Whether it ended before its time: asked to, or because the process ended."""
        return "Stopped sampling" in self.output

    @property
    def errors(self) -> int:
        """Reads that failed."""
        match = _COUNTS.search(self.output)
        return int(match[2]) if match is not None else 0

    @property
    def error_share(self) -> float:
        """Share of samples that py-spy could not read."""
        match = _COUNTS.search(self.output)
        tries = int(match[1]) + int(match[2]) if match is not None else 0
        return self.errors / tries if tries else 0.0

    def trace(
        self, table: StackTable, delay_ns: int, not_before_ns: int | None, join_ns: int, alive: Collection[int] | None
    ) -> tuple[Trace, int] | None:
        """What it recorded, and the error bound of its clock in ns; None when it wrote nothing.

        Raises :class:`gaptop_collectors.host.pyspy_trace.BadTrace`.
        """
        if not self._body or self._written_ns is None:
            return None
        events = pyspy_trace.parse_events(bytes(self._body))
        self._body.clear()
        steady = abs(_wall_offset() - self._wall_offset) < 500_000
        log = pyspy_trace.bracket(self.output, self._wall_offset) if steady else None
        latest = self.live_ns or self._written_ns
        origin = pyspy_trace.find_origin(
            pyspy_trace.last_us(events), self.asked_ns, self._written_ns, self.started_ns, latest, log
        )
        trace = pyspy_trace.read_trace(
            events, origin.at_ns, delay_ns, table, not_before_ns=not_before_ns, join_ns=join_ns, alive=alive
        )
        return None if trace is None else (trace, origin.error_ns)

    def _signal(self, number: int) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _unwatch(self, fd: int) -> None:
        if fd in self._watched:
            self._watched.discard(fd)
            self._selector.unregister(fd)

    def _release(self) -> None:
        for fd in tuple(self._watched):
            self._unwatch(fd)
        if self._body_fd >= 0:
            os.close(self._body_fd)
            self._body_fd = -1
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


def _wall_offset() -> int:
    """CLOCK_REALTIME - CLOCK_MONOTONIC in ns: the closest of some looks, for we may be kept off our core between two
    clocks (13 ms were seen, and py-spy's log would be that far off)."""
    looks = []
    for _ in range(_CLOCK_LOOKS):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after - before, wall - (before + after) // 2))
    return min(looks)[1]


def _waits(pid: int) -> int | None:
    """How often a process's main thread has given up its core to wait; None where that cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/status", "rb") as file:
        return int(file.read().partition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
    return None


def _cpu_seconds(pid: int) -> float:
    """Of all threads, in nanoseconds where the kernel tells them, else in clock ticks (as long as the start)."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/schedstat", "rb") as file:
                total += int(file.read().split()[0])
    if not total:
        usage = read_usage(pid)
        return usage.cpu_seconds if usage is not None else 0.0
    return total / 1e9


def living_threads(pid: int) -> set[int] | None:
    """The process's thread ids; None where they cannot be read any more."""
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return None
