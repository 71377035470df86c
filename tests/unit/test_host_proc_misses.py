"""What could not be read, though the process or the thread lives: it is no end, and no thread that is new."""

from __future__ import annotations

import errno
import os
import time
from unittest import mock

import pytest

from gaptop_collectors.host.proc_pass import Passes
from gaptop_collectors.host.proc_tasks import Tasks
from gaptop_collectors.host.proc_watch import SECOND, ProcessWatch
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.target import ServerProcess

OLD: int = 3600 * SECOND


class Listed(Tasks):
    """Threads whose times, or failures, a test sets."""

    def __init__(self, **times: int | Exception) -> None:
        self.times_of = {int(name[1:]): told for name, told in times.items()}

    def tids(self) -> list[int]:
        return list(self.times_of)

    def times(self, tid: int, *, schedstat: bool) -> tuple[int, int]:
        told = self.times_of[tid]
        if isinstance(told, Exception):
            raise told
        return told, 0


def no_descriptor() -> OSError:
    return OSError(errno.EMFILE, "Too many open files")


def advance(passes: Passes, seconds: int) -> list[tuple[float, int]]:
    return passes.advance(seconds * SECOND, None, ())[1]


@pytest.mark.parametrize("failure", [no_descriptor(), ValueError("not enough values to unpack")])
def test_a_thread_that_was_not_read_once_is_not_new(failure: Exception) -> None:
    tasks = Listed(t7=OLD, t8=OLD)
    passes = Passes(tasks, schedstat=True, now=0)
    advance(passes, 0)
    assert advance(passes, 1) == []
    tasks.times_of[7] = failure
    assert advance(passes, 2) == []
    assert set(passes.living) == {7, 8}
    tasks.times_of[7] = OLD + SECOND
    assert advance(passes, 3) == [(0.5, 7)], "over the two seconds since it was read"
    assert passes.wanted(()) == 0.5


def test_a_thread_that_was_never_read_has_its_first_reading_when_it_can_be_read() -> None:
    tasks = Listed(t7=no_descriptor())
    passes = Passes(tasks, schedstat=True, now=0)
    advance(passes, 0)
    tasks.times_of[7] = OLD
    assert advance(passes, 1) == []
    tasks.times_of[7] = OLD + SECOND
    assert advance(passes, 2) == [(1.0, 7)]


@pytest.mark.parametrize("listed", [True, False])
def test_a_thread_that_has_ended_is_forgotten(listed: bool) -> None:
    tasks = Listed(t7=OLD, t8=OLD)
    passes = Passes(tasks, schedstat=True, now=0)
    advance(passes, 0)
    tasks.times_of[7] = OLD + SECOND
    assert advance(passes, 1) == [(1.0, 7)]
    if listed:
        tasks.times_of[7] = FileNotFoundError(errno.ENOENT, "it ended since it was listed")
    else:
        del tasks.times_of[7]
    advance(passes, 2)
    assert set(passes.living) == {8}
    assert passes.wanted(()) == 0.0
    tasks.times_of[7] = SECOND // 2
    assert advance(passes, 3) == [(0.5, 7)], "another one of this id is new"


@pytest.mark.parametrize(
    ("number", "gone"),
    [
        (errno.EMFILE, False),
        (errno.ENFILE, False),
        (errno.ENOMEM, False),
        (errno.ENOENT, True),
        (errno.ESRCH, True),
        (errno.ENOTDIR, True),
    ],
)
def test_only_a_process_that_is_not_there_is_gone(number: int, gone: bool) -> None:
    usage = read_usage(os.getpid())
    assert usage is not None
    process = ServerProcess(os.getpid(), "server", "target", False, usage.started)
    watch = ProcessWatch(process, schedstat=True, ticks=True, now=time.monotonic_ns())
    with mock.patch.object(Tasks, "tids", side_effect=OSError(number, os.strerror(number))):
        assert watch.rescan(time.monotonic_ns(), 1.0) == 0
    assert watch.gone == gone
    if not gone:
        assert watch.rescan(time.monotonic_ns(), 1.0) >= 1, "read at the next turn"
    watch.close()
