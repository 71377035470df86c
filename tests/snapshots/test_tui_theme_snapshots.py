"""Themes and the command palette as pictures. Update: pytest --snapshot-update."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from tests.screenshots.canned import CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis

Compare = Callable[..., bool]


def themed(theme: str, **chosen: Any) -> GaptopApp:
    usual = {"ascii": False, "fps": 0.01, "version": "0.1.0", "log_path": "~/gaptop.log", "timezone": UTC}
    options = ScreenOptions(theme=theme, **{**usual, **chosen})
    return GaptopApp(CannedFeed(list(stream(60.0, False))), classify, options, CannedAnalysis, lambda: 0.0)


async def settle(pilot: Pilot[Any]) -> None:
    await pilot.pause(0.2)


async def open_the_palette(pilot: Pilot[Any]) -> None:
    await pilot.pause(0.2)
    await pilot.press("colon")
    pilot.app.screen.query_one(Input).cursor_blink = False
    await pilot.press(*"valley")
    await pilot.pause(1.0)


@pytest.mark.parametrize("theme", ["colour-blind", "textual-light", "nord"])
def test_theme(snap_compare: Compare, theme: str) -> None:
    assert snap_compare(themed(theme), terminal_size=(80, 24), run_before=settle)


@pytest.mark.parametrize("theme", ["ansi-dark", "textual-light"])
def test_palette(snap_compare: Compare, theme: str) -> None:
    assert snap_compare(themed(theme), terminal_size=(80, 24), run_before=open_the_palette)


def test_no_colours(snap_compare: Compare) -> None:
    app = themed("nord", colours="none", ascii=True)
    assert snap_compare(app, terminal_size=(80, 24), run_before=open_the_palette)
