"""A theme that is chosen on the screen lasts until that ends, and what keeps it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gaptop.cli.in_force import settings
from gaptop.cli.look import Look
from gaptop.cli.settings import SETTINGS
from tests.unit.test_tui_screen import running

FILE = 'theme = "{}" in /home/me/.config/gaptop/config.toml, above its sections,'


async def test_the_palette_tells_what_keeps_a_theme() -> None:
    async with running() as screen:
        screen.app._options = replace(screen.app._options, theme_kept=FILE)
        await screen.press("colon", *"Theme nord", "enter")
        await screen.frame()
        assert screen.app.theme == "nord"
        assert screen.rows[-1].strip() == f"{FILE.format('nord')} keeps this theme for the next time."


async def test_the_theme_of_the_start_needs_no_keeping() -> None:
    async with running() as screen:
        screen.app._options = replace(screen.app._options, theme_kept=FILE)
        screen.app.choose_theme(screen.app._options.theme)
        await screen.frame()
        assert "keeps this theme" not in screen.rows[-1]


def kept(environ: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    found = settings(environ=environ)
    look = Look(theme="auto", symbols="auto", colours="auto", mouse=True, sweep="auto", settings=found)
    return look.screen_options("", "").theme_kept.format("nord")


def test_what_is_told_does_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "with {braces}"
    says = kept({}, folder, monkeypatch)
    line, _, path = says.removesuffix(", above its sections,").partition(" in ")
    assert path == str(folder / "gaptop" / "config.toml")
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text(f"{line}\n[lanes]\n")
    assert settings(environ={})["theme"] == "nord"


def test_a_variable_that_sets_a_theme_is_what_is_to_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, value = kept({"GAPTOP_THEME": "dracula"}, tmp_path, monkeypatch).partition("=")
    assert (name, value) == (SETTINGS["theme"].variable, "nord")
    assert settings(environ={name: value})["theme"] == "nord"
