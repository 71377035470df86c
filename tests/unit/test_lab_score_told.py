"""The same truth through different sources: what nobody can have been shown is not asked for."""

from __future__ import annotations

import pytest

from gaptop.lab.core.events import Idle
from gaptop.lab.score.match import Truth
from gaptop.lab.score.seen import Sight, seconds_of
from gaptop.lab.score.told import truth_of


def told(window: float | None) -> Truth:
    """A device at rest, because everybody hung up; its driver goes on saying busy."""
    idle = [Idle(10.0, 10.5, "demand", "no_demand"), Idle(10.5, 14.0, "phantom", "artefact")]
    return truth_of(idle, (), (), Sight(window, 0.25, 0.02, 0.0, 30.0))


def test_a_driver_that_says_busy_about_a_device_at_rest_is_an_artefact() -> None:
    truth = told(0.2)
    assert seconds_of(truth.idle[0], 0.0, 30.0) == {"no_demand": pytest.approx(0.5)}
    assert seconds_of(truth.hidden, 0.0, 30.0) == {"artefact": pytest.approx(3.5)}


def test_where_no_driver_is_asked_only_the_silence_is_left_of_it() -> None:
    truth = told(None)
    assert seconds_of(truth.idle[0], 0.0, 30.0) == {"no_demand": pytest.approx(4.0)}
    assert not truth.hidden
