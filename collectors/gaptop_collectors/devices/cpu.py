"""The CPU as the device of a server that computes on it (llama-server without a GPU, vLLM's CPU build).

``device.busy`` of a window is the on-core time of the compute threads (cpu_pool.py tells which they are), without what
is shown to be busy-waiting (cpu_spin.py), divided by the window and by the number of cores that they can use at once:
their own number, or the cores they may run on, or their cgroup's quota, whichever is least. ``device.spinning`` is the
busy-waiting in the same measure, so that the two together are the time on a core.

A window is judged, and delivered, once the next one is known: the kernel books a wait for a core when it ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.devices.cpu_cores import affine, quota
from gaptop_collectors.devices.cpu_pool import Pool, Reading
from gaptop_collectors.devices.cpu_server import computing, refuse_gpu
from gaptop_collectors.devices.cpu_threads import PROC
from gaptop_collectors.devices.cpu_words import ENOUGH_NS, Account, Facts, sentence
from gaptop_collectors.target import Processes, ServerProcess

PERIOD_S: Final = 0.1
LATE: Final = 1.5
"""A sample later than this many periods leaves a hole: its mean says nothing about the parts."""
LOOK_S: Final = 0.2
RESCAN_S: Final = 1.0
QUOTA_S: Final = 30.0
TELL_S: Final = 10.0
GPU_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Window:
    """What was read of one window, before it is judged. ``threads`` includes those that ended within it."""

    start_ns: int
    end_ns: int
    readings: Mapping[int, tuple[Pool, Reading]]
    threads: int
    cores: float


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
        affinity: Callable[[int], set[int]] = os.sched_getaffinity,
    ) -> None:
        self.period = PERIOD_S
        self._processes = processes
        self._label = label
        self._proc = proc
        self._dev = dev
        self._on_gpu = on_gpu
        self._affinity = affinity
        self._pools: dict[int, Pool] = {}
        self._servers: tuple[ServerProcess, ...] = ()
        self._held: _Window | None = None
        self._sampled_ns = 0
        self._delivered_ns: int | None = None
        self._looked_ns = 0
        self._rescan_at = self._gpu_at = self._quota_at = self._tell_at = 0.0
        self._cores = 0
        self._quota: float | None = None
        self._account = Account()
        self._told: Account | None = None
        self._sent: SourceInfo | None = None

    def open(self) -> Sequence[Message]:
        self._servers = computing(self._processes)
        self._refuse_gpu()
        self._scan()
        if not self._pools:
            raise CollectorError(
                f"Process {self._servers[0].pid} of the server has just ended, or /proc hides it from this user, so no "
                "CPU device is shown: run gaptop as the server's user, or with sudo.",
                state="absent",
            )
        self._sampled_ns = self._looked_ns = now = time.monotonic_ns()
        self._sent = info = self._info()
        messages: list[Message] = [info]
        if self._delivered_ns is not None:
            messages.append(Hole(info.source, self._delivered_ns, now, "the server's compute threads were not seen"))
        self._delivered_ns = now
        return [*messages, Delivered(info.source, now)]

    def sample(self) -> Sequence[Message]:
        now = time.monotonic()
        if now >= self._rescan_at and self._follow():
            return self._restarted()
        if now >= self._gpu_at:
            self._refuse_gpu()
        window, complete = self._read()
        messages: list[Message] = []
        held, self._held = self._held, window if complete else None
        reached = window.start_ns
        if held is not None:
            messages.append(self._judged(held, window))
        if not complete:
            why = "the main thread has ended" if window.readings else "no compute thread is left"
            messages.append(Hole(self._source, window.start_ns, window.end_ns, why))
            reached = window.end_ns
        elif window.end_ns - window.start_ns > LATE * PERIOD_S * 1e9:
            end = window.end_ns - int(PERIOD_S * 1e9)
            messages.append(Hole(self._source, window.start_ns, end, "gaptop's own sample came late"))
        self._look(now)
        info = self._info()
        if info != self._sent:  # behind the batch: that was made under the old one
            messages.append(info)
            self._sent = info
        self._delivered_ns = reached
        return [*messages, Delivered(info.source, reached)]

    def boost(self, seconds: float) -> None:
        """Nothing to gain: below 100 ms the kernel's own 4 ms steps would show."""

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools = {}
        self._held = None

    @property
    def _source(self) -> str:
        return f"cpu/{self._label or self._servers[0].name or 'server'}"

    def _refuse_gpu(self) -> None:
        self._gpu_at = time.monotonic() + GPU_AGAIN_S
        refuse_gpu(self._servers, self._on_gpu, self._proc, self._dev)

    def _follow(self) -> bool:
        """New threads, gone ones; True for other processes than before: the server was started again."""
        servers = computing(self._processes)
        changed = {(one.pid, one.started) for one in servers} != {(one.pid, one.started) for one in self._servers}
        if changed:
            self.close()
            self._servers = servers
            self._gpu_at = 0.0
        self._scan()
        return changed

    def _restarted(self) -> Sequence[Message]:
        before, now = self._delivered_ns or self._sampled_ns, time.monotonic_ns()
        self._sampled_ns = self._looked_ns = self._delivered_ns = now
        self._told, self._account = None, Account()
        self._sent = info = self._info()
        gone = Hole(info.source, before, now, "the server's processes changed")
        return [info, gone, Delivered(info.source, now)]

    def _scan(self) -> None:
        now = time.monotonic()
        self._rescan_at = now + RESCAN_S
        for process in self._servers:
            pool = self._pools.get(process.pid)
            try:
                if pool is None:
                    pool = Pool(process, len(self._servers), self._proc)
                    self._pools[process.pid] = pool
                pool.scan()
            except PermissionError:
                raise CollectorError(
                    f"This user may not see the threads of process {process.pid} (/proc hides them), so no CPU device "
                    "is shown: run gaptop as the server's user, or with sudo.",
                    state="refused",
                ) from None
            except (OSError, ValueError):  # it ended meanwhile
                if pool is not None:
                    self._pools.pop(process.pid).close()
        self._cores = affine((tid for pool in self._pools.values() for tid in pool.tids), self._affinity)
        if now >= self._quota_at:
            self._quota_at = now + QUOTA_S
            self._quota = quota([process.pid for process in self._servers], self._proc)

    def _read(self) -> tuple[_Window, bool]:
        """This window, and whether all its main threads are still there."""
        readings = {}
        complete = len(self._pools) == len(self._servers)
        for pid, pool in list(self._pools.items()):
            try:
                readings[pid] = pool, pool.read()
            except (OSError, ValueError):
                self._pools.pop(pid).close()
                complete = False
        start, self._sampled_ns = self._sampled_ns, time.monotonic_ns()
        threads = sum(1 + len(reading.workers) + reading.lost for _, reading in readings.values())
        return _Window(start, self._sampled_ns, readings, threads, self._usable(threads)), complete

    def _judged(self, window: _Window, following: _Window) -> Batch:
        elapsed = window.end_ns - window.start_ns
        work = spun = read = 0
        for pid, (pool, reading) in window.readings.items():
            judged = pool.judge(elapsed, reading, following.readings[pid][1] if pid in following.readings else None)
            work, spun, read = work + judged.work_ns, spun + judged.spun_ns, read + 1 + len(reading.workers)
            self._account.add(judged)
        # Of threads that ended within the window the last part is not known; the others stand for them.
        whole = elapsed * window.cores * read / window.threads
        values: dict[str, list[float | None]] = {"device.busy": [min(1.0, max(0.0, work / whole))]}
        if self._sent is not None and "device.spinning" in self._sent.signals:
            values["device.spinning"] = [min(1.0, max(0.0, spun / whole))]
        return Batch(self._source, [window.end_ns], values)

    def _look(self, now: float) -> None:
        if self._sampled_ns - self._looked_ns >= 0.9 * LOOK_S * 1e9:
            for pool in self._pools.values():
                self._account.yielding_ns += pool.look(self._sampled_ns - self._looked_ns)
            self._looked_ns = self._sampled_ns
        if now >= self._tell_at:
            self._tell_at = now + TELL_S
            if self._account.ran_ns >= ENOUGH_NS:
                self._told, self._account = self._account, Account()

    def _usable(self, threads: int) -> float:
        """Cores that so many threads can use at once; as many as there are threads where nothing is known."""
        limits = [float(threads), float(self._cores or threads), self._quota or float(threads)]
        return min(limits)

    def _spinning(self) -> bool:
        """Whether busy-waiting can be told at all: with a worker to compare, and a kernel that counts the waits."""
        return any(pool.workers and not pool.coarse for pool in self._pools.values())

    def _info(self) -> SourceInfo:
        pools = self._pools.values()
        threads = sum(len(pool.tids) for pool in pools)
        coarse = any(pool.coarse for pool in pools)
        facts = Facts(
            threads=threads,
            cores=self._usable(threads),
            coarse=coarse,
            full=any(pool.full for pool in pools),
            elsewhere=any(pool.elsewhere for pool in pools),
            settings=sorted({pool.waiting.words for pool in pools} - {""}),
        )
        unsupported = {"device.power": "a CPU's power is not measured"}
        spinning = self._spinning()
        if not spinning:
            unsupported["device.spinning"] = (
                "this kernel does not count how long threads wait for a core"
                if coarse
                else "only one thread computes: there is no other to tell its waiting by"
            )
        return SourceInfo(
            source=self._source,
            collector=self.name,
            kind="device",
            entity={
                "uuid": self._source,
                "name": "cpu",
                "kind2": "cpu",
                "index": 0,
                "pids": [process.pid for process in self._servers],
            },
            signals=["device.busy", *(["device.spinning"] if spinning else [])],
            period=PERIOD_S,
            unsupported=unsupported,
            window=PERIOD_S,
            window_measured=True,
            error=0.01 if coarse else 0.004,
            says=sentence(facts, self._told),
        )
