"""The CPU as a device, beside a real OpenMP program that knows how long each of its threads worked."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, SourceInfo
from gaptop_collectors.devices.cpu import CpuDevice
from gaptop_collectors.devices.cpu_threads import MainThread, counts_in_ticks
from gaptop_collectors.target import Processes, ServerProcess
from tests.fakes import openmp
from tests.fakes.openmp import Running, Told

QUIET_WINDOWS = 8
PATIENCE_S = 120.0
BOOKED_S = 0.03
"""The kernel books at ticks: what may be on the wrong side of an instant, of a few threads."""
CORES = os.sched_getaffinity(0)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(counts_in_ticks(os.getpid()), reason="this kernel counts no waits (no /proc/PID/schedstat)"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return openmp.build(tmp_path_factory.mktemp("openmp"))
    except openmp.NoCompiler as error:
        pytest.skip(str(error))


class One(Processes):
    def __init__(self, pid: int) -> None:
        thread = MainThread(pid)
        self.process = ServerProcess(pid, "server", "openmp", False, thread.started)
        thread.close()

    def current(self) -> Sequence[ServerProcess]:
        return (self.process,)

    def why_empty(self) -> str:
        return ""


@dataclass
class Window:
    """Seconds of work and of busy-waiting in (start, end], of all compute threads together."""

    start: float
    end: float
    work: float
    spun: float


@dataclass
class Watched:
    """What was seen of the program since its workers were known as compute threads: it was idle then, and is now."""

    windows: list[Window] = field(default_factory=list)
    told: list[tuple[float, Told]] = field(default_factory=list)
    info: SourceInfo | None = None

    def idle(self) -> list[Window]:
        """The windows that lie wholly between an "idle" and its "go"."""
        spans = [
            (at, after) for (at, one), (after, _) in zip(self.told, self.told[1:], strict=False) if one.what == "idle"
        ]
        return [one for one in self.windows if any(start <= one.start and one.end <= end for start, end in spans)]

    def cpu(self, thread: slice, what: str) -> float:
        """CPU seconds of some threads between each "idle" and its "go" (``what`` "idle"), or each "go" and "idle"."""
        pairs = zip(self.told, self.told[1:], strict=False)
        return sum(sum(b.cpu[thread]) - sum(a.cpu[thread]) for (_, a), (_, b) in pairs if a.what == what)

    def work(self, thread: slice) -> float:
        return sum(self.told[-1][1].work[thread]) - sum(self.told[0][1].work[thread])


def watch(running: Running, threads: int, cycles: int, capacity: int, until_spinning: bool = False) -> Watched:
    """Let the program work until its workers are admitted (and seen spinning), then ``cycles`` times more; each time
    it is left idle until enough windows have been seen of that."""
    device = CpuDevice(One(running.pid))
    seen = Watched()
    device.open()
    before, quiet, admitted, spinning, done = time.monotonic(), 0, False, False, 0
    end = before + PATIENCE_S
    last: Told | None = None
    while done <= cycles:
        assert time.monotonic() < end, "the program's threads were not seen as they are"
        time.sleep(device.period)
        if (told := running.told()) is not None:
            last, quiet = told, 0
            seen.told.append((time.monotonic(), told))
        for message in device.sample():
            if isinstance(message, SourceInfo):
                seen.info = message
                admitted = f"{threads} compute threads" in message.says
            elif isinstance(message, Batch):
                now = message.times_ns[0] / 1e9
                scale = (now - before) * capacity
                (busy,), (spun,) = message.values["device.busy"], message.values.get("device.spinning", [0.0])
                assert busy is not None
                assert spun is not None
                seen.windows.append(Window(before, now, busy * scale, spun * scale))
                spinning = spinning or spun > 0.1
                quiet += now - before < 1.5 * device.period
                before = now
        if last is not None and last.what == "idle" and quiet >= QUIET_WINDOWS:
            if done == 0:
                seen.windows.clear()
                del seen.told[:-1]
            if done > 0 or (admitted and (spinning or not until_spinning)):
                done += 1
            last, quiet = None, 0
            if done <= cycles:
                running.go()
    device.close()
    return seen


@pytest.mark.skipif(len(CORES) < 2, reason="with more threads than cores OpenMP does not spin, whatever it is told")
def test_spinning_is_told_from_work(program: Path) -> None:
    """A pool told to wait actively: between the regions its worker never sleeps."""
    policy = {"OMP_WAIT_POLICY": "active"}
    with Running(program, 2, 5, 1, 100, 0, environment=policy, cores=CORES) as running:
        seen = watch(running, 2, 3, min(2, len(CORES)), until_spinning=True)
    idle = seen.idle()
    waited = seen.cpu(slice(1, 2), "idle")
    assert sum(one.work for one in idle) <= 0.2 * waited + 4 * BOOKED_S, "no work is done while the main thread sleeps"
    assert sum(one.spun for one in idle) >= 0.5 * waited - 4 * BOOKED_S
    spun = sum(one.spun for one in seen.windows)
    worked = seen.work(slice(1, 2))
    all_spun = waited + seen.cpu(slice(1, 2), "go") - worked
    edges = seen.windows[0].spun + seen.windows[-1].spun
    assert spun <= all_spun + edges + BOOKED_S, "what is left out was no work"
    assert sum(one.work for one in seen.windows) >= seen.work(slice(0, 2)) - BOOKED_S
    assert seen.info is not None
    assert "OMP_WAIT_POLICY=active" in seen.info.says


@pytest.mark.parametrize("environment", [{"OMP_WAIT_POLICY": "passive"}, {}], ids=["passive", "default"])
def test_uneven_shares_are_work_and_not_spinning(program: Path, environment: dict[str, str]) -> None:
    """The worker has three times the main thread's share, and the main thread sleeps at the end of its own."""
    with Running(program, 2, 15, 1, 20, 2, environment=environment, cores=CORES) as running:
        seen = watch(running, 2, 3, min(2, len(CORES)))
    assert sum(one.spun for one in seen.windows) <= BOOKED_S
    assert sum(one.work for one in seen.windows) >= seen.work(slice(0, 2)) - BOOKED_S
    assert (
        sum(one.work for one in seen.windows) <= seen.cpu(slice(0, 2), "go") + seen.cpu(slice(0, 2), "idle") + BOOKED_S
    )


def test_more_threads_than_cores_are_measured_by_the_cores(program: Path) -> None:
    one_core = {min(CORES)}
    with Running(program, 4, 5, 1, 60, 0, environment={}, cores=one_core) as running:
        seen = watch(running, 4, 2, 1)
    ran = seen.cpu(slice(0, 4), "go") + seen.cpu(slice(0, 4), "idle")
    assert sum(one.work + one.spun for one in seen.windows) == pytest.approx(ran, rel=0.1, abs=BOOKED_S)
    assert seen.info is not None
    assert "4 compute threads, which may use 1 core at once: that is 100 %" in seen.info.says
