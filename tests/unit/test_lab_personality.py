"""The simulated device's readings: NVML's boxcar, whole percent, and the power that goes with it."""

from __future__ import annotations

import pytest

from gaptop.lab.personality import (
    DECODE_WATTS,
    IDLE_WATTS,
    PREFILL_WATTS,
    WINDOW_NS,
    Busy,
    Personality,
    Reading,
)

MS = 1_000_000


def play(spans: list[Busy], windows: int) -> list[Reading]:
    personality = Personality()
    return [personality.read(WINDOW_NS * (index + 1), spans) for index in range(windows)]


def test_a_periodic_gap_shorter_than_the_window_reads_flat() -> None:
    spans = [Busy(start * MS, (start + 50) * MS, 0.0) for start in range(0, 2000, 100)]
    assert {reading.busy for reading in play(spans, 10)} == {0.5}


def test_a_300_ms_gap_at_an_unlucky_phase_never_reads_zero() -> None:
    spans = [Busy(0, 250 * MS, 0.0), Busy(550 * MS, 2000 * MS, 0.0)]
    assert [reading.busy for reading in play(spans, 4)] == [1.0, 0.25, 0.25, 1.0]


def test_busy_is_whole_percent() -> None:
    assert play([Busy(0, 123_456_789, 0.0)], 1)[0].busy == 0.62


def test_power_settles_at_the_level_of_the_work() -> None:
    decode = play([Busy(0, 4000 * MS, 0.0)], 15)[-1].power_w
    prefill = play([Busy(0, 4000 * MS, 1.0)], 15)[-1].power_w
    assert decode == pytest.approx(DECODE_WATTS, abs=1)
    assert prefill == pytest.approx(PREFILL_WATTS, abs=1)
    falling = [reading.power_w for reading in play([Busy(0, 1000 * MS, 0.0)], 14)]
    assert falling[4] > falling[5] > falling[6] > falling[7]
    assert falling[-1] == pytest.approx(IDLE_WATTS, abs=1)


def test_the_clock_outlives_the_work_and_idle_is_not_a_limit_while_working() -> None:
    readings = play([Busy(0, 200 * MS, 0.0)], 16)
    assert readings[0].limit_reasons == 0
    assert readings[1].limit_reasons == 1
    assert readings[1].clock_hz == readings[0].clock_hz
    assert readings[-1].clock_hz < readings[0].clock_hz
