"""No window of a driver's ring is lost, doubled or moved, however seldom it is drained."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.devices_truth.gaps import BEFORE, LIMITS, PCIE
from tests.devices_truth.replay import Kept, kept, streams

SECONDS = 300.0
RING = 72
VALUES = [(29 * index) % 101 for index in range(2000)]
"""Neighbours differ by 29 or 72 points: a window that is lost, doubled or moved shows."""


def card(window_ms: float, **more: Any) -> dict[str, Any]:
    series = [(value / 100, 100.0 + value) for value in VALUES]
    unsupported = [f"field:{number}" for number in (*LIMITS, *PCIE)]
    return {"series": series, "window_ms": window_ms, "uuid": f"GPU-{window_ms}", "unsupported": unsupported, **more}


def indices(seen: Kept, window: float) -> list[int]:
    """Which window each step is, by where it ends; checks that each is a window long and holds that window's value."""
    found = []
    steps = zip(seen.busy.start.tolist(), seen.busy.end.tolist(), seen.busy.value.tolist(), strict=True)
    for start, end, value in steps:
        index = round((end + BEFORE) / window) - 1
        assert end + BEFORE == pytest.approx((index + 1) * window, abs=0.001)
        assert start == pytest.approx(end - window, abs=0.001)
        assert round(value * 100) == VALUES[index]
        found.append(index)
    return found


@pytest.mark.parametrize("late", [0.0, 0.02, 1.5, 4.75], ids=["each 250 ms", "20 ms jitter", "each 1 s", "up to 5 s"])
def test_each_window_of_five_minutes_is_delivered_once(late: float) -> None:
    cards = [card(167), card(200, rotate=5, garbage=True), card(500)]
    for one, stream in zip(cards, streams(SECONDS, *cards, begin=BEFORE, jitter=late, seed=4), strict=True):
        window = one["window_ms"] / 1000
        seen = kept(stream)
        found = indices(seen, window)
        assert found == list(range(found[0], found[-1] + 1))
        assert found[0] <= BEFORE / window
        assert found[-1] >= (BEFORE + SECONDS - 0.01 - 0.25 - late) / window - 2
        assert seen.holes == []


@pytest.mark.parametrize("window", [0.167, 0.2, 0.5])
def test_a_stall_of_30_s_is_one_hole_of_what_the_ring_could_not_keep(window: float) -> None:
    one = card(window * 1000, slow=("nvmlDeviceGetFieldValues", 30_000, 400, 1))
    (stream,) = streams(160.0, one, begin=BEFORE)
    seen = kept(stream)
    found = indices(seen, window)
    lost = [(before, after) for before, after in pairwise(found) if after != before + 1]
    overrun = 30.0 - RING * window
    if overrun < 0:
        assert (lost, seen.holes) == ([], [])
        return
    ((before, after),) = lost
    (hole,) = seen.holes
    assert (after - before - 1) * window == pytest.approx(overrun, abs=0.25 + window)
    assert hole.start + BEFORE == pytest.approx((before + 1) * window, abs=0.002)
    assert hole.end + BEFORE == pytest.approx(after * window, abs=0.002)
