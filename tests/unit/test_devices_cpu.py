"""The CPU as a device: which threads compute, and what their share of a window is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.devices import cpu
from gaptop_collectors.devices.cpu import CpuDevice
from gaptop_collectors.devices.cpu_threads import ThreadClock, opens_gpu, threads_of
from gaptop_collectors.target import Processes, Role, ServerProcess

STAT = "{tid} (a b) c) R 1 1 1 0 -1 4194560 1 0 0 0 {user} {system} 0 0 20 0 1 0 77 0 0\n"


class FakeProc:
    """A /proc of plain files; time is moved by hand."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "proc"
        self.dev = root / "dev"
        self.dev.mkdir()
        self.now = 100 * 10**9
        clock = SimpleNamespace(
            monotonic_ns=lambda: self.now,
            monotonic=lambda: self.now / 1e9,
            clock_gettime=time.clock_gettime,
            CLOCK_BOOTTIME=time.CLOCK_BOOTTIME,
        )
        monkeypatch.setattr(cpu, "time", clock)

    def thread(self, pid: int, tid: int, on_core_ns: int = 1, waiting_ns: int = 0) -> None:
        task = self.root / str(pid) / "task" / str(tid)
        task.mkdir(parents=True, exist_ok=True)
        (self.root / str(pid) / "fd").mkdir(exist_ok=True)
        (task / "comm").write_text("llama-server\n")
        (task / "stat").write_text(STAT.format(tid=tid, user=on_core_ns // 10**7, system=0))
        with (task / "schedstat").open("w") as file:  # in place: the descriptor stays open
            file.write(f"{on_core_ns} {waiting_ns} 5\n")


class Given(Processes):
    def __init__(self, *processes: tuple[int, Role]) -> None:
        self.processes = [ServerProcess(pid, role, "llama-server", False, 1) for pid, role in processes]

    def current(self) -> Sequence[ServerProcess]:
        return self.processes

    def why_empty(self) -> str:
        return "" if self.processes else "the server's socket belongs to another user"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    return FakeProc(tmp_path, monkeypatch)


def device(proc: FakeProc, *processes: tuple[int, Role]) -> CpuDevice:
    return CpuDevice(Given(*processes), proc=proc.root, dev=proc.dev)


def busy(messages: Sequence[Message]) -> list[float | None]:
    return [value for one in messages if isinstance(one, Batch) for value in one.values["device.busy"]]


def step(proc: FakeProc, watched: CpuDevice, ms: int = 100) -> Sequence[Message]:
    proc.now += ms * 1_000_000
    return watched.sample()


def test_the_main_threads_share_of_the_window(proc: FakeProc) -> None:
    proc.thread(10, 10, 500_000_000)
    watched = device(proc, (10, "server"))
    info = watched.open()[0]
    assert isinstance(info, SourceInfo)
    assert (info.source, info.entity["kind2"], info.window) == ("cpu/llama-server", "cpu", 0.1)
    assert "spinning" in info.says
    proc.thread(10, 10, 570_000_000)
    messages = step(proc, watched)
    assert busy(messages) == [pytest.approx(0.7)]
    assert messages[-1] == Delivered("cpu/llama-server", proc.now)
    assert busy(step(proc, watched)) == [0.0]
    watched.close()


def test_workers_are_admitted_and_http_threads_are_not(proc: FakeProc) -> None:
    """11 works with 10 (and has to wait for a core), 12 serves HTTP: briefly beside 10, and long while 10 sleeps."""
    for tid in (10, 11, 12):
        proc.thread(10, tid)
    watched = device(proc, (10, "server"))
    watched.open()
    for k in range(1, 5):
        proc.thread(10, 10, k * 90_000_000)
        proc.thread(10, 11, k * 30_000_000, k * 60_000_000)
        proc.thread(10, 12, k * 20_000_000)
        messages = step(proc, watched)
    assert busy(messages) == [pytest.approx((0.9 + 0.3) / 2)]
    for k in range(1, 5):
        proc.thread(10, 12, 80_000_000 + k * 100_000_000)
        messages = step(proc, watched)
    assert busy(messages) == [0.0]
    watched.close()


def test_a_front_end_is_no_device_and_workers_come_before_the_engine(proc: FakeProc) -> None:
    for pid in (10, 20, 30):
        proc.thread(pid, pid)
    watched = device(proc, (10, "api"), (20, "engine"), (30, "worker"))
    info = watched.open()[0]
    assert isinstance(info, SourceInfo)
    assert info.entity["pids"] == [30]
    proc.thread(10, 10, 10**9)
    proc.thread(20, 20, 10**9)
    assert busy(step(proc, watched)) == [0.0]
    with pytest.raises(CollectorError, match="no process of the server") as error:
        device(proc, (10, "api")).open()
    assert error.value.state == "absent"
    with pytest.raises(CollectorError, match="another user"):
        device(proc).open()


def test_a_late_sample_leaves_a_hole(proc: FakeProc) -> None:
    proc.thread(10, 10)
    watched = device(proc, (10, "server"))
    watched.open()
    before = proc.now
    messages = step(proc, watched, 700)
    (hole,) = [one for one in messages if isinstance(one, Hole)]
    assert (hole.start_ns, hole.end_ns) == (before, proc.now - 100_000_000)


def test_a_restarted_server_is_followed_without_an_invented_zero(proc: FakeProc) -> None:
    proc.thread(10, 10)
    given = Given((10, "server"))
    watched = CpuDevice(given, proc=proc.root, dev=proc.dev)
    watched.open()
    step(proc, watched)
    proc.thread(44, 44, 10**9)
    given.processes = [ServerProcess(44, "server", "llama-server", False, 2)]
    messages = step(proc, watched, 1000)
    assert busy(messages) == []
    assert [type(one) for one in messages] == [SourceInfo, Hole, Delivered]
    proc.thread(44, 44, 10**9 + 50_000_000)
    assert busy(step(proc, watched)) == [pytest.approx(0.5)]
    given.processes = []
    with pytest.raises(CollectorError):
        step(proc, watched, 1000)


def test_a_kernel_that_does_not_count_is_read_in_ticks(proc: FakeProc) -> None:
    proc.thread(10, 10, 30_000_000)
    (proc.root / "10/task/10/schedstat").write_text("0 0 0\n")
    watched = device(proc, (10, "server"))
    info = watched.open()[0]
    assert isinstance(info, SourceInfo)
    assert "10 ms" in info.says
    assert info.error == 0.01
    (proc.root / "10/task/10/stat").write_text(STAT.format(tid=10, user=7, system=1))
    assert busy(step(proc, watched)) == [pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("link", "age_s", "state"),
    [("/dev/nvidia0", 5000, "ended"), ("/dev/kfd", 5000, "ended"), (None, 3, "absent"), (None, 5000, None)],
)
def test_users_of_a_gpu_get_no_cpu_device(proc: FakeProc, link: str | None, age_s: int, state: str | None) -> None:
    proc.thread(10, 10)
    if link:
        (proc.root / "10/fd/7").symlink_to(link)
    (proc.dev / "nvidiactl").touch()
    started = int((time.clock_gettime(time.CLOCK_BOOTTIME) - age_s) * os.sysconf("SC_CLK_TCK"))
    given = Given()
    given.processes = [ServerProcess(10, "server", "llama-server", False, started)]
    watched = CpuDevice(given, proc=proc.root, dev=proc.dev)
    if state:
        with pytest.raises(CollectorError) as error:
            watched.open()
        assert error.value.state == state
        assert bool(error.value.says) is (state != "ended"), "a GPU's server without a CPU device is no news"
    else:
        assert watched.open()
        (proc.root / "10/fd/8").symlink_to("/dev/nvidia-uvm")
        with pytest.raises(CollectorError) as error:
            step(proc, watched, 6000)
        assert error.value.state == "ended"


def test_a_gpu_that_is_known_to_be_the_servers_spares_the_question(proc: FakeProc) -> None:
    """Of another user's process only NVML tells; that its device files may not be looked at is then no news."""
    proc.thread(10, 10)
    with pytest.raises(CollectorError) as error:
        CpuDevice(Given((10, "server")), proc=proc.root, dev=proc.dev, on_gpu=lambda pid: pid == 10).open()
    assert (error.value.state, error.value.says) == ("ended", "")


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def test_real_thread_times_agree_with_the_process(burner: subprocess.Popen[bytes]) -> None:
    assert threads_of(burner.pid) == {burner.pid}
    clock = ThreadClock(burner.pid, burner.pid)
    before = clock.read().on_core_ns
    user_before = sum(os.times()[:2])
    time.sleep(0.3)
    gained = (clock.read().on_core_ns - before) / 1e9
    assert 0.02 < gained < 0.5
    assert sum(os.times()[:2]) - user_before < gained + 0.3
    assert opens_gpu(burner.pid) is False
    burner.kill()
    burner.wait()
    with pytest.raises((OSError, ValueError)):
        clock.read()
    clock.close()
    assert threads_of(burner.pid) == set()
