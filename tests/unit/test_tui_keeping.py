"""What keys write down: each says where, none overwrites, and a refusal is one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gaptop.cli.keeper import Keeper
from gaptop.valleys.markdown import verdict_markdown
from gaptop.valleys.model import Fact
from tests.unit.test_tui_listing import VALLEYS
from tests.unit.test_tui_screen import running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_second_file_of_the_same_second_gets_another_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaptop.cli.keeper.new_recording", lambda host, directory: directory / "gaptop-h-1.gaptop")
    paths = [Keeper().put(".perfetto.json", text) for text in ("one", "two", "three")]
    assert [path.read_text() for path in paths] == ["one", "two", "three"]
    assert len(set(paths)) == 3
    assert all(path.name.startswith("gaptop-h-1") and path.name.endswith(".json") for path in paths)


def kept(folder: Path, suffix: str) -> tuple[str, str]:
    """Name and text of the one file of that kind."""
    (path,) = folder.glob(f"*{suffix}")
    return path.name, path.read_text()


async def test_pictures_traces_and_verdicts_are_written_and_their_paths_said(folder: Path) -> None:
    async with running() as screen:
        screen.app._options = replace(screen.app._options, keeper=Keeper())
        await screen.press("S")
        name, picture = kept(folder, ".svg")
        assert name in screen.rows[-1]
        assert "CACHE" in picture
        await screen.press("comma", "r", *["comma"] * 20, "x")
        name, trace = kept(folder, ".json")
        assert name in screen.rows[-2]
        selected = screen.app._main.scene().selected
        assert selected is not None
        stamps = [event["ts"] / 1e6 for event in json.loads(trace)["traceEvents"] if "ts" in event]
        assert stamps
        assert selected[0] - 1e-6 <= min(stamps)
        assert max(stamps) <= selected[1] + 1e-6
        await screen.press("escape", "y")
        name, verdict = kept(folder, ".md")
        assert name in screen.rows[-1]
        assert screen.app.clipboard == verdict
        assert "### Cache pressure: preemption thrash" in verdict


async def test_where_nothing_can_be_written_one_sentence_says_what_to_do(folder: Path) -> None:
    class Full(Keeper):
        def put(self, suffix: str, text: str) -> Path:
            raise OSError(28, "No space left on device")

    async with running() as screen:
        screen.app._options = replace(screen.app._options, keeper=Full())
        for key in ("S", "x", "y"):
            await screen.press(key)
            assert "No space left on device. Free some room" in "".join(screen.rows[-2:])


def test_text_from_outside_is_neither_markup_nor_a_new_line() -> None:
    valley = VALLEYS[0]
    evil = Fact("x", 1.0, "", "<img src=x>\n# owned **[a](b)**")
    said = verdict_markdown(
        replace(valley, verdict=replace(valley.verdict, evidence=(evil,), detail="`rm`")), "12:00", "http://h/|x", 60.0
    )
    assert "\\<img src=x\\> \\# owned \\*\\*\\[a\\](b)\\*\\*" in said
    assert "\n# owned" not in said
    assert "\\`rm\\`" in said


@pytest.mark.parametrize("valley", VALLEYS, ids=lambda valley: valley.verdict.cause)
def test_the_verdict_brings_every_number_every_exclusion_and_the_remedy(valley: object) -> None:
    from gaptop.valleys.model import Valley

    assert isinstance(valley, Valley)
    said = verdict_markdown(valley, "12:00:00", "vLLM", 60.0).replace("\\", "")
    for fact in valley.verdict.evidence:
        assert " ".join(fact.says.split()) in said
    for item in valley.verdict.excluded:
        assert item.because in said
    assert valley.verdict.advice in said
