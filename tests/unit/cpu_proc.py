"""A /proc of plain files, for the CPU device: its threads and their times are moved by hand."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from gaptop_collectors.collector import Batch, Message, SourceInfo
from gaptop_collectors.devices import cpu
from gaptop_collectors.devices.cpu import CpuDevice
from gaptop_collectors.target import Processes, Role, ServerProcess

STAT = "{tid} (a b) c) {state} 1 1 1 0 -1 4194560 {faults} 0 0 0 {user} {system} 0 0 20 0 1 0 {started} 0 0\n"
STARTED = 77
ASLEEP = "202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd00 0x7f0000001000\n"
MS = 1_000_000


class FakeProc:
    """A /proc of plain files; time is moved by hand."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "proc"
        self.dev = root / "dev"
        self.dev.mkdir()
        self.now = 100 * 10**9
        clock = SimpleNamespace(monotonic_ns=lambda: self.now, monotonic=lambda: self.now / 1e9)
        monkeypatch.setattr(cpu, "time", clock)

    def thread(
        self,
        pid: int,
        tid: int,
        on_core_ms: float = 1,
        waiting_ms: float = 0,
        state: str = "R",
        system: int = 0,
        started: int = STARTED,
        faults: int = 0,
    ) -> None:
        task = self.root / str(pid) / "task" / str(tid)
        task.mkdir(parents=True, exist_ok=True)
        (self.root / str(pid) / "fd").mkdir(exist_ok=True)
        user = int(on_core_ms / 10) - system
        files = {
            "stat": STAT.format(tid=tid, state=state, user=user, system=system, started=started, faults=faults),
            "schedstat": f"{int(on_core_ms * MS)} {int(waiting_ms * MS)} 5\n",
            "syscall": "running\n" if state == "R" else ASLEEP,
        }
        for name, text in files.items():
            with (task / name).open("w") as file:  # in place: the descriptor stays open
                file.write(text)

    def end(self, pid: int, tid: int) -> None:
        """The thread ends: what is still open of it reads empty, as ESRCH would."""
        task = self.root / str(pid) / "task" / str(tid)
        for name in ("stat", "schedstat"):
            with (task / name).open("w"):
                pass
        shutil.rmtree(task)


class Given(Processes):
    def __init__(self, *processes: tuple[int, Role]) -> None:
        self.processes = [ServerProcess(pid, role, "llama-server", False, STARTED) for pid, role in processes]

    def current(self) -> Sequence[ServerProcess]:
        return self.processes

    def why_empty(self) -> str:
        return "" if self.processes else "the server's socket belongs to another user"


def device(proc: FakeProc, *processes: tuple[int, Role], cores: int = 64) -> CpuDevice:
    return CpuDevice(Given(*processes), proc=proc.root, dev=proc.dev, affinity=lambda tid: set(range(cores)))


def step(proc: FakeProc, watched: CpuDevice, ms: int = 100) -> Sequence[Message]:
    proc.now += ms * MS
    return watched.sample()


def readings(messages: Sequence[Message], key: str = "device.busy") -> list[float | None]:
    return [value for one in messages if isinstance(one, Batch) for value in one.values.get(key, ())]


def judged(proc: FakeProc, watched: CpuDevice, ms: int = 100, key: str = "device.busy") -> list[float | None]:
    """A window in which nothing more happens; with it the one before is judged."""
    return readings(step(proc, watched, ms), key)


def last_info(messages: Sequence[Message]) -> SourceInfo:
    return [one for one in messages if isinstance(one, SourceInfo)][-1]


def work_together(proc: FakeProc, watched: CpuDevice, tids: Sequence[int], windows: int = 4, first: int = 0) -> None:
    """All of the threads on a core all the time, from window ``first`` on; the first of them is the main thread."""
    for k in range(first + 1, first + windows + 1):
        for tid in tids:
            proc.thread(tids[0], tid, k * 100)
        step(proc, watched)
