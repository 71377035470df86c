"""What counts as a valley: thresholds, edges, holes, blips, plateaus, levels."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from gaptop.timeline.types import Steps
from gaptop.valleys.detect import Dip, DipDetector
from gaptop.valleys.grid import CELL, cells
from gaptop.valleys.level import Level
from gaptop.valleys.plateau import PlateauFinder
from gaptop.valleys.progress import Interval, Stall, StallDetector
from gaptop.valleys.windows import measure

from .valley_streams import Stream, analyse, stairs, total, valleys_of


def feed(detector: DipDetector, *parts: tuple[float, float]) -> list[Dip]:
    """Feed (seconds, value) parts one after the other; the valleys that ended, and then the open one."""
    found = []
    cell = 0
    for seconds, value in parts:
        for _ in range(round(seconds / CELL)):
            ended = detector.feed(cell, value)
            found += [ended] if ended is not None else []
            cell += 1
    return found + ([detector.open] if detector.open is not None else [])


def test_cells_average_steps_by_time_and_leave_holes_out() -> None:
    steps = Steps(np.array([0.0, 0.075, 0.3]), np.array([0.075, 0.2, 0.4]), np.array([1.0, 0.0, 0.5]))
    got = cells(steps, 0, 8)
    assert got[:4].tolist() == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert np.isnan(got[4:6]).all()
    assert got[6:].tolist() == pytest.approx([0.5, 0.5])


def test_cells_do_not_count_overlapping_steps_twice() -> None:
    steps = Steps(np.array([0.0, 0.05]), np.array([0.1, 0.2]), np.array([1.0, 0.0]))
    assert cells(steps, 0, 4).tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])


def test_level_is_a_high_quantile_of_the_newest_observations() -> None:
    level = Level(10, 0.9)
    assert level.value is None
    for value in [9.0] * 10 + [1.0] * 10:
        level.add(value)
    assert level.value == 1.0
    assert len(level) == 10


def test_one_gap_is_one_valley_with_its_idle_seconds() -> None:
    (dip,) = feed(DipDetector("d"), (5, 1.0), (1, 0.0), (5, 1.0))
    assert dip.start == pytest.approx(5.0)
    assert dip.end == pytest.approx(6.0)
    assert dip.idle == pytest.approx(1.0)
    assert (dip.start_error, dip.end_error) == (0.2, 0.2)
    assert dip.partial_windows == 0.0


def test_long_idle_stays_one_valley() -> None:
    (dip,) = feed(DipDetector("d"), (5, 1.0), (600, 0.0), (5, 1.0))
    assert dip.end == pytest.approx(605.0)


def test_device_that_was_never_busy_has_no_valley() -> None:
    detector = DipDetector("d")
    assert feed(detector, (30, 0.0), (0.2, 0.02), (30, 0.01)) == []
    assert detector.level is None


def test_hole_is_no_valley_and_widens_the_edge_that_it_touches() -> None:
    (dip,) = feed(DipDetector("d"), (5, 1.0), (3, math.nan), (2, 0.0), (5, 1.0))
    assert dip.start == pytest.approx(8.0)
    assert dip.start_error == pytest.approx(3.2)
    assert dip.end_error == 0.2
    assert dip.idle == pytest.approx(2.0)


def test_valley_that_runs_into_a_hole_ends_there_with_the_hole_in_its_error() -> None:
    (dip,) = feed(DipDetector("d"), (5, 1.0), (2, 0.0), (3, math.nan), (5, 1.0))
    assert dip.end == pytest.approx(7.0)
    assert dip.end_error == pytest.approx(3.2)
    assert dip.start_error == 0.2


def test_short_lack_of_readings_does_not_split_a_valley() -> None:
    (dip,) = feed(DipDetector("d"), (5, 1.0), (1, 0.0), (0.4, math.nan), (1, 0.0), (5, 1.0))
    assert dip.end == pytest.approx(7.4)
    assert dip.idle == pytest.approx(2.0)


def test_steady_lower_work_makes_a_new_level() -> None:
    first, second = feed(DipDetector("d"), (10, 1.0), (70, 0.4), (1, 0.0), (5, 0.4))
    assert first.start == pytest.approx(10.0)
    assert first.end == pytest.approx(70.0, abs=0.2)
    assert second.level == pytest.approx(0.4)
    assert second.idle == pytest.approx(1.0)


def test_slow_fall_between_the_thresholds_does_not_move_a_later_edge() -> None:
    (dip,) = feed(DipDetector("d"), (30, 1.0), (5, 0.6), (1, 0.0), (5, 0.6), (5, 1.0))
    assert dip.start == pytest.approx(34.8, abs=0.25)


def test_edges_are_moved_inside_partial_windows() -> None:
    dip = Dip("d", 1.0, 4.8, 6.2, 0.2, 0.2, 6.2)
    starts = np.arange(4.8, 6.15, 0.2)
    values = np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25])
    found = measure(Steps(starts, starts + 0.2, values), dip, 0.2)
    assert found.start == pytest.approx(4.9)
    assert found.end == pytest.approx(6.15)


def test_nearly_every_300_ms_gap_is_found_whatever_its_phase() -> None:
    # One gap every 2 s at random phase, through windows of 200 ms and of 167 ms.
    random.seed(7)
    for window in (0.2, 0.167):
        gaps = [2.0 * i + random.random() for i in range(2, 62)]

        def busy(t: float, gaps: list[float] = gaps) -> float:
            return 0.0 if any(start <= t < start + 0.3 for start in gaps) else 1.0

        _, assessment = analyse(Stream(130).device(busy, window=window).lines())
        starts = [item.start_s for item in assessment.valleys]
        found = sum(1 for gap in gaps if any(abs(start - gap) <= window + 0.05 for start in starts))
        assert found >= 59, (window, found)
        assert len(starts) == found
        measured = sum(item.idle_s or 0.0 for item in assessment.valleys)
        assert measured == pytest.approx(0.3 * found, rel=0.05)


def test_short_valley_is_suspected_at_most() -> None:
    stream = Stream(20).device(
        stairs((0, 1.0), (10.0, 0.0), (10.2, 1.0)), power=stairs((0, 300), (10, 60), (10.5, 300))
    )
    (valley,) = analyse(stream.lines())[1].valleys
    assert valley.idle_s == pytest.approx(0.2, abs=0.01)
    assert not valley.confirmed
    assert valley.verdict.confidence != "high"


def test_two_devices_that_fall_together_are_one_valley() -> None:
    stream = Stream(20)
    for name in ("nvml/GPU-a", "nvml/GPU-b"):
        stream.device(stairs((0, 1.0), (10, 0.0), (12, 1.0)), source=name)
    stream.metrics({"sched.running": stairs((0, 8)), "sched.waiting": stairs((0, 0))})
    (valley,) = analyse(stream.lines())[1].valleys
    assert valley.devices == ("GPU-a", "GPU-b")
    assert valley.idle_s == pytest.approx(4.0, abs=0.05)


def test_plateau_is_distributed_idle_and_no_valley() -> None:
    # "Dips between decode iterations": 10 ms busy and 2 ms idle, 80 times a second, read as a steady 83 %.
    stream = Stream(20).device(lambda t: 0.83 if int(t * 5) % 3 else 0.84)
    stream.metrics({"step.count": total((0, 80)), "sched.running": stairs((0, 8))})
    _, assessment = analyse(stream.lines())
    assert assessment.valleys == ()
    (plateau,) = assessment.plateaus
    assert plateau.busy_ratio == pytest.approx(0.83, abs=0.01)
    assert plateau.end_s - plateau.start_s == pytest.approx(20, abs=1)
    assert plateau.idle_per_step_s == pytest.approx(0.167 / 80, rel=0.05)


def test_plateaus_of_one_height_are_joined() -> None:
    finder = PlateauFinder("d")
    for cell in range(200):
        finder.feed(cell, 0.5 if cell == 100 else 0.8)
    (plateau,) = finder.all()
    assert plateau.start_s == 0.0
    assert plateau.end_s == pytest.approx(10.0)


def test_full_or_idle_device_has_no_plateau() -> None:
    finder = PlateauFinder("d")
    for cell in range(400):
        finder.feed(cell, 0.99 if cell < 200 else 0.0)
    assert finder.all() == []


def stalls(detector: StallDetector, *parts: tuple[int, float, float | None]) -> list[Stall]:
    """Feed (readings, rate, demand) parts at two a second."""
    found, t = [], 0.0
    for count, rate, demand in parts:
        for _ in range(count):
            ended = detector.feed(Interval(t, t + 0.5, rate, demand))
            found += [ended] if ended is not None else []
            t += 0.5
    return found + ([detector.open] if detector.open is not None else [])


def test_flat_tokens_with_requests_are_a_progress_valley() -> None:
    (stall,) = stalls(StallDetector(silences=False), (10, 800, 8), (4, 0, 8), (10, 800, 8))
    assert (stall.start, stall.end) == (5.0, 7.0)
    assert stall.expected - stall.units == pytest.approx(1600)


def test_one_request_left_over_is_no_stall() -> None:
    assert stalls(StallDetector(silences=False), (10, 800, 8), (10, 100, 1), (10, 800, 8)) == []


def test_growing_queue_at_full_speed_is_no_stall() -> None:
    assert stalls(StallDetector(silences=False), (10, 800, 8), (10, 800, 80), (10, 800, 200)) == []


def test_silence_is_marked_only_where_no_device_stands_for_it() -> None:
    parts = ((10, 800.0, 8.0), (6, 0.0, 0.0), (10, 800.0, 8.0))
    assert stalls(StallDetector(silences=False), *parts) == []
    assert len(stalls(StallDetector(silences=True), *parts)) == 1


def test_requests_that_were_not_seen_make_no_stall() -> None:
    assert stalls(StallDetector(silences=True), (10, 800, 8), (6, 0, None), (10, 800, 8)) == []


def test_slow_steps_are_not_taken_for_stalls() -> None:
    # Three steps a second and two readings a second: one or two steps fall between two readings, by luck.
    detector = StallDetector(silences=False)
    for index in range(60):
        steps = 4.0 if index % 2 else 0.0
        detector.feed(Interval(index * 0.5, index * 0.5 + 0.5, steps * 5, 5, steps))
    assert detector.open is None
    for index in range(60, 64):
        detector.feed(Interval(index * 0.5, index * 0.5 + 0.5, 0.0, 5, 0.0))
    assert detector.open is not None


def test_two_readings_close_together_do_not_raise_what_is_usual() -> None:
    # Steps of 4 tokens each 40 ms; after a late answer the next reading follows at once and holds a whole step.
    detector = StallDetector(silences=False)
    t, seen = 0.0, 0.0
    for index in range(120):
        end = t + (0.01 if index % 6 == 5 else 0.125)
        tokens = 4.0 * (int(end / 0.04) + (1 if index % 6 == 5 else 0))
        detector.feed(Interval(t, end, max(0.0, tokens - seen) / (end - t), 4, 25.0))
        t, seen = end, tokens
    assert detector.open is None
    assert detector.level is not None
    assert detector.level == pytest.approx(100, rel=0.3)


def test_a_burst_at_the_start_is_not_what_is_usual() -> None:
    # 78 % of what eight readings of eleven showed, and under half of the other three.
    assert stalls(StallDetector(silences=False), (8, 550, 3), (3, 900, 3), (20, 430, 3)) == []


def test_a_stall_after_a_burst_ends_where_the_usual_is_back() -> None:
    (stall,) = stalls(StallDetector(silences=False), (20, 500, 3), (4, 1000, 3), (4, 0, 3), (10, 520, 3))
    assert (stall.start, stall.end) == (12.0, 14.0)
    assert stall.expected - stall.units == pytest.approx(2.0 * 1.2 * 500)


def test_more_requests_than_usual_are_expected_to_get_more() -> None:
    (stall,) = stalls(StallDetector(silences=False), (40, 130, 1), (12, 400, 8), (4, 150, 8), (4, 400, 8))
    assert (stall.start, stall.end) == (26.0, 28.0)


def test_missing_readings_end_a_stall_with_their_length_in_its_error() -> None:
    detector = StallDetector(silences=False)
    stalls(detector, (10, 800, 8), (4, 0, 8))
    assert detector.interrupted(7.5) is None
    stall = detector.interrupted(12.0)
    assert stall is not None
    assert stall.end == 7.0
    assert stall.end_error == pytest.approx(5.5)


def test_steady_lower_rate_makes_a_new_level() -> None:
    found = stalls(StallDetector(silences=False), (20, 800, 8), (130, 300, 8), (4, 0, 8), (10, 300, 8))
    assert [round((item.end or 0) - item.start) for item in found] == [58, 2]


def test_a_device_that_was_slowed_down_is_waited_for() -> None:
    # Its windows come every two seconds, all of them: nothing is missing, only late.
    stream = Stream(24).device(stairs((0, 1.0), (13, 0.0), (14, 1.0)), every=2.0)
    for t in range(1, 24):
        stream.health(float(t), "nvml/GPU-a", "backoff", "read more rarely than it would be")
    (valley,) = (item for item in valleys_of(stream) if item.kind == "utilisation")
    assert valley.start_s == pytest.approx(13.0, abs=0.05)
    assert valley.end_s == pytest.approx(14.0, abs=0.05)
