"""What readings come to mean: windows, gauges, counters, holes."""

from __future__ import annotations

import pytest

from gaptop.recording.lines import Batch, Hole, Source, Tick, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Cover, SeriesId
from tests.unit.timeline_streams import BUSY, POWER, TOKENS, batch, source, steps, timeline


class TestWindow:
    def test_a_reading_describes_the_window_that_ended_a_lag_ago(self) -> None:
        made = timeline(source(lag=0.01), batch(BUSY, (1.0, 0.95)))
        assert steps(made, BUSY) == [(0.79, 0.99, 0.95)]

    def test_overlapping_windows_count_no_instant_twice(self) -> None:
        made = timeline(source(), batch(BUSY, (1.0, 0.5), (1.1, 0.25)))
        assert steps(made, BUSY) == [(0.8, 1.0, 0.5), (1.0, 1.1, 0.25)]

    def test_jitter_is_bridged(self) -> None:
        made = timeline(source(), batch(BUSY, (1.0, 0.5), (1.23, 0.25)))
        assert steps(made, BUSY) == [(0.8, 1.0, 0.5), (1.0, 1.23, 0.25)]

    def test_a_lost_window_is_a_hole(self) -> None:
        made = timeline(source(), batch(BUSY, (1.0, 0.5), (1.4, 0.25)))
        assert steps(made, BUSY) == [(0.8, 1.0, 0.5), (1.2, 1.4, 0.25)]
        assert made.value_at(BUSY, 1.1) is None

    def test_the_window_is_the_one_in_force_at_the_reading(self) -> None:
        made = timeline(source(), batch(BUSY, (1.0, 0.5)), source(window=0.1), batch(BUSY, (2.0, 0.5)))
        assert steps(made, BUSY) == [(0.8, 1.0, 0.5), (1.9, 2.0, 0.5)]

    def test_null_is_no_observation(self) -> None:
        made = timeline(source(), batch(BUSY, (1.0, 0.5), (1.2, None), (1.4, 0.0)))
        assert steps(made, BUSY) == [(0.8, 1.0, 0.5), (1.2, 1.4, 0.0)]

    def test_equal_windows_of_a_thread_are_one_piece_and_of_a_device_are_not(self) -> None:
        thread = SeriesId("s", "host.oncpu{tid=7}")
        readings = tuple((1.0 + 0.2 * i, 0.0) for i in range(3))
        assert len(steps(timeline(source(), batch(BUSY, *readings)), BUSY)) == 3
        assert steps(timeline(source(), batch(thread, *readings)), thread) == [(0.8, 1.4, 0.0)]

    @pytest.mark.parametrize("value", [0.95, 0.07, 1.0, 0.0, 0.333])
    def test_a_ratio_reads_back_as_it_was(self, value: float) -> None:
        made = timeline(source(), batch(BUSY, (1.0, value)))
        assert made.value_at(BUSY, 0.9) == value
        assert made.columns(BUSY, 0.8, 1.0, 1).low[0] == value
        assert made.mean(BUSY, 0.8, 1.0) == value
        assert made.extremes(BUSY, 0.8, 1.0) == (value, value)


class TestGauge:
    def test_it_holds_until_the_next_reading(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0), (2.0, 200.0)))
        assert steps(made, POWER) == [(1.0, 2.0, 300.0)]

    def test_it_holds_at_most_two_and_a_half_periods(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0), (9.0, 200.0)))
        assert steps(made, POWER) == [(1.0, 3.5, 300.0)]

    def test_null_ends_it(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0), (1.5, None), (2.0, 200.0)), Tick(2.5))
        assert steps(made, POWER) == [(1.0, 1.5, 300.0), (2.0, 2.5, 200.0)]
        assert made.latest(POWER) == (2.0, 200.0)

    def test_the_newest_holds_up_to_now(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0)), Tick(1.25))
        assert steps(made, POWER) == [(1.0, 1.25, 300.0)]
        made.apply(Tick(60.0))
        assert steps(made, POWER) == [(1.0, 3.5, 300.0)]

    def test_what_was_asked_while_it_held_leaves_no_trace(self) -> None:
        first, then = batch(POWER, (0.5, 100.0), (1.0, 300.0)), batch(POWER, (1.25, None))
        made, fresh = timeline(source(), first, Tick(3.0)), timeline(source(), first, Tick(3.0), then)
        assert made.columns(POWER, 0.0, 3.0, 6).mean[4] == 300.0
        made.apply(then)
        assert made.columns(POWER, 0.0, 3.0, 6).mean.tobytes() == fresh.columns(POWER, 0.0, 3.0, 6).mean.tobytes()
        assert made.coverage(POWER, 0.0, 3.0) == 0.25

    def test_the_newest_holds_up_to_the_watermark(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0)), Tick(3.0), Watermark("s", 2.0))
        assert steps(made, POWER) == [(1.0, 2.0, 300.0)]
        made.apply(batch(POWER, (2.5, 100.0)))
        assert steps(made, POWER) == [(1.0, 2.5, 300.0)]

    def test_a_longer_period_announced_in_time_lets_it_hold_longer(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0)), source(period=4.0), batch(POWER, (5.0, 200.0)))
        assert steps(made, POWER) == [(1.0, 5.0, 300.0)]

    def test_a_longer_period_announced_too_late_does_not(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0)), Tick(4.0), source(period=4.0), batch(POWER, (5.0, 200.0)))
        assert steps(made, POWER) == [(1.0, 3.5, 300.0)]

    def test_an_unknown_signal_is_a_gauge(self) -> None:
        made = timeline(source(), batch(SeriesId("s", "new.signal"), (1.0, 3.0), (2.0, 4.0)))
        assert steps(made, SeriesId("s", "new.signal")) == [(1.0, 2.0, 3.0)]


class TestCounter:
    def test_it_is_a_rate_between_two_readings(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 100.0), (3.0, 150.0)))
        assert steps(made, TOKENS) == [(1.0, 3.0, 25.0)]
        assert made.increase(TOKENS, 1.0, 3.0) == 50.0
        assert made.latest(TOKENS) == (3.0, 150.0)

    def test_the_increase_is_linear_at_the_edges(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 100.0), (3.0, 150.0), (5.0, 150.0)))
        assert made.increase(TOKENS, 2.0, 4.0) == pytest.approx(25.0)

    def test_the_increase_is_none_where_under_half_is_covered(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 100.0), (2.0, 150.0)))
        assert made.increase(TOKENS, 0.5, 2.0) == 50.0
        assert made.increase(TOKENS, 1.5, 3.0) is None

    def test_a_fall_is_a_restart(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 100.0), (2.0, 3.0), (3.0, 5.0)))
        assert steps(made, TOKENS) == [(2.0, 3.0, 2.0)]

    def test_a_small_increment_of_a_huge_count_is_exact(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 1e15), (2.0, 1e15 + 3)))
        assert made.increase(TOKENS, 1.0, 2.0) == 3.0

    def test_an_increment_over_more_than_ten_seconds_says_nothing(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 0.0), (11.0, 5.0), (21.5, 9.0)))
        assert steps(made, TOKENS) == [(1.0, 11.0, 0.5)]

    def test_a_missed_reading_costs_nothing(self) -> None:
        made = timeline(source(), batch(TOKENS, (1.0, 0.0), (2.0, None), (3.0, 8.0)))
        assert steps(made, TOKENS) == [(1.0, 3.0, 4.0)]


class TestHole:
    @pytest.mark.parametrize("late", [False, True])
    def test_no_step_shares_time_with_it(self, late: bool) -> None:
        hole = Hole("s", 2.5, 3.25, "slow call")
        data = [
            Batch(
                "s",
                [float(t), t + 0.5],
                {BUSY.key: [0.5, 0.25], POWER.key: [1.0 * t, 2.0 * t], TOKENS.key: [8.0 * t, 8.0 * t + 4]},
            )
            for t in range(1, 6)
        ]
        wide = source(window=0.5)
        made = timeline(wide, *data, hole) if late else timeline(wide, *data[:2], hole, *data[2:])
        assert [(a, b) for a, b, _ in steps(made, BUSY, 1.9, 4.1)] == [
            (1.5, 2.0),
            (2.0, 2.5),
            (3.25, 3.5),
            (3.5, 4.0),
            (4.0, 4.5),
        ]
        assert [(a, b) for a, b, _ in steps(made, POWER, 2.0, 4.0)] == [(2.0, 2.5), (3.5, 4.0)]
        assert [(a, b) for a, b, _ in steps(made, TOKENS, 2.0, 4.0)] == [(2.0, 2.5), (3.5, 4.0)]
        assert made.columns(POWER, 2.5, 3.25, 3).cover.tolist() == [Cover.HOLE] * 3
        assert made.holes("s", 0.0, 2.6) == (hole,)
        assert made.holes("s", 3.25, 9.0) == ()

    def test_it_cuts_a_gauge_that_still_holds(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 300.0)), Tick(2.0))
        assert made.value_at(POWER, 1.9) == 300.0
        made.apply(Hole("s", 1.5, 1.75, "x"))
        assert steps(made, POWER) == [(1.0, 1.5, 300.0)]
        made.apply(batch(POWER, (2.5, 200.0)))
        assert steps(made, POWER) == [(1.0, 1.5, 300.0)]

    def test_repeats_change_nothing(self) -> None:
        hole = Hole("s", 1.0, 2.0, "x")
        made = timeline(source(), hole, hole, hole)
        assert made.holes("s", 0.0, 9.0) == (hole,)

    def test_far_back_in_a_long_history(self) -> None:
        made = timeline(source(period=0.01))
        for i in range(1, 1001):
            made.apply(batch(POWER, (i / 100, float(i))))
        made.apply(Hole("s", 2.0, 3.0, "x"))
        made.apply(Hole("s", 9.0, 9.1, "x"))
        columns = made.columns(POWER, 0.0, 10.0, 10)
        assert columns.cover.tolist() == [1, 1, 2, 1, 1, 1, 1, 1, 1, 1]
        assert columns.mean[5] == pytest.approx(549.5)
        assert (columns.low[3], columns.high[3]) == (300.0, 399.0)


def test_a_signal_read_more_rarely_than_its_source_holds_for_its_own_period() -> None:
    timeline = Timeline()
    timeline.apply(
        Source(0.0, "nvml/0", "devices.nvml", "device", {}, (), 0.25, period_by_signal={"device.temperature": 2.0})
    )
    for moment in (1.0, 3.0):
        timeline.apply(Batch("nvml/0", [moment], {"device.temperature": [60.0], "device.power": [300.0]}))
    timeline.apply(Tick(4.0))
    (temperature,), (power,) = timeline.ids("device.temperature"), timeline.ids("device.power")
    assert timeline.value_at(temperature, 2.9) == 60.0
    assert timeline.value_at(power, 1.6) == 300.0
    assert timeline.value_at(power, 1.7) is None
