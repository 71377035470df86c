"""The collection period, from when values were seen to change."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop_collectors.devices.dcgm_period import (
    KEPT,
    LEAST_POLL_S,
    MOST_POLL_S,
    Change,
    CollectionPeriod,
    bounds,
    on_grid,
)


class Exporter:
    """Collects every ``period`` seconds, each time up to ``jitter`` seconds late; a collection changes no value with
    probability ``same`` and shows half in one scrape, half in the next with probability ``torn``."""

    def __init__(self, period: float, seed: int, *, jitter: float = 0.0, same: float = 0.0, torn: float = 0.0) -> None:
        self.period = period
        self.random = random.Random(seed)
        self._jitter, self._same, self._torn = jitter, same, torn
        self._slot = self.random.uniform(0, period)
        self._due = self._slot
        self._rest = False

    def changed(self, now: float) -> bool:
        found, self._rest = self._rest, False
        while self._due <= now:
            if self.random.random() >= self._same:
                found = True
                self._rest = self.random.random() < self._torn
            self._slot += self.period
            self._due = self._slot + self.random.uniform(0, self._jitter)
        return found


def watch(found: CollectionPeriod, exporter: Exporter, start: float, end: float, *, late: float = 0.0) -> float:
    """Scrape until ``end``, each scrape up to ``late`` of the wait late; returns the time then."""
    now = start
    while now < end:
        found.scraped(now, exporter.changed(now))
        assert LEAST_POLL_S <= found.poll <= MOST_POLL_S
        now += found.poll * (1 + exporter.random.uniform(0, late)) + 0.003
    return now


@settings(max_examples=60, deadline=None)
@given(
    period=st.floats(1, 60),
    seed=st.integers(0, 1 << 30),
    jitter=st.floats(0, 0.05),
    late=st.floats(0, 0.2),
)
def test_any_period_of_a_second_or_more_is_found(period: float, seed: int, jitter: float, late: float) -> None:
    found = CollectionPeriod()
    watch(found, Exporter(period, seed, jitter=jitter), 0, 14 * period + 40, late=late)
    assert found.seconds == pytest.approx(period, rel=0.16)
    assert not found.at_most


@settings(max_examples=40, deadline=None)
@given(period=st.floats(2, 60), seed=st.integers(0, 1 << 30), same=st.floats(0, 0.2), torn=st.floats(0, 0.05))
def test_unseen_and_torn_collections_do_not_mislead_long(period: float, seed: int, same: float, torn: float) -> None:
    found, exporter = CollectionPeriod(), Exporter(period, seed, same=same, torn=torn)
    now, wrong, seen = 0.0, 0, 0
    while now < 60 * period + 60:
        now = watch(found, exporter, now, now + period)
        seen += found.seconds is not None
        wrong += found.seconds is not None and abs(found.seconds - period) > 0.2 * period
    assert seen > 30
    assert wrong <= 20


@pytest.mark.parametrize("period", [0.1, 0.3, 0.5, 0.6])
def test_a_shorter_one_is_told_as_at_most(period: float) -> None:
    found = CollectionPeriod()
    watch(found, Exporter(period, 7), 0, 20)
    assert found.at_most
    assert found.seconds == LEAST_POLL_S


@pytest.mark.parametrize(
    ("before", "after"), [(30, 10), (30, 5), (5, 30), (1, 30), (30, 1), (0.5, 1), (0.5, 2), (0.2, 1), (2, 0.5)]
)
@pytest.mark.parametrize("seed", range(5))
def test_another_period_is_noticed(before: float, after: float, seed: int) -> None:
    found = CollectionPeriod()
    now = watch(found, Exporter(before, seed), 0, 20 * before + 20)
    assert found.seconds == pytest.approx(before, rel=0.16) or found.at_most
    exporter = Exporter(after, seed)
    exporter._slot += now
    exporter._due += now
    watch(found, exporter, now, now + 12 * max(before, after) + 60)
    assert found.seconds == pytest.approx(after, rel=0.16)


def test_the_first_scrape_after_an_interruption_is_no_change() -> None:
    found = CollectionPeriod()
    watch(found, Exporter(5, 1), 0, 60)
    known = found.seconds
    found.interrupt()
    found.scraped(500.0, True)
    assert found.seconds == known is not None


def scrapes(found: CollectionPeriod, changes: list[int], end: int) -> None:
    """One scrape a second; those at ``changes`` show new values."""
    for now in range(end + 1):
        found.scraped(float(now), now in changes)


def test_a_first_guess_over_an_unseen_collection_is_corrected_by_the_next_one() -> None:
    found = CollectionPeriod()
    scrapes(found, [10, 70], 70)
    assert found.seconds == pytest.approx(60, rel=0.02)
    found.scraped(99.0, False)
    found.scraped(100.0, True)
    assert found.seconds == pytest.approx(30, rel=0.03)


def test_a_long_silence_makes_the_period_unknown() -> None:
    found = CollectionPeriod()
    scrapes(found, [5, 10, 15, 20], 20)
    assert found.seconds == pytest.approx(5, rel=0.1)
    for now in range(21, 60):
        found.scraped(float(now), False)
    assert found.seconds is None
    assert found.poll == 1.0


def test_nothing_changes() -> None:
    found = CollectionPeriod()
    for now in range(1000):
        found.scraped(float(now), False)
    assert found.seconds is None
    assert found.poll == 1.0


def test_no_period_from_scrapes_that_all_show_a_change() -> None:
    """Any divisor of the scrapes' distance would do, so none is told."""
    assert bounds([Change(float(now), float(now + 1)) for now in range(KEPT)]) is None


def test_the_bounds_hold_the_truth_and_close_in() -> None:
    times = [3.3 + 30 * n for n in range(8)]
    changes = [Change(time // 5 * 5, time // 5 * 5 + 5) for time in times]
    widths = []
    for count in range(2, 9):
        found = bounds(changes[:count])
        assert found is not None
        assert found[0] <= 30 <= found[1]
        widths.append(found[1] - found[0])
    assert widths[-1] < widths[0] / 4
    assert on_grid(changes, 30)
    assert not on_grid(changes, 29)
    assert not on_grid(changes, 45)
