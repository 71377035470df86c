"""Which threads of a server compute, and what their share of a window is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Message, SourceInfo
from gaptop_collectors.devices import cpu_pool
from tests.unit.cpu_proc import (
    MS,
    STARTED,
    STAT,
    FakeProc,
    device,
    judged,
    last_info,
    readings,
    step,
    work_together,
)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    return FakeProc(tmp_path, monkeypatch)


def test_the_main_threads_share_of_the_window(proc: FakeProc) -> None:
    proc.thread(10, 10, 500)
    watched = device(proc, (10, "server"))
    info, delivered = watched.open()
    assert isinstance(info, SourceInfo)
    assert (info.source, info.entity["kind2"], info.window) == ("cpu/llama-server", "cpu", 0.1)
    assert info.signals == ["device.busy"]
    assert "only one thread" in info.unsupported["device.spinning"]
    assert "spinning" in info.says
    start = proc.now
    assert delivered == Delivered("cpu/llama-server", start)
    proc.thread(10, 10, 570, state="S")
    assert step(proc, watched) == [Delivered("cpu/llama-server", start)], "not before the next one is known"
    messages = step(proc, watched)
    assert readings(messages) == [pytest.approx(0.7)]
    assert [type(one) for one in messages] == [Batch, Delivered]
    assert messages[-1] == Delivered("cpu/llama-server", start + 100 * MS)
    assert judged(proc, watched) == [0.0]
    watched.close()


def test_workers_are_admitted_and_http_threads_are_not(proc: FakeProc) -> None:
    """11 works with 10 (and has to wait for a core), 12 serves HTTP: briefly beside 10, and long while 10 sleeps."""
    for tid in (10, 11, 12):
        proc.thread(10, tid)
    watched = device(proc, (10, "server"))
    watched.open()
    for k in range(1, 5):
        proc.thread(10, 10, k * 90)
        proc.thread(10, 11, k * 30, k * 60)
        proc.thread(10, 12, k * 20)
        step(proc, watched)
    assert judged(proc, watched) == [pytest.approx((0.9 + 0.3) / 2)]
    for k in range(1, 5):
        proc.thread(10, 12, 80 + k * 100)
        messages = step(proc, watched)
    assert readings(messages) == [0.0]
    watched.close()


def test_a_thread_that_waits_long_for_a_little_is_no_compute_thread(proc: FakeProc) -> None:
    """On a crowded machine 12 waits 90 ms for each 2 ms of I/O; the main thread and its worker get 30 ms of 100."""
    for tid in (10, 11, 12):
        proc.thread(10, tid)
    watched = device(proc, (10, "server"))
    watched.open()
    for k in range(1, 8):
        proc.thread(10, 10, k * 30, k * 70)
        proc.thread(10, 11, k * 30, k * 70)
        proc.thread(10, 12, k * 2, k * 90)
        messages = step(proc, watched)
    assert readings(messages) == [pytest.approx(0.3)]


def test_a_thread_that_no_longer_works_along_is_let_go(proc: FakeProc) -> None:
    """A tokeniser that ran beside the main thread once is no compute thread for ever: the share would stay too low."""
    for tid in (10, 11):
        proc.thread(10, tid)
    watched = device(proc, (10, "server"))
    watched.open()
    work_together(proc, watched, [10, 11])
    proc.thread(10, 10, 500)
    step(proc, watched)
    assert judged(proc, watched) == [pytest.approx(0.5)]
    for k in range(6, 40):
        proc.thread(10, 10, k * 100)
        messages = step(proc, watched)
    assert readings(messages) == [1.0]


def test_a_spinning_pool_is_told_from_work(proc: FakeProc) -> None:
    for tid in (10, 11):
        proc.thread(10, tid)
    watched = device(proc, (10, "server"))
    watched.open()
    work_together(proc, watched, [10, 11])
    for k in range(5, 9):
        proc.thread(10, 10, 400, state="S")
        proc.thread(10, 11, k * 100)
        messages = step(proc, watched)
    assert (readings(messages), readings(messages, "device.spinning")) == ([0.0], [0.5])
    for k in range(9, 9 + 100):
        proc.thread(10, 11, k * 100)
        messages = [*messages, *step(proc, watched)]
    assert "busy-waiting (beside a sleeping main thread) and is left out" in last_info(messages).says
    watched.close()


def test_more_threads_than_cores_fill_the_cores(proc: FakeProc) -> None:
    """8 threads on 2 cores can run for 25 % each at best: that is a full machine."""
    tids = list(range(10, 18))
    for tid in tids:
        proc.thread(10, tid)
    watched = device(proc, (10, "server"), cores=2)
    seen = list(watched.open())
    for k in range(1, 6):
        for tid in tids:
            proc.thread(10, tid, k * 25, k * 75)
        messages = step(proc, watched)
        seen += messages
    assert readings(messages) == [pytest.approx(1.0)]
    assert "8 compute threads, which may use 2 cores at once: that is 100 %" in last_info(seen).says


def test_a_worker_that_ends_leaves_its_share_to_the_others(proc: FakeProc) -> None:
    for tid in (10, 11, 12):
        proc.thread(10, tid)
    watched = device(proc, (10, "server"), cores=2)
    watched.open()
    for k in range(1, 5):
        for tid in (10, 11, 12):
            proc.thread(10, tid, k * 60, k * 40)
        step(proc, watched)
    proc.thread(10, 10, 300, 200)
    proc.thread(10, 11, 300, 200)
    proc.end(10, 12)
    step(proc, watched)
    assert judged(proc, watched) == [pytest.approx(0.9)], "0.6 of each of three threads, on two cores"


def test_many_threads_are_looked_at_in_turns(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    """90 threads, 30 of which compute: no more files are open than allowed, and the ones that count are found."""
    monkeypatch.setattr(cpu_pool, "MOST_COMPUTE", 12)
    monkeypatch.setattr(cpu_pool, "MOST_CANDIDATES", 5)
    tids = list(range(10, 100))
    for tid in tids:
        proc.thread(10, tid)
    before = len(os.listdir("/proc/self/fd"))
    watched = device(proc, (10, "server"), cores=1024)
    seen = list(watched.open())
    for k in range(1, 100):
        for tid in tids[:30]:
            (proc.root / f"10/task/{tid}/schedstat").write_text(f"{k * 100 * MS} 0 5\n")
        messages = step(proc, watched)
        seen += messages
        assert len(os.listdir("/proc/self/fd")) - before <= 12 + 5 + 3, "and the main thread's own three"
        if "these stand for all" in last_info(seen).says:
            break
    assert readings(messages) == [1.0]
    assert "13 compute threads" in last_info(seen).says
    watched.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_model_in_another_thread_is_a_stated_doubt(proc: FakeProc) -> None:
    for tid in (10, 11):
        proc.thread(10, tid, state="S")
    watched = device(proc, (10, "server"))
    assert "Other threads" not in last_info(watched.open()).says
    messages: list[Message] = []
    for k in range(1, 40):
        proc.thread(10, 11, k * 100)
        messages += step(proc, watched)
    assert "reads too low" in last_info(messages).says


@pytest.mark.parametrize(("faults", "told"), [(0, True), (500, False)])
def test_time_in_the_kernel_without_page_faults_is_a_stated_doubt(proc: FakeProc, faults: int, told: bool) -> None:
    """vLLM's worker waits for its engine in sched_yield for a second after its last step. Page faults are work."""
    proc.thread(10, 10)
    watched = device(proc, (10, "worker"))
    seen = list(watched.open())
    for k in range(1, 120):
        proc.thread(10, 10, k * 100, system=4 * k if k < 30 else 4 * 30, faults=k * faults)
        seen += step(proc, watched)
    assert ("sched_yield: that may be waiting" in last_info(seen).says) is told
    assert readings(seen)[-1] == 1.0, "nothing is left out"


def test_a_front_end_is_no_device_and_workers_come_before_the_engine(proc: FakeProc) -> None:
    for pid in (10, 20, 30):
        proc.thread(pid, pid)
    watched = device(proc, (10, "api"), (20, "engine"), (30, "worker"))
    info = watched.open()[0]
    assert isinstance(info, SourceInfo)
    assert info.entity["pids"] == [30]
    proc.thread(10, 10, 1000)
    proc.thread(20, 20, 1000)
    step(proc, watched)
    assert judged(proc, watched) == [0.0]
    with pytest.raises(CollectorError, match="no process of the server") as error:
        device(proc, (10, "api")).open()
    assert error.value.state == "absent"
    with pytest.raises(CollectorError, match="another user"):
        device(proc).open()


def test_a_kernel_that_does_not_count_is_read_in_ticks(proc: FakeProc) -> None:
    for tid in (10, 11):
        proc.thread(10, tid, 30)
        (proc.root / f"10/task/{tid}/schedstat").write_text("0 0 0\n")
    watched = device(proc, (10, "server"))
    seen = list(watched.open())
    info = last_info(seen)
    assert "10 ms" in info.says
    assert info.error == 0.01
    for k in range(1, 7):
        for tid in (10, 11):
            (proc.root / f"10/task/{tid}/stat").write_text(
                STAT.format(
                    tid=tid,
                    state="R" if tid == 11 or k < 5 else "S",
                    user=min(k, 4 if tid == 10 else 9) * 8,
                    system=0,
                    started=STARTED,
                    faults=0,
                )
            )
        messages = step(proc, watched)
        seen += messages
    assert readings(messages) == [pytest.approx(0.4)], "nothing is left out: the main thread may have been starved"
    assert readings(messages, "device.spinning") == []
    assert "does not count" in last_info(seen).unsupported["device.spinning"]
