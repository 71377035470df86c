"""What of the truth the sources must show: by gaps of known lengths, at every phase of the windows."""

from __future__ import annotations

import numpy as np
import pytest

from gaptop.lab.score.seen import FALL, Piece, Sight, Sliding, Stretch, less, stall_stretches, union

WINDOW = 0.2


def sight(window: float | None = WINDOW, readings: float | None = 0.25) -> Sight:
    return Sight(window, readings, 0.03, 0.0, 40.0)


def one_gap(length: float, window: float = WINDOW) -> tuple[Stretch, ...]:
    pieces = [Piece(20.0, 20.0 + length, "host_starvation")]
    sliding = Sliding.over(pieces, sight(window))
    assert sliding is not None
    return sliding.stretches(pieces, 0)


@pytest.mark.parametrize("window", [1 / 6, 0.2, 0.5])
def test_a_gap_must_be_seen_from_six_fifths_of_a_window_on(window: float) -> None:
    (seen,) = one_gap(1.25 * window, window)
    assert seen.sure
    assert seen.start == pytest.approx(20.0)
    assert seen.end == pytest.approx(20.0 + 1.25 * window)
    (doubtful,) = one_gap(1.1 * window, window)
    assert not doubtful.sure
    assert one_gap(0.45 * window, window) == ()


@pytest.mark.parametrize("phase", np.linspace(0.0, WINDOW, 11)[:-1])
def test_a_gap_that_must_be_seen_leaves_a_low_reading_at_every_phase(phase: float) -> None:
    """The derivation, by windows of a fixed grid instead of the sliding one."""
    start, end = 20.0, 20.0 + 1.2 * WINDOW
    edges = phase + WINDOW * np.arange(90, 110)
    idle = [max(0.0, min(end, edge + WINDOW) - max(start, edge)) / WINDOW for edge in edges]
    assert 1.0 - max(idle) <= 0.4 + 1e-9


def test_many_gaps_shorter_than_a_window_are_one_stretch() -> None:
    """Six of ten hundredths idle: each gap would be invisible, the windows are low all the same."""
    pieces = [Piece(20.0 + 0.1 * index, 20.07 + 0.1 * index, "synchronisation") for index in range(30)]
    sliding = Sliding.over(pieces, sight())
    assert sliding is not None
    (found,) = sliding.stretches(pieces, 0)
    assert found.sure
    assert found.start == pytest.approx(20.0, abs=WINDOW)
    assert found.end == pytest.approx(23.0, abs=WINDOW)
    assert found.cause == "synchronisation"


def test_ordinary_step_gaps_are_no_stretch() -> None:
    pieces = [Piece(0.03 * index, 0.03 * index + 0.0008, "host_starvation") for index in range(1300)]
    sliding = Sliding.over(pieces, sight())
    assert sliding is not None
    assert sliding.stretches(pieces, 0) == ()
    assert sliding.dips() == ()


def test_idle_before_any_work_is_no_valley() -> None:
    pieces = [Piece(0.0, 5.0, "no_demand")]
    sliding = Sliding.over(pieces, sight())
    assert sliding is not None
    assert sliding.stretches(pieces, 0) == ()


def test_the_level_is_the_recent_one() -> None:
    """After half a minute at 40 % busy, 40 % is the level, and a whole gap is a valley still."""
    spread = [Piece(0.1 * index + 0.04, 0.1 * index + 0.1, "no_demand") for index in range(390)]
    pieces = [item for item in spread if not 20.0 <= item.start < 21.0]
    pieces = sorted([*pieces, Piece(20.0, 21.0, "no_demand")])
    sliding = Sliding.over(pieces, sight())
    assert sliding is not None
    (found,) = sliding.stretches(pieces, 0)
    assert (found.start, found.end) == pytest.approx((20.0, 21.0), abs=0.11)
    assert float(np.nanmax(sliding.level)) < FALL


def test_without_windows_there_are_no_idle_stretches() -> None:
    assert Sliding.over([Piece(20.0, 22.0, "no_demand")], sight(window=None)) is None


def test_a_stall_must_be_seen_when_a_second_of_whole_readings_lies_in_it() -> None:
    pieces = [Piece(10.0, 11.55, "prefill_interference"), Piece(20.0, 21.45, "prefill_interference")]
    long, short = stall_stretches(pieces, (), sight(), warm=3.0)
    assert (long.sure, short.sure) == (True, False)
    assert short.excuse == "too short"
    assert long.kind == "stall"
    (early,) = stall_stretches([Piece(2.0, 6.0, "stalled_busy")], (), sight(), warm=3.0)
    assert early.excuse == "before a level was known"
    assert stall_stretches(pieces, (), sight(readings=None), warm=3.0) == ()


def test_few_requests_at_full_speed_are_no_stall() -> None:
    assert stall_stretches([Piece(10.0, 15.0, "no_demand")], (), sight(), warm=3.0) == ()


def test_a_silence_that_no_device_shows_is_a_standstill() -> None:
    blind = sight(window=None)
    (found,) = stall_stretches([], (), blind, 3.0, [Piece(10.0, 15.0, "no_demand")])
    assert (found.cause, found.sure, found.kind) == ("no_demand", True, "stall")


def test_a_standstill_that_idles_for_most_of_its_time_is_told_once() -> None:
    idle = [Piece(10.0, 12.0, "admission_stall")]
    sliding = Sliding.over(idle, sight())
    assert sliding is not None
    stretches = sliding.stretches(idle, 0)
    around = [Piece(9.0, 10.0, "admission_stall"), Piece(12.0, 12.9, "prefill_interference")]
    assert stall_stretches(around, stretches, sight(), warm=3.0) == ()
    longer = [*around, Piece(12.9, 16.0, "prefill_interference")]
    (kept,) = stall_stretches(longer, stretches, sight(), warm=3.0)
    assert (kept.cause, kept.sure) == ("prefill_interference", True)


def test_a_standstill_in_the_first_step_after_a_silence_need_not_be_seen() -> None:
    for cause, sure in (("no_demand", False), ("host_starvation", True)):
        idle = [Piece(9.0, 10.0, cause)]  # type: ignore[arg-type]  # a literal's type is lost in the loop
        sliding = Sliding.over(idle, sight())
        assert sliding is not None
        (found,) = stall_stretches([Piece(10.0, 15.0, "stalled_busy")], sliding.stretches(idle, 0), sight(), warm=3.0)
        assert found.sure is sure
        assert found.excuse == ("" if sure else "first step after a silence")


def test_a_standstill_with_idle_time_in_its_middle_counts_by_its_longest_part() -> None:
    idle = [Piece(11.0, 12.0, "host_starvation")]
    sliding = Sliding.over(idle, sight())
    assert sliding is not None
    around = [Piece(10.0, 11.0, "host_starvation"), Piece(12.0, 13.0, "host_starvation")]
    (found,) = stall_stretches(around, sliding.stretches(idle, 0), sight(), warm=3.0)
    assert not found.sure


def test_stalls_that_touch_are_one_with_two_causes() -> None:
    pieces = [Piece(10.0, 12.0, "prefill_interference"), Piece(12.0, 15.0, "stalled_busy")]
    (found,) = stall_stretches(pieces, (), sight(), warm=3.0)
    assert found.seconds == {"prefill_interference": 2.0, "stalled_busy": 3.0}
    assert found.cause == "stalled_busy"


def test_union_counts_no_second_twice() -> None:
    assert union([(0.0, 2.0), (1.0, 3.0), (5.0, 9.0)], 0.5, 6.0) == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ([(8.0, 9.0)], [(0.0, 4.0)]),
        ([(4.0, 9.0)], [(0.0, 4.0)]),
        ([(-2.0, 0.0), (8.0, 9.0)], [(0.0, 4.0)]),
        ([(1.0, 2.0), (4.5, 5.0)], [(0.0, 1.0), (2.0, 4.0)]),
        ([(3.0, 9.0)], [(0.0, 3.0)]),
        ([(-1.0, 5.0)], []),
    ],
)
def test_what_is_taken_elsewhere_leaves_a_piece_as_it_is(
    taken: list[tuple[float, float]], left: list[tuple[float, float]]
) -> None:
    kept = less(Piece(0.0, 4.0, "no_demand"), taken)
    assert [(item.start, item.end) for item in kept] == left


def test_what_need_not_be_seen_has_a_reason() -> None:
    # The level is known from 1 s of work on; the last window that is read ends at 39.5 s.
    pieces = [
        Piece(0.5, 0.9, "no_demand"),
        Piece(10.0, 10.11, "no_demand"),
        Piece(20.0, 20.21, "no_demand"),
        Piece(39.35, 40.0, "no_demand"),
        Piece(39.5, 40.0, "no_demand"),
    ]
    found = {}
    for pair in (pieces[:4], [*pieces[:3], pieces[4]]):
        sliding = Sliding.over(pair, Sight(WINDOW, 0.5, 0.02, 0.0, 39.5))
        assert sliding is not None
        for item in (*sliding.stretches(pair, 0), *sliding.beyond(pair, 0)):
            found[round(item.start, 2)] = item.excuse
    assert found == {
        0.5: "before a level was known",
        10.0: "too shallow",
        20.0: "too short",
        39.35: "at the edge",
        39.5: "at the edge",
    }
