"""The model of a window that the other tests compare with: simple enough to be checked by hand."""

from __future__ import annotations

import pytest

from tests.devices_truth import boxcar


def test_shares_add_up_to_the_true_busy_time_wherever_windows_begin() -> None:
    busy = boxcar.around([(1.03, 1.08), (2.5, 2.93), (4.0, 4.2)], 6.0)
    for start in (0.0, 0.013, 0.1999):
        duties = boxcar.duties(busy, 0.2, 29, start)
        assert sum(duties) / 100 * 0.2 == pytest.approx(boxcar.overlap(busy, start, start + 5.8))


@pytest.mark.parametrize(("rounding", "seen"), [("nearest", [100, 75, 0, 76, 100]), ("down", [100, 75, 0, 75, 100])])
def test_a_gap_of_299_ms_reads_in_three_windows(rounding: boxcar.Rounding, seen: list[int]) -> None:
    assert boxcar.readings(boxcar.around([(0.35, 0.649)], 1.0), 0.2, 5, rounding) == seen


def test_whole_per_cents_stay_whole_whatever_binary_fractions_lose() -> None:
    assert [boxcar.whole(100 * (value / 100), "down") for value in range(101)] == list(range(101))


def test_a_poller_gets_the_newest_window_that_is_out() -> None:
    assert boxcar.polled([10, 20, 30], 0.2, [0.1, 0.209, 0.211, 0.5, 0.9]) == [None, None, 10, 20, 30]
