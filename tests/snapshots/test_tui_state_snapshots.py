"""Each state of the screen in three sizes, as pictures that a person looked at. Update: pytest --snapshot-update."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.snapshots.states import STATES

SIZES = [(80, 24), (120, 40), (200, 60)]

Compare = Callable[..., bool]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", STATES)
def test_state(snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    state = STATES[name]
    assert snap_compare(state.app(), terminal_size=size, run_before=state.reach)
