"""The simulated device's readings: NVML's boxcar, whole percent, and the power that goes with it."""

from __future__ import annotations

import pytest

from gaptop.lab.personality import (
    DECODE_WATTS,
    IDLE_WATTS,
    PREFILL_WATTS,
    WEDGE_WATTS,
    WINDOW_NS,
    Busy,
    Held,
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


def test_a_limit_shows_as_its_reason_a_lower_clock_and_less_power() -> None:
    personality = Personality()
    spans = [Busy(0, 1000 * MS, 0.0), Busy(1000 * MS, 3000 * MS, 0.0, "step", 0.3)]
    limits = [Held(1000 * MS, 3000 * MS, "power")]
    readings = [personality.read(WINDOW_NS * (index + 1), spans, limits) for index in range(15)]
    assert [reading.limit_reasons for reading in readings] == [0] * 5 + [0x4] * 10
    assert readings[14].clock_hz == pytest.approx(0.3 * readings[4].clock_hz)
    assert readings[14].power_w == pytest.approx(IDLE_WATTS + (DECODE_WATTS - IDLE_WATTS) * 0.09, abs=2)
    assert Personality().read(WINDOW_NS, spans, [Held(0, 1000 * MS, "thermal")]).limit_reasons == 0x20


def test_what_is_no_step_is_busy_at_its_own_power() -> None:
    wedged = play([Busy(0, 4000 * MS, 0.0, "wedge")], 15)[-1]
    assert (wedged.busy, wedged.limit_reasons) == (1.0, 0)
    assert wedged.power_w == pytest.approx(WEDGE_WATTS, abs=1)
    assert play([Busy(0, 4000 * MS, 0.0, "phantom")], 15)[-1].power_w < 40
