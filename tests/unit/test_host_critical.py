"""Which thread is the critical one is known of every living process, however many have ended before."""

from __future__ import annotations

from gaptop_collectors.host import critical
from gaptop_collectors.host.critical import CriticalThreads
from gaptop_collectors.target import ServerProcess


def process(pid: int) -> ServerProcess:
    return ServerProcess(pid, "engine", "EngineCore", True, 1)


def test_the_main_thread_until_another_one_is_told() -> None:
    found = CriticalThreads()
    assert found.of(process(7)) == 7
    found.tell(process(7), 9)
    assert found.of(process(7)) == 9


def test_processes_that_came_and_went_push_out_no_living_one() -> None:
    found = CriticalThreads()
    living = process(1)
    for pid in range(10, 10 + 2 * critical._MOST):
        found.tell(living, 2)
        found.tell(process(pid), pid + 1)
        assert found.of(living) == 2
        assert found.of(process(max(10, pid - 1))) == max(10, pid - 1) + 1, "nor the one before"
    assert len(found._found) == critical._MOST
    assert found.of(process(10)) == 10, "but the oldest"
    oldest = next(pid for pid in range(10, 10 + 2 * critical._MOST) if found.of(process(pid)) != pid)
    found.tell(living, 3)
    assert found.of(process(oldest)) == oldest + 1, "one that is told again needs no room"
