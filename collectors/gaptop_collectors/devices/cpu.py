"""The CPU as the device of a server that computes on it (llama-server without a GPU, vLLM's CPU build).

``device.busy`` of a window is the on-core time of the compute threads, divided by the window and by their number:
with one compute thread (``-t 1``, ``OMP_NUM_THREADS=1``) the share of the window that this thread was on a core.

Compute threads, of the processes that run the model (``worker`` where there are any, else ``engine`` and ``server``;
never ``api``): the main thread (llama-server decodes there, and so does vLLM's engine or worker), and each other thread
once it has wanted a core (on it or waiting for it) for at least half of some 0.2 s in which the main thread did as
well. That admits OpenMP workers and keeps out HTTP pools and I/O threads, which look the same by name.

Known doubt: a thread that waits by spinning (OpenMP between regions, sched_yield, vLLM's message queues) counts as
busy.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.devices.cpu_threads import PROC, ThreadClock, Times, opens_gpu, threads_of
from gaptop_collectors.target import Processes, ServerProcess

PERIOD_S: Final = 0.1
LATE: Final = 1.5
"""A sample later than this many periods leaves a hole: its mean says nothing about the parts."""
ADMIT_S: Final = 0.2
ADMIT_SHARE: Final = 0.5
RESCAN_S: Final = 1.0
GPU_AGAIN_S: Final = 5.0
SETTLED_S: Final = 60.0
"""Where the host has GPUs, a server this young may still be about to open one."""


class _Thread:
    """A thread: its clock, what it had at the last sample, and what it wanted since the last look at who computes."""

    def __init__(self, pid: int, clock: ThreadClock) -> None:
        self.pid = pid
        self.clock = clock
        self.main = clock.tid == pid
        self.compute = self.main
        self.last: Times = clock.read()
        self.wanted_ns = 0

    def advance(self) -> int:
        """Nanoseconds on a core since the last call. Raises OSError when the thread is gone."""
        now = self.clock.read()
        on_core = now.on_core_ns - self.last.on_core_ns
        self.wanted_ns += on_core + now.waiting_ns - self.last.waiting_ns
        self.last = now
        return on_core


class CpuDevice:
    """``label`` names the device apart from its pids (default: the name of its first process). ``on_gpu`` tells of a
    pid that it is known to be on a GPU, also where this user may not see which devices it has open."""

    name = "devices.cpu"
    deadline = 0.5

    def __init__(
        self,
        processes: Processes,
        label: str = "",
        proc: Path = PROC,
        dev: Path = Path("/dev"),
        on_gpu: Callable[[int], bool] = lambda pid: False,
    ) -> None:
        self.period = PERIOD_S
        self._processes = processes
        self._label = label
        self._proc = proc
        self._dev = dev
        self._on_gpu = on_gpu
        self._threads: dict[int, _Thread] = {}
        self._servers: tuple[ServerProcess, ...] = ()
        self._sampled_ns = 0
        self._reached_ns: int | None = None
        self._rescan_at = 0.0
        self._gpu_at = 0.0
        self._admitted_ns = 0
        self._sent: SourceInfo | None = None

    def open(self) -> Sequence[Message]:
        self._servers = self._computing()
        self._refuse_gpu()
        now = time.monotonic_ns()
        self._scan()
        self._sampled_ns = self._admitted_ns = now
        self._sent = self._info()
        messages: list[Message] = [self._sent]
        if self._reached_ns is not None:
            messages.append(
                Hole(self._sent.source, self._reached_ns, now, "the server's compute threads were not seen")
            )
        return [*messages, Delivered(self._sent.source, now)]

    def sample(self) -> Sequence[Message]:
        now = time.monotonic()
        if now >= self._rescan_at and self._follow():
            return self._restarted()
        if now >= self._gpu_at:
            self._refuse_gpu()
        on_core = 0
        for tid, thread in list(self._threads.items()):
            try:
                ran = thread.advance()
            except (OSError, ValueError):
                self._threads.pop(tid).clock.close()
                continue
            on_core += ran if thread.compute else 0
        count = sum(thread.compute for thread in self._threads.values())
        before, self._sampled_ns = self._sampled_ns, time.monotonic_ns()
        elapsed = self._sampled_ns - before
        info = self._info()
        messages: list[Message] = [info] if info != self._sent else []
        self._sent = info
        if count:
            late = elapsed > LATE * PERIOD_S * 1e9
            if late:
                end = self._sampled_ns - int(PERIOD_S * 1e9)
                messages.append(Hole(info.source, before, end, "gaptop's own sample came late"))
            busy = min(1.0, max(0.0, on_core / elapsed / count))
            messages.append(Batch(info.source, [self._sampled_ns], {"device.busy": [busy]}))
        else:
            messages.append(Hole(info.source, before, self._sampled_ns, "no compute thread is left"))
        self._admit()
        self._reached_ns = self._sampled_ns
        return [*messages, Delivered(info.source, self._sampled_ns)]

    def boost(self, seconds: float) -> None:
        """Nothing to gain: below 100 ms the kernel's own 4 ms steps would show."""

    def close(self) -> None:
        for thread in self._threads.values():
            thread.clock.close()
        self._threads = {}

    def _computing(self) -> tuple[ServerProcess, ...]:
        current = self._processes.current()
        chosen = tuple(process for process in current if process.role == "worker")
        chosen = chosen or tuple(process for process in current if process.role in ("engine", "server"))
        if not chosen:
            why = self._processes.why_empty() or "no process of the server is known to run the model"
            raise CollectorError(f"There is no CPU device: {why.rstrip('.')}.", state="absent")
        return chosen

    def _refuse_gpu(self) -> None:
        """Raises CollectorError unless the server computes on the CPU, as far as can be told."""
        self._gpu_at = time.monotonic() + GPU_AGAIN_S
        if any(self._on_gpu(process.pid) for process in self._servers):
            raise CollectorError("", state="ended")
        if not any((self._dev / name).exists() for name in ("nvidiactl", "nvidia0", "kfd", "dxg", "nvmap")):
            return
        for process in self._servers:
            opened = opens_gpu(process.pid, self._proc)
            if opened:
                raise CollectorError("", state="ended")
            if opened is None:
                raise CollectorError(
                    f"This user may not see which devices process {process.pid} has open, so no CPU device is shown on "
                    "this host with GPUs: run gaptop as the server's user, or with sudo.",
                    state="refused",
                )
            if self._age_s(process) < SETTLED_S:
                raise CollectorError(
                    "The server is less than a minute old and may still open a GPU, so no CPU device is shown yet; "
                    "gaptop looks again by itself.",
                    state="absent",
                )

    @staticmethod
    def _age_s(process: ServerProcess) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")

    def _follow(self) -> bool:
        """New threads, gone ones; True for other processes than before: the server was started again."""
        servers = self._computing()
        changed = {(one.pid, one.started) for one in servers} != {(one.pid, one.started) for one in self._servers}
        if changed:
            self.close()
            self._servers = servers
            self._gpu_at = 0.0
        self._scan()
        return changed

    def _restarted(self) -> Sequence[Message]:
        before, self._sampled_ns = self._sampled_ns, time.monotonic_ns()
        self._admitted_ns = self._reached_ns = self._sampled_ns
        self._sent = info = self._info()
        gone = Hole(info.source, before, self._sampled_ns, "the server's processes changed")
        return [info, gone, Delivered(info.source, self._sampled_ns)]

    def _scan(self) -> None:
        self._rescan_at = time.monotonic() + RESCAN_S
        alive: set[int] = set()
        for process in self._servers:
            for tid in threads_of(process.pid, self._proc):
                alive.add(tid)
                if tid not in self._threads:
                    self._begin(process.pid, tid)
        for tid in self._threads.keys() - alive:
            self._threads.pop(tid).clock.close()

    def _begin(self, pid: int, tid: int) -> None:
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            clock = ThreadClock(pid, tid, self._proc)
            try:
                self._threads[tid] = _Thread(pid, clock)
            except (OSError, ValueError):
                clock.close()

    def _admit(self) -> None:
        span = self._sampled_ns - self._admitted_ns
        if span < ADMIT_S * 1e9 * 0.9:
            return
        enough = ADMIT_SHARE * span
        working = {thread.pid for thread in self._threads.values() if thread.main and thread.wanted_ns >= enough}
        for thread in self._threads.values():
            thread.compute = thread.compute or (thread.pid in working and thread.wanted_ns >= enough)
            thread.wanted_ns = 0
        self._admitted_ns = self._sampled_ns

    def _info(self) -> SourceInfo:
        label = self._label or self._servers[0].name or "server"
        compute = [thread for thread in self._threads.values() if thread.compute]
        coarse = any(thread.clock.coarse for thread in compute)
        noun = "thread" if len(compute) == 1 else "threads"
        says = (
            f"CPU time of the server's {len(compute)} compute {noun}; a thread that waits by spinning (OpenMP, "
            "sched_yield) counts as busy."
        )
        if coarse:
            says += " This kernel only counts in steps of 10 ms."
        return SourceInfo(
            source=f"cpu/{label}",
            collector=self.name,
            kind="device",
            entity={
                "uuid": f"cpu/{label}",
                "name": "cpu",
                "kind2": "cpu",
                "index": 0,
                "pids": [process.pid for process in self._servers],
            },
            signals=["device.busy"],
            period=PERIOD_S,
            unsupported={"device.power": "a CPU's power is not measured"},
            window=PERIOD_S,
            window_measured=True,
            error=0.01 if coarse else 0.004,
            says=says,
        )
