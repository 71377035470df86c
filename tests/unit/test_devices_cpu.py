"""The CPU as a device: servers, processes and threads that end, hide, restart or are on a GPU after all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import CollectorError, Delivered, Hole, SourceInfo
from gaptop_collectors.devices import cpu_pool
from gaptop_collectors.devices.cpu import CpuDevice
from gaptop_collectors.devices.cpu_threads import MainThread, ThreadClock, counts_in_ticks, opens_gpu, threads_of
from gaptop_collectors.target import ServerProcess
from tests.unit.cpu_proc import (
    MS,
    STARTED,
    FakeProc,
    Given,
    device,
    judged,
    readings,
    step,
)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    return FakeProc(tmp_path, monkeypatch)


@pytest.mark.parametrize("how", ["zombie", "gone"])
def test_an_ended_main_thread_is_a_hole_and_not_zero(proc: FakeProc, how: str) -> None:
    proc.thread(10, 10)
    watched = device(proc, (10, "server"))
    watched.open()
    step(proc, watched)
    if how == "zombie":
        proc.thread(10, 10, state="Z")
    else:
        proc.end(10, 10)
    start = proc.now
    messages = step(proc, watched)
    assert readings(messages) == [0.0], "the window before is known"
    assert Hole("cpu/llama-server", start, proc.now, "no compute thread is left") in messages
    assert messages[-1] == Delivered("cpu/llama-server", proc.now)
    assert readings(step(proc, watched)) == []
    watched.close()


def test_one_of_two_processes_that_ends_is_a_hole_too(proc: FakeProc) -> None:
    for pid in (10, 20):
        proc.thread(pid, pid)
    watched = device(proc, (10, "worker"), (20, "worker"))
    watched.open()
    step(proc, watched)
    proc.end(20, 20)
    messages = step(proc, watched)
    assert readings(messages) == [0.0]
    assert "the main thread has ended" in [one.reason for one in messages if isinstance(one, Hole)]


def test_another_process_of_the_same_pid_is_not_measured(proc: FakeProc) -> None:
    proc.thread(10, 10)
    watched = device(proc, (10, "server"))
    watched.open()
    step(proc, watched)
    proc.end(10, 10)
    proc.thread(10, 10, 10**6, started=STARTED + 1)
    assert readings(step(proc, watched, 1000)) == [0.0]
    proc.thread(10, 10, 10**6 + 100, started=STARTED + 1)
    assert readings(step(proc, watched)) == []


def test_hidden_threads_are_told_with_the_remedy(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.thread(10, 10)

    def hidden(pid: int, root: Path) -> set[int]:
        raise PermissionError(errno.EPERM, "hidden")

    monkeypatch.setattr(cpu_pool, "threads_of", hidden)
    with pytest.raises(CollectorError, match="may not see the threads of process 10.*sudo") as error:
        device(proc, (10, "server")).open()
    assert error.value.state == "refused"
    with pytest.raises(CollectorError, match="ended, or /proc hides it") as error:
        device(proc, (44, "server")).open()
    assert error.value.state == "absent"


def test_no_file_left_to_open_is_told(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.thread(10, 10)

    def full(*arguments: object) -> ThreadClock:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(cpu_pool, "ThreadClock", full)
    with pytest.raises(CollectorError, match="ulimit"):
        device(proc, (10, "server")).open()


def test_a_late_sample_leaves_a_hole(proc: FakeProc) -> None:
    proc.thread(10, 10)
    watched = device(proc, (10, "server"))
    watched.open()
    step(proc, watched)
    before = proc.now
    messages = step(proc, watched, 700)
    (hole,) = [one for one in messages if isinstance(one, Hole)]
    assert (hole.start_ns, hole.end_ns) == (before, proc.now - 100 * MS)
    assert messages[-1] == Delivered("cpu/llama-server", before), "the late window itself comes with the next sample"


def test_a_restarted_server_is_followed_without_an_invented_zero(proc: FakeProc) -> None:
    proc.thread(10, 10)
    given = Given((10, "server"))
    watched = CpuDevice(given, proc=proc.root, dev=proc.dev, affinity=lambda tid: {0})
    watched.open()
    step(proc, watched)
    held = proc.now - 100 * MS
    proc.thread(44, 44, 1000)
    given.processes = [ServerProcess(44, "server", "llama-server", False, STARTED)]
    messages = step(proc, watched, 1000)
    assert readings(messages) == []
    assert [type(one) for one in messages] == [SourceInfo, Hole, Delivered]
    (hole,) = [one for one in messages if isinstance(one, Hole)]
    assert (hole.start_ns, hole.end_ns) == (held, proc.now), "with the window that was not judged yet"
    proc.thread(44, 44, 1050, state="S")
    step(proc, watched)
    assert judged(proc, watched) == [pytest.approx(0.5)]
    given.processes = []
    with pytest.raises(CollectorError):
        step(proc, watched, 1000)


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
    proc.thread(10, 10, started=started)
    given.processes = [ServerProcess(10, "server", "llama-server", False, started)]
    watched = CpuDevice(given, proc=proc.root, dev=proc.dev, affinity=lambda tid: {0})
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
    assert not counts_in_ticks(burner.pid)
    clock = ThreadClock(burner.pid, burner.pid, False)
    before = clock.read().on_core_ns
    user_before = sum(os.times()[:2])
    time.sleep(0.3)
    gained = (clock.read().on_core_ns - before) / 1e9
    assert 0.02 < gained < 0.5
    assert sum(os.times()[:2]) - user_before < gained + 0.3
    assert opens_gpu(burner.pid) is False
    standing = MainThread(burner.pid)
    assert standing.read().state in "RS"
    burner.kill()
    os.waitid(os.P_PID, burner.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        standing.read()
    burner.wait()
    standing.close()
    with pytest.raises((OSError, ValueError)):
        clock.read()
    clock.close()
    assert threads_of(burner.pid) == set()
