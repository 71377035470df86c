"""Who holds the GIL, by py-spy: the share of each thread, and the functions that hold it longest.

Only on request, and only for the process that the device waits for. py-spy looks at each tick for the one thread that
holds the GIL, which costs 0.8 % of a core at 100 Hz however many threads there are; with its starts 1.1 to 1.5 %, on
top of what stacks may cost. A reading is the share of its window's ticks; a thread that was seen before and still
lives, but not in this window, held it in none of them: 0.
"""

from __future__ import annotations

import re
import selectors
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gaptop_collectors.collector import Batch, CollectorError, Hole, Message, SourceInfo
from gaptop_collectors.host import pyspy_command
from gaptop_collectors.host.pyspy_recorder import Recorder, living_threads
from gaptop_collectors.signals import series_key
from gaptop_collectors.target import Processes, ServerProcess

RATE: Final = 100
WINDOW: Final = 5
_ORDER: Final = {"engine": 0, "worker": 1, "server": 2, "api": 3}
_ROOT: Final = re.compile(r"thread \((\d+)\)")
_MOST_FUNCTIONS: Final = 5
_PATIENCE: Final = 3 * WINDOW
_BACK_OFF: Final = (1, 2, 5, 15, 60)


@dataclass(frozen=True, slots=True)
class Held:
    """Ticks in which a thread, and in which a function as the innermost one, held the GIL."""

    threads: Mapping[int, int]
    functions: Mapping[str, int]


def parse(body: bytes) -> Held:
    """py-spy's raw form: ``thread (TID): name;outer (file:line);inner (file:line) TICKS`` on each line.

    Raises ValueError for anything else.
    """
    threads: Counter[int] = Counter()
    functions: Counter[str] = Counter()
    for line in body.decode("utf-8", "replace").splitlines():
        stack, _, ticks = line.rpartition(" ")
        root = _ROOT.match(stack)
        if root is None or not ticks.isdigit():
            raise ValueError(f"py-spy wrote {line[:80]!r}, which is no stack with a count")
        threads[int(root[1])] += int(ticks)
        inner = stack.rpartition(";")[2]
        if inner != stack:
            functions[re.sub(r":\d+\)$", ")", inner)] += int(ticks)
    return Held(threads, functions)


class GilShares:
    """The collector. Its source is ``gil/PID``."""

    name = "host.gil"
    period = 0.5
    deadline = 1.0

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._launcher: pyspy_command.Launcher | None = None
        self._selector: selectors.BaseSelector | None = None
        self._recorder: Recorder | None = None
        self._process: ServerProcess | None = None
        self._seen: set[int] = set()
        self._failures = 0
        self._retry = 0.0
        self._trouble: CollectorError | None = None
        """Why no recorder could be started."""
        self._until = 0

    def open(self) -> Sequence[Message]:
        """Raises :class:`CollectorError` where the process cannot be read: no py-spy, no Python process, no right."""
        self._launcher = pyspy_command.make_launcher(pyspy_command.find_pyspy())
        process = self._wanted()
        refused = pyspy_command.check_right(process.pid)
        if refused is not None:
            raise refused
        self._selector = selectors.DefaultSelector()
        return ()

    def sample(self) -> Sequence[Message]:
        """A window's shares, once in a window. Raises :class:`CollectorError` while there is nobody to watch, and while
        py-spy cannot be started.

        The kernel ends a recorder with the thread that started it: this must always be the same one.
        """
        process = self._wanted()
        out: list[Message] = []
        if self._process != process:
            self._adopt(process)
            out.append(self._describe(None))
        recorder = self._recorder
        if recorder is not None:
            self._read()
            if recorder.poll():
                self._recorder = None
                out += self._finish(recorder)
            elif time.monotonic_ns() - recorder.started_ns > _PATIENCE * 1_000_000_000:
                recorder.kill()
        if self._recorder is None and time.monotonic() >= self._retry:
            self._start(process)
        if self._trouble is not None and not out:
            raise self._trouble
        return out

    def boost(self, seconds: float) -> None:
        """Its windows are as long as its shares need."""

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.abandon()
            self._recorder = None
        if self._selector is not None:
            self._selector.close()
            self._selector = None

    def _wanted(self) -> ServerProcess:
        found = [process for process in self._processes.current() if process.python and process.role in _ORDER]
        if not found:
            raise CollectorError(
                self._processes.why_empty()
                or "No process of this server is Python, so there is no GIL to be held: leave --gil out.",
                state="absent",
            )
        return min(found, key=lambda process: (_ORDER[process.role], process.pid))

    def _adopt(self, process: ServerProcess) -> None:
        if self._recorder is not None:
            self._recorder.abandon()
            self._recorder = None
        self._process, self._failures, self._retry = process, 0, 0.0
        self._seen.clear()
        self._until = time.monotonic_ns()

    def _start(self, process: ServerProcess) -> None:
        assert self._launcher is not None
        assert self._selector is not None
        arguments = pyspy_command.gil_arguments(process.pid, RATE, WINDOW)
        try:
            self._recorder = Recorder(self._launcher, arguments, RATE, self._selector)
            self._trouble = None
        except OSError as error:
            self._back_off()
            says = f"py-spy could not be started ({error}), so GIL shares are missing: gaptop goes on trying."
            self._trouble = CollectorError(says)

    def _read(self) -> None:
        assert self._selector is not None
        for key, _ in self._selector.select(0):
            assert isinstance(key.data, Recorder)
            key.data.readable(key.fd)

    def _finish(self, recorder: Recorder) -> list[Message]:
        assert self._process is not None
        pid, now = self._process.pid, time.monotonic_ns()
        try:
            held = parse(recorder.body)
        except ValueError as error:
            return self._failed(f"{error}, so a window is lost", now)
        # Of a recorder that ended before its time it is not known how many ticks it took.
        ticks = RATE * WINDOW - 1 - recorder.errors
        if recorder.code != 0 or recorder.stopped or ticks < RATE:
            return self._failed(pyspy_command.explain(pid, recorder.output, recorder.code).says, now)
        self._failures = 0
        alive = living_threads(pid)
        self._seen |= set(held.threads)
        if alive is not None:
            self._seen &= alive
        self._until = now
        values = {
            series_key("host.gil", tid=tid): [min(1.0, held.threads.get(tid, 0) / ticks)] for tid in sorted(self._seen)
        }
        top = sorted(held.functions.items(), key=lambda item: (-item[1], item[0]))[:_MOST_FUNCTIONS]
        told = [(name, min(1.0, count / ticks)) for name, count in top]
        return [self._describe(told), Batch(self._source, [now], values)]

    def _failed(self, reason: str, now: int) -> list[Message]:
        self._back_off()
        begun, self._until = self._until, now
        return [Hole(self._source, begun, now, reason)]

    def _back_off(self) -> None:
        self._retry = time.monotonic() + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1

    @property
    def _source(self) -> str:
        assert self._process is not None
        return f"gil/{self._process.pid}"

    def _describe(self, told: Sequence[tuple[str, float]] | None) -> SourceInfo:
        assert self._process is not None
        process = self._process
        says = f"{RATE} Hz, {WINDOW} s windows"
        if told is not None:
            says += "; held by " + (", ".join(f"{name} {part:.0%}" for name, part in told) or "nobody")
        return SourceInfo(
            source=self._source,
            collector=self.name,
            kind="process",
            entity={
                "pid": process.pid,
                "role": process.role,
                "name": process.name,
                "functions": [{"function": name, "share": round(part, 3)} for name, part in told or ()],
            },
            signals=("host.gil",),
            period=float(WINDOW),
            window=float(WINDOW),
            lag=0.25,
            error=0.7,
            says=says,
        )
