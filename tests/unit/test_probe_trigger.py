"""When the probe looks closer by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gaptop.probe.trigger import Trigger
from gaptop.recording.lines import Batch


def boosts(batches: Sequence[Batch]) -> list[float]:
    """At which times a boost comes, asked every quarter of a second."""
    trigger, found, tick = Trigger(), [], 0.0
    for batch in batches:
        trigger.see(batch)
        while tick <= batch.t[-1]:
            tick += 0.25
            if trigger.due(tick):
                found.append(tick)
    return found


def busy(values: Sequence[float | None], step: float = 0.25) -> list[Batch]:
    return [Batch("gpu", [index * step], {"device.busy": [value]}) for index, value in enumerate(values)]


def served(rows: Sequence[tuple[float, float]], step: float = 0.5) -> list[Batch]:
    return [
        Batch("m", [index * step], {"sched.running": [running], "tokens.decode": [tokens]})
        for index, (running, tokens) in enumerate(rows)
    ]


def test_a_steady_device_is_no_reason() -> None:
    assert boosts(busy([0.95, 0.9, 0.97] * 40)) == []


def test_a_device_that_falls_is_one_reason_at_its_fall() -> None:
    found = boosts(busy([0.95] * 40 + [0.1] * 20 + [0.95] * 20))
    assert found == [pytest.approx(10.25)]


def test_an_idle_device_is_no_reason() -> None:
    assert boosts(busy([0.02, 0.0, 0.1, 0.0] * 40)) == []


def test_missing_readings_are_no_fall() -> None:
    assert boosts(busy([0.95, None] * 40)) == []


def test_the_level_follows_a_device_that_stays_low() -> None:
    # Ten minutes at 30 % after a busy start: a fall from there counts again.
    found = boosts(busy([0.95] * 8 + [0.3] * 2400 + [0.05] * 8))
    assert len(found) == 2


def test_recurring_valleys_are_rationed() -> None:
    found = boosts(busy(([0.95] * 6 + [0.1] * 2) * 30))
    assert len(found) >= 5
    assert all(later - earlier >= 6 for earlier, later in zip(found, found[1:], strict=False))


def test_tokens_that_stand_still_while_requests_run() -> None:
    flowing = [(4.0, 10.0 * index) for index in range(10)]
    found = boosts(served(flowing + [(4.0, 90.0)] * 6))
    assert len(found) == 1
    assert 5.0 <= found[0] <= 5.75


def test_tokens_that_stand_still_while_nothing_runs_are_no_reason() -> None:
    assert boosts(served([(4.0, 10.0 * index) for index in range(10)] + [(0.0, 90.0)] * 20)) == []


def test_labelled_series_belong_together() -> None:
    rows = [
        Batch(
            "m",
            [index * 0.5],
            {
                "sched.running{engine=0}": [0.0],
                "sched.running{engine=1}": [2.0],
                "tokens.decode{engine=0}": [5.0],
                "tokens.decode{engine=1}": [10.0 * min(index, 8)],
            },
        )
        for index in range(16)
    ]
    assert len(boosts(rows)) == 1
