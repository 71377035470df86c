"""Devices whose windows are long, as a dcgm-exporter's are: waited for, and not waited for by others."""

from __future__ import annotations

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst

from .valley_streams import Stream, analyse, classify, stairs

EXPORTER = "dcgm/GPU-b"


@pytest.mark.parametrize("window", [10.0, 30.0])
def test_a_valley_of_a_slow_device_is_one_valley_and_its_time_is_counted(window: float) -> None:
    busy = stairs((0.0, 1.0), (400.0, 0.0), (520.0, 1.0))
    _, found = analyse(Stream(900.0).device(busy, source=EXPORTER, window=window, every=window).lines())
    (valley,) = found.valleys
    assert valley.end_s is not None
    assert abs(valley.start_s - 400.0) <= valley.start_error_s
    assert abs(valley.end_s - 520.0) <= valley.end_error_s
    assert valley.idle_s == pytest.approx(120.0, abs=1.0)
    seen = sum(row.device_seconds for row in found.ledger)
    assert seen == pytest.approx(900.0, abs=2 * window)


def test_a_slow_device_does_not_hold_up_a_quick_one() -> None:
    dip = stairs((0.0, 1.0), (100.0, 0.0), (103.0, 1.0))
    stream = Stream(160.0).device(dip).device(stairs((0.0, 1.0)), source=EXPORTER, window=30.0, every=30.0)
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    first_seen = None
    for line in stream.lines():
        timeline.apply(line)
        assessment = analyst.apply(line)
        if assessment is not None and assessment.valleys and first_seen is None:
            first_seen = assessment.now
    assert first_seen is not None
    assert first_seen <= 101.5
