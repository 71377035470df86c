"""Plays a scenario as fast as it can: the lines that gaptop's probe would write beside it, and the truth of that run.

What happens is the simulation's; when it is seen, and as what, is the view's. The same scenario, seed and view give the
same bytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, Protocol

import gaptop
from gaptop.lab.core.events import (
    Condition,
    DeviceSpan,
    Event,
    HostSpan,
    Idle,
    Limit,
    Open,
    Slow,
    Stall,
    StepDone,
)
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.fast.conditions import Conditions
from gaptop.lab.fast.demand import OpenRequests
from gaptop.lab.fast.host import Host
from gaptop.lab.fast.machine import CORES, crowded, owners, processes
from gaptop.lab.fast.nvml import ABSENT, BULK, Gpus
from gaptop.lab.fast.outages import Outages
from gaptop.lab.fast.plan import CRITICAL, plan_of, rests_of
from gaptop.lab.fast.sampled import Interned
from gaptop.lab.fast.scrapes import Scrapes
from gaptop.lab.fast.stacks import StackSampler, refused
from gaptop.lab.fast.states import ERROR, LATE, WINDOW, RunStates
from gaptop.lab.fast.threads import ThreadLog
from gaptop.lab.fast.truth import Truth
from gaptop.lab.fast.view import View
from gaptop.recording.lines import FORMAT, VERSION, Clock, Header, Health, Line, Tick

TICK: Final = 0.25
_HEALTH: Final = 1.0
_CLOCK: Final = 60.0
_THROTTLED_CORES: Final = 2.0
_BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MONOTONIC_NS: Final = 3_600_000_000_000
_NO_PYTHON: Final = (
    "No process of this server is Python, so py-spy has nothing to read: its threads are read from /proc only (run "
    "state and waits, no stacks)."
)

Act = Callable[[float], Iterator[Line]]


class _Source(Protocol):
    due: float


class _Grid:
    """What happens each so many seconds, whatever else does."""

    def __init__(self, first: float, every: float, act: Act) -> None:
        self.due = first
        self._every = every
        self._act = act

    def act(self, now: float) -> Iterator[Line]:
        self.due += self._every
        return self._act(now)


class Fast:
    """One run. Take ``lines`` once and to its end; ``truth`` is then whole."""

    def __init__(self, scenario: Scenario, seed: int, seconds: float, view: View | None = None) -> None:
        self.view = view = view or View()
        self.truth = Truth(view.start_s)
        self._scenario = scenario
        self._seed = seed
        self._zero = zero = view.start_s
        self._end = zero + seconds
        config = scenario.engine
        self._processes = processes(view.dialect, config)
        if view.pyspy is not None:
            self._processes = crowded(self._processes, view.pyspy.idle_threads)
        self._logs = {
            process.pid: [ThreadLog(thread, zero, view.sync_spins) for thread in process.threads]
            for process in self._processes
        }
        self._by_name = {log.thread.says: log for logs in self._logs.values() for log in logs if log.thread.says}
        self._engines = [log for name, log in self._by_name.items() if name.startswith("engine")]
        self._conditions = Conditions()
        self._open = OpenRequests()
        pids = tuple(process.pid for process in self._processes)
        self._scrapes = Scrapes(config, view, pids, len(self._engines), zero, self._random("scrapes"))
        self._gpus = self._devices(config) if view.nvml else None
        if self._gpus is not None:
            for start, end in view.own_calls:
                self._gpus.condition(Condition(zero + start, zero + end, "own_call", 1.0))
        self._states = {process.pid: RunStates(process, self._logs[process.pid], zero) for process in self._processes}
        self._host = Host(self._processes, _quota(scenario), self._conditions, zero) if view.host else None
        for condition in scenario.beside:
            if condition.what != "foreign_idle":
                self._conditions.add(condition)
            elif self._gpus is not None:
                self._gpus.condition(condition)
        self._samplers = self._watched() if view.stacks_hz is not None else []
        self._accounts = self._random("accounts")
        self._waited = 0.0
        self._paging_until = zero - 1.0
        self._queue: list[tuple[float, int, _Source, Act]] = []

    def _devices(self, config: EngineConfig) -> Gpus:
        ranks = config.tensor_parallel_size
        return Gpus(self.view, owners(self._processes, config), ranks, self._zero, self._random("nvml"))

    def lines(self) -> Iterator[Line]:
        """The stream, from its header to its last tick."""
        lines = self._lines()
        return Outages(self.view.outages).filter(lines) if self.view.outages else lines

    def _lines(self) -> Iterator[Line]:
        yield self._header()
        self._plan()
        end, queue = self._end, self._queue
        for event in Simulation(self._scenario, self._seed).events(end):
            until = min(event.start, end)
            while queue[0][0] <= until:
                yield from self._next()
            self._take(event)
        while queue[0][0] <= end:
            yield from self._next()
        for log in self._by_name.values():
            log.reach(end)
        for sampler in self._samplers:
            yield from sampler.finish(end)
        yield Tick(self._t(end))

    def _watched(self) -> list[StackSampler]:
        """A sampler for each Python process, the critical ones first, as the real budget plans them."""
        interned, plan = Interned(), plan_of(self._processes, self.view)
        rests = rests_of(plan, self._end - self._zero)
        python = [process for process in self._processes if process.python]
        line = sorted(python, key=lambda process: process.role not in CRITICAL)
        return [
            StackSampler(
                *(process, self._logs[process.pid], self.view, interned, plan, rests, place, self._zero),
                self._random(f"stacks/{process.pid}"),
            )
            for place, process in enumerate(line)
        ]

    def told(self) -> Iterator[str]:
        """The truth as JSON lines, once the stream has been taken."""
        return self.truth.lines(self._scenario.name, self._seed, self._end - self._zero, self.view)

    def _plan(self) -> None:
        zero = self._zero
        if self._gpus is not None:
            self._add(0, self._gpus, self._gpus.act)
        self._add(1, self._scrapes, self._scrape)
        for number, sampler in enumerate(self._samplers):
            self._add(2 + number, sampler, sampler.act)
        windows = _Grid(zero + WINDOW + LATE, WINDOW, self._windows)
        self._add(100, windows, windows.act)
        if self._host is not None:
            self._add(101, self._host, self._look_at_host)
        for order, every, act in ((102, _CLOCK, self._clock), (103, _HEALTH, self._health), (104, TICK, self._tick)):
            grid = _Grid(zero + TICK, every, act)
            self._add(order, grid, grid.act)

    def _add(self, order: int, source: _Source, act: Act) -> None:
        heapq.heappush(self._queue, (source.due, order, source, act))

    def _next(self) -> Iterator[Line]:
        now, order, source, act = self._queue[0]
        yield from act(now)
        heapq.heapreplace(self._queue, (source.due, order, source, act))

    def _take(self, event: Event) -> None:
        if isinstance(event, HostSpan):
            self._by_name[event.thread].add(event, event.start < self._paging_until)
            if event.phase in BULK and self._gpus is not None:
                self._gpus.bulk(event.start, event.end)
        elif isinstance(event, DeviceSpan):
            if self._gpus is not None:
                self._gpus.add(event)
            self._scrapes.launched(event)
        elif isinstance(event, StepDone):
            self._scrapes.step(event)
            if len(self._engines) == 1:  # of two, a message does not say whose the requests are
                self._engines[0].held = event.running + event.waiting > 0
        elif isinstance(event, Idle | Stall | Slow):
            self.truth.add(event)
        elif isinstance(event, Open):
            self._open.add(event)
            if not self._open.any:
                # Everybody has hung up, and no message says so.
                for log in self._engines:
                    log.held = False
        elif isinstance(event, Limit):
            if self._gpus is not None:
                self._gpus.limit(event)
        elif isinstance(event, Condition):
            self._conditions.add(event)
            if event.what == "major_faults":
                self._paging_until = event.end
            if self._gpus is not None and event.what in ("own_call", "foreign"):
                self._gpus.condition(event)

    # What is due.

    def _scrape(self, now: float) -> Iterator[Line]:
        # llama-server answers from threads of its own; vLLM's event loop also handles the outputs.
        handled = now if self.view.dialect == "llamacpp" else self._by_name["output"].free
        free = max(handled, self._conditions.end_of("stopped", now))
        return self._scrapes.act(now, free)

    def _windows(self, now: float) -> Iterator[Line]:
        end = now - LATE
        crowd = self._conditions.during("runnable", end - WINDOW, end) / WINDOW
        stopped = self._conditions.at("stopped", end) > 0
        for process in self._processes:
            shares = {}
            booked = end + ERROR * (2 * self._accounts.random() - 1)
            for log in self._logs[process.pid]:
                log.reach(now)
                shares[log.thread.tid] = found = log.shares(booked)
                self._waited += found.waited
            if self.view.states:
                front = process.role in ("api", "server")
                beside = crowd if process.pid == self._processes[-1].pid else 0.0
                yield from self._states[process.pid].window(end, shares, beside, stopped and front, now)
        oldest = min((sampler.reads_from for sampler in self._samplers), default=end)
        for logs in self._logs.values():
            for log in logs:
                log.forget(oldest)

    def _look_at_host(self, now: float) -> Iterator[Line]:
        assert self._host is not None
        ran = {pid: sum(log.ran_total for log in logs) for pid, logs in self._logs.items()}
        waited, self._waited = self._waited, 0.0
        opened, unread = self._open.count(now, self._conditions.start_of("stopped", now))
        yield from self._host.act(now, ran, waited, opened, unread)
        self._conditions.forget(now - 1.0)

    def _health(self, now: float) -> Iterator[Line]:
        t = self._t(now)
        if self._gpus is not None:
            yield from self._gpus.health(now)
        else:
            yield Health(t, "devices.nvml", "devices.nvml", "absent", says=ABSENT)
        yield self._scrapes.health(now)
        for sampler in self._samplers:
            yield sampler.health(now)
        if not self._samplers:
            python = next((process.pid for process in reversed(self._processes) if process.python), None)
            trouble = None if python is None else refused(python)
            state, says = ("absent", _NO_PYTHON) if trouble is None else (trouble.state, trouble.says)
            yield Health(t, "host.threads_pyspy", "host.threads_pyspy", state, says=says)
        if self.view.states:
            for states in self._states.values():
                yield states.health(now)
        if self._host is not None:
            yield from self._host.health(now)

    def _tick(self, now: float) -> Iterator[Line]:
        yield Tick(self._t(now))

    def _clock(self, now: float) -> Iterator[Line]:
        t = self._t(now)
        utc = (_BEGAN + timedelta(seconds=t)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        yield Clock(t, utc, _MONOTONIC_NS + round(t * 1e9))

    def _header(self) -> Header:
        return Header(
            format=FORMAT,
            version=VERSION,
            gaptop=gaptop.__version__,
            start_utc=_BEGAN.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            start_monotonic_ns=_MONOTONIC_NS,
            host={"name": "lab", "kernel": "", "cores": CORES},
            simulated=True,
        )

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _random(self, what: str) -> Random:
        return Random(f"{self._seed}/{what}")


def _quota(scenario: Scenario) -> float:
    """Cores; 0 where there is none. Who is throttled has one."""
    throttled = any(fault.place == "throttle" for fault in scenario.faults)
    return scenario.quota or (_THROTTLED_CORES if throttled else 0.0)


def stream(scenario: Scenario, seed: int, seconds: float, view: View | None = None) -> Iterator[Line]:
    """The lines alone, for whoever needs no truth."""
    return Fast(scenario, seed, seconds, view).lines()
