"""What gaptop tells of the host beside a real llama-server: its one thread computes, waits for work, or for a core."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.real import servers
from tests.real.conftest import Watched, installed, quiet, warm_up, watched
from tests.real.load import Client, drive
from tests.real.watch import recording

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

BURNERS: Final = 3
"""Beside so many on its core the server gets a quarter of it: a valley opens under a half."""
BURN_S: Final = 5.0
EDGE_S: Final = 1.2
"""What is said of a phase is looked up this far inside of it: parts of valleys are half a second long, and the gauges
that tell them apart are read each half second, later on a crowded machine."""
WANTED: Final = 0.3
"""Waiting for a core for this share of the time is what gaptop calls contention."""


def schedstat(pid: int) -> dict[int, tuple[float, float]]:
    """Seconds on a core and waiting for one of each thread so far, as the kernel counts them."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            on_core, waiting, _ = (task / "schedstat").read_text().split()
            found[int(task.name)] = int(on_core) / 1e9, int(waiting) / 1e9
    return found


class Shares:
    """Shares of a phase's time, thread by thread: on a core, and waiting for one."""

    def __init__(self) -> None:
        self.on_core: dict[int, float] = {}
        self.waiting: dict[int, float] = {}

    @contextlib.asynccontextmanager
    async def seen(self, pid: int) -> AsyncIterator[None]:
        clock = asyncio.get_running_loop().time
        before, start = schedstat(pid), clock()
        yield
        seconds = clock() - start
        for tid, (ran, waited) in schedstat(pid).items():
            was = before.get(tid, (0.0, 0.0))
            self.on_core[tid], self.waiting[tid] = (ran - was[0]) / seconds, (waited - was[1]) / seconds


@contextlib.contextmanager
def crowded(pid: int) -> Iterator[None]:
    """The server's threads on one core with some burners, and a burner on each other core: nowhere is one to spare."""
    cores = sorted(os.sched_getaffinity(0))
    mine = cores[-1]
    before = {tid: os.sched_getaffinity(tid) for tid in schedstat(pid)}
    code = f"import time\nend = time.monotonic() + {BURN_S + 5}\nwhile time.monotonic() < end: pass"
    burners = []
    try:
        for core in [*[mine] * BURNERS, *(core for core in cores if core != mine)]:
            burner = subprocess.Popen([sys.executable, "-S", "-c", code])
            burners.append(burner)
            os.sched_setaffinity(burner.pid, {core})
        for tid in before:
            os.sched_setaffinity(tid, {mine})
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait(10)
        for tid, cores_before in before.items():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(tid, cores_before)


@dataclass(frozen=True, slots=True)
class Beside:
    """What gaptop told, and what the kernel counted of the server's threads in some phases."""

    watched: Watched
    kernel: Mapping[str, Shares]

    @property
    def pid(self) -> int:
        return self.watched.pids[0]

    def bounds(self, phase: str) -> tuple[float, float]:
        """A phase in the stream's seconds, without what its edges blur."""
        found = self.watched.drive.phase(phase)
        origin = self.watched.start_monotonic
        return found.start - origin + EDGE_S, found.end - origin - EDGE_S

    def valleys(self, phase: str, kind: str = "") -> list[dict[str, Any]]:
        """The valleys that share some of a phase."""
        first, last = self.bounds(phase)
        return [
            valley
            for valley in self.watched.report["valleys"]
            if kind in ("", valley["kind"])
            and valley["start_s"] < last
            and (valley["end_s"] is None or valley["end_s"] > first)
        ]

    def causes(self, phase: str) -> set[str]:
        """All that is said of it: the causes of the valleys' parts that share some of it."""
        first, last = self.bounds(phase)
        parts = [part for valley in self.valleys(phase) for part in valley["segments"]]
        return {part["cause"] for part in parts if part["start_s"] < last and part["end_s"] > first}

    def mean(self, phase: str, key: str) -> float:
        return self.watched.mean(phase, key, EDGE_S)


@pytest.fixture(scope="module")
def one_thread(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """One compute thread: steady load, silence, long prompts beside decoders, and burners on its core."""
    installed(servers.LLAMA)
    folder = tmp_path_factory.mktemp("llama-host")
    kernel = {name: Shares() for name in ("silence", "prefill", "burners")}
    with servers.llama(folder, "--metrics") as server:
        warm_up(server.url, "llamacpp")

        async def silence() -> None:
            async with kernel["silence"].seen(server.pid):
                await quiet(5)

        async def prefill(client: Client) -> None:
            async with kernel["prefill"].seen(server.pid):
                end = time.monotonic() + 4.0
                while time.monotonic() < end:
                    await client.one(1500, 2)

        async def burners() -> None:
            with crowded(server.pid):
                async with kernel["burners"].seen(server.pid):
                    await quiet(BURN_S)

        async def script(client: Client) -> None:
            await client.phase("steady", lambda: client.closed_loop(3, 5, 40, 100))
            await client.phase("silence", silence)
            load = asyncio.create_task(client.closed_loop(3, 20, 40, 100))
            await quiet(4)
            await client.phase("prefill", lambda: prefill(client))
            await quiet(3)
            await client.phase("burners", burners)
            await load

        path = folder / "llama-host.gaptop"
        with recording(path, server.url):
            seen = asyncio.run(drive(server.url, "llamacpp", script, limit=150))
        assert seen.failed == 0
        assert {tid for tid in schedstat(server.pid) if os.sched_getaffinity(tid) != os.sched_getaffinity(0)} == set()
        told = watched(path, seen, server.get("/metrics"), (server.pid,))
    return Beside(told, kernel)


@pytest.fixture(scope="module")
def spinning(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """Two OpenMP threads, of which the second spins for work all the time, as OMP_WAIT_POLICY=active makes it."""
    installed(servers.LLAMA)
    folder = tmp_path_factory.mktemp("llama-spin")
    kernel = {"silence": Shares()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_WAIT_POLICY", "active")
        with servers.llama(folder, "--metrics", "-t", "2", "-tb", "2") as server:

            async def silence() -> None:
                async with kernel["silence"].seen(server.pid):
                    await quiet(4)

            async def script(client: Client) -> None:
                await client.phase("steady", lambda: client.closed_loop(2, 4, 20, 10))
                await client.phase("silence", silence)

            path = folder / "llama-spin.gaptop"
            with recording(path, server.url):
                seen = asyncio.run(drive(server.url, "llamacpp", script, limit=120))
            told = watched(path, seen, server.get("/metrics"), (server.pid,))
    return Beside(told, kernel)


def test_a_prefill_is_computing_and_no_starved_host(one_thread: Beside) -> None:
    waited = one_thread.kernel["prefill"].waiting[one_thread.pid]
    if waited >= WANTED / 2:
        pytest.skip(f"this machine was crowded: the server itself waited for a core {waited:.0%} of the time")
    # On a fast machine the server waits for the next prompt between two of them.
    on_core = one_thread.kernel["prefill"].on_core[one_thread.pid]
    assert on_core > 0.6
    assert one_thread.mean("prefill", f"host.oncpu{{tid={one_thread.pid}}}") == pytest.approx(on_core, abs=0.1)
    found = one_thread.valleys("prefill", "progress")
    assert "prefill_interference" in {valley["cause"] for valley in found}
    assert "host_starvation" not in one_thread.causes("prefill")


def test_a_silent_server_is_no_busy_host(one_thread: Beside) -> None:
    assert sum(one_thread.kernel["silence"].on_core.values()) < 0.05
    assert one_thread.causes("silence") == {"no_demand"}
    (valley,) = one_thread.valleys("silence")
    assert {link["link"]: link["state"] for link in valley["chain"]}["front end"] != "blocked"
    assert valley["longest_gap_s"][0] > one_thread.bounds("silence")[1] - one_thread.bounds("silence")[0]


def test_burners_on_its_core_are_cpu_contention(one_thread: Beside) -> None:
    counted = one_thread.kernel["burners"].waiting[one_thread.pid]
    if counted <= WANTED:
        pytest.skip(f"this kernel gave the server its core all the same: it waited for one {counted:.0%} of the time")
    assert one_thread.mean("burners", f"host.runqueue_wait{{tid={one_thread.pid}}}") == pytest.approx(counted, abs=0.1)
    valleys, began = one_thread.valleys("burners"), one_thread.bounds("burners")[0] - EDGE_S
    if any(valley["start_s"] < began - EDGE_S for valley in valleys):
        pytest.skip("this machine was so slow that the valley of the prompts before had not ended")
    found = [valley for valley in valleys if valley["cause"] == "host_starvation"]
    assert found
    assert {valley["detail"] for valley in found} == {"CPU contention"}
    for valley in found:
        (fact,) = [fact for fact in valley["evidence"] if fact["signal"] == "host.runqueue_wait"]
        assert fact["value"] >= WANTED
        assert "waited for a core" in fact["says"]


def test_a_worker_that_spins_for_work_is_no_busy_host(spinning: Beside) -> None:
    kernel = spinning.kernel["silence"]
    wanted = {tid: kernel.on_core[tid] + kernel.waiting[tid] for tid in kernel.on_core if tid != spinning.pid}
    worker = max(wanted, key=lambda tid: wanted[tid])
    assert wanted[worker] > 0.8  # else nothing spun, and the test says nothing
    cores = min(2, len(os.sched_getaffinity(0)))
    assert spinning.mean("silence", "device.spinning") == pytest.approx(kernel.on_core[worker] / cores, abs=0.1)
    assert spinning.mean("silence", "device.busy") < 0.05
    assert spinning.causes("silence") == {"no_demand"}
