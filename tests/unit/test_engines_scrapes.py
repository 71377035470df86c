"""The moment to which the values of an answer belong, and how far it may be off."""

from __future__ import annotations

import pytest

from gaptop_collectors.collector import CollectorError, Hole
from gaptop_collectors.engines.http import Answer
from gaptop_collectors.engines.scrapes import ScrapeLog

MS = 1_000_000


def answer(sent: int, first: int) -> Answer:
    """Times in milliseconds."""
    return Answer(200, {}, b"", sent * MS, sent * MS, first * MS, first * MS + MS, True)


def read(log: ScrapeLog, *answers: Answer) -> list[float]:
    """When the values of each were taken, in milliseconds."""
    taken = []
    for each in answers:
        taken.append(log.taken_in(each) / MS)
        log.read(each)
    return taken


def test_a_free_server_takes_its_values_halfway() -> None:
    assert read(ScrapeLog("metrics/a"), answer(0, 4), answer(500, 504), answer(1000, 1002)) == [2.0, 502.0, 1001.0]


def test_a_busy_server_takes_them_right_before_it_answers() -> None:
    log = ScrapeLog("metrics/a")
    assert read(log, answer(0, 4), answer(500, 970), answer(1000, 1004)) == [2.0, 968.0, 1002.0]


def test_times_never_go_back() -> None:
    log = ScrapeLog("metrics/a")
    taken = read(log, answer(0, 400), answer(401, 403), answer(404, 900), answer(901, 902))
    assert taken == sorted(set(taken))


@pytest.mark.parametrize(("slowest", "error"), [(6, 0.005), (470, 0.5)])
def test_the_error_reaches_back_to_the_request(slowest: int, error: float) -> None:
    log = ScrapeLog("metrics/a")
    read(log, answer(0, 4), answer(500, 500 + slowest))
    assert log.error == error


def test_a_hole_ends_where_the_next_values_were_taken() -> None:
    log = ScrapeLog("metrics/a")
    read(log, answer(0, 4))
    log.failed(CollectorError("nothing came"))
    (hole,) = log.read(answer(1000, 1300))
    assert isinstance(hole, Hole)
    assert (hole.start_ns, hole.end_ns) == (2 * MS, 1298 * MS)
