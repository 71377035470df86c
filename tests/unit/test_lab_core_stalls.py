"""The lab's truth of progress, on bare numbers: 20 requests that get a token each 20 ms, and what may come between."""

from __future__ import annotations

from gaptop.lab.core.events import Slow, Stall
from gaptop.lab.core.stalls import StallTruth
from gaptop.lab.core.truth import Note


class Server:
    """Decodes in 20 ms."""

    def __init__(self) -> None:
        self.idle: list[Note] = []

    def usual(self, running: int) -> float:
        return 0.02

    def untold(self) -> list[Note]:
        return self.idle

    def too_few(self) -> str:
        return "admission"


def going() -> tuple[StallTruth, float]:
    """After a second of steps as usual, and when that was."""
    stalls, server, now = StallTruth(), Server(), 0.0
    stalls.runs(now)
    for _ in range(50):
        now += 0.02
        assert not list(stalls.message(now, 20, 20, 20, server))
    return stalls, now


def test_less_than_half_of_the_level_is_a_stall_and_a_little_more_is_slow() -> None:
    stalls, now = going()
    assert not list(stalls.message(now + 0.02, 18, 18, 18, Server()))
    [slow] = stalls.message(now + 0.04, 12, 12, 12, Server())
    assert isinstance(slow, Slow)
    assert slow[:4] == (now + 0.02, now + 0.04, "admission", "admission_stall")
    assert 0.5 < slow.came < 0.7
    [stall] = stalls.message(now + 0.06, 7, 7, 7, Server())
    assert stall == Stall(now + 0.04, now + 0.06, "admission", "admission_stall")


def test_what_lengthened_the_step_is_the_cause_piece_by_piece() -> None:
    stalls, now = going()
    stalls.piece(now, now + 0.3, "prefill")
    stalls.piece(now + 0.3, now + 0.301, "launch")
    stalls.piece(now + 0.301, now + 0.5, "gc")
    found = list(stalls.message(now + 0.52, 20, 20, 20, Server()))
    assert found == [
        Stall(now, now + 0.3, "prefill", "prefill_interference"),
        Stall(now + 0.3, now + 0.52, "gc", "host_starvation"),
    ]


def test_idle_time_that_still_goes_on_counts() -> None:
    stalls, now = going()
    server = Server()
    server.idle = [(now, now + 1.0, "device_sync")]
    assert list(stalls.message(now + 1.0, 20, 20, 20, server)) == [
        Stall(now, now + 1.0, "device_sync", "synchronisation")
    ]


def test_without_a_level_or_without_requests_nothing_stalls() -> None:
    stalls = StallTruth()
    stalls.runs(0.0)
    stalls.piece(0.0, 3.0, "prefill")
    assert not list(stalls.message(3.0, 1, 1, 1, Server()))
    stalls, now = going()
    stalls.stopped()
    assert not list(stalls.message(now + 1.0, 0, 0, 0, Server()))
    assert not list(stalls.message(now + 2.0, 0, 0, 1, Server()))


def test_the_level_fades() -> None:
    stalls, now = going()
    stalls.stopped()
    stalls.runs(now + 30.0)
    assert not list(stalls.message(now + 30.02, 4, 4, 4, Server()))
    stalls, now = going()
    assert list(stalls.message(now + 0.02, 4, 4, 4, Server()))
