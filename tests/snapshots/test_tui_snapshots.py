"""More of the screen as pictures that a person looked at (its states are in test_tui_state_snapshots). Update: pytest
--snapshot-update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.snapshots.canned_app import canned_app
from tests.snapshots.fleets import fleet_app
from tests.snapshots.recurring import recurring_app

Compare = Callable[..., bool]


async def settle(pilot: Pilot[Any]) -> None:
    """Until the first frame with all of the canned minute is drawn."""
    await pilot.pause(0.2)


def test_simulated_is_said_plainly(snap_compare: Compare) -> None:
    assert snap_compare(canned_app(simulated=True), terminal_size=(80, 24), run_before=settle)


def test_just_started(snap_compare: Compare) -> None:
    assert snap_compare(canned_app(length=2.0), terminal_size=(120, 40), run_before=settle)


def test_what_recurs(snap_compare: Compare) -> None:
    assert snap_compare(recurring_app(), terminal_size=(120, 40), run_before=settle)


def test_help(snap_compare: Compare) -> None:
    assert snap_compare(canned_app(), press=["question_mark"], terminal_size=(120, 40), run_before=settle)


def test_too_small(snap_compare: Compare) -> None:
    assert snap_compare(canned_app(), terminal_size=(20, 5), run_before=settle)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("two", (80, 24)),
        ("eight", (80, 24)),
        ("eight", (120, 40)),
        ("eight", (200, 60)),
        ("mig", (120, 40)),
        ("gpm", (120, 40)),
        ("unmapped", (120, 40)),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)
def test_devices(snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    assert snap_compare(fleet_app(name), terminal_size=size, run_before=settle)


def test_devices_in_ascii(snap_compare: Compare) -> None:
    assert snap_compare(fleet_app("mig", ascii_only=True), terminal_size=(80, 24), run_before=settle)
