"""The list of valleys: order, filters, which one comes next; and the keys that lead to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.tui.listing import ORDERS, Listing
from gaptop.valleys.model import LETTERS, Valley
from tests.screenshots.judged import CannedAnalysis
from tests.unit.test_tui_screen import running


def canned() -> tuple[Valley, ...]:
    from gaptop.timeline.timeline import Timeline
    from tests.screenshots.canned import classify, stream

    timeline = Timeline(classify)
    analysis = CannedAnalysis(timeline)
    for line in stream(60.0):
        timeline.apply(line)
        analysis.apply(line)
    return analysis.finish().valleys


VALLEYS = canned()
NOW = 60.0


@given(
    order=st.sampled_from(sorted(ORDERS)),
    causes=st.frozensets(st.sampled_from(sorted(LETTERS))),
    text=st.text("gcKhost "),
)
def test_whatever_is_listed_is_admitted_once_and_nothing_admitted_is_left_out(
    order: str, causes: frozenset[str], text: str
) -> None:
    listing = Listing(order, causes, text)  # type: ignore[arg-type]
    rows = listing.rows(VALLEYS, NOW)
    assert sorted(v.id for v in rows) == sorted(v.id for v in VALLEYS if listing.admits(v))
    assert all(not causes or v.verdict.cause in causes for v in rows)


def test_the_longest_comes_first_when_sorted_by_length_and_the_newest_by_time() -> None:
    by_length = Listing("length").rows(VALLEYS, NOW)
    lengths = [(NOW if v.end_s is None else v.end_s) - v.start_s for v in by_length]
    assert lengths == sorted(lengths, reverse=True)
    assert by_length != Listing("time").rows(VALLEYS, NOW)
    starts = [v.start_s for v in Listing("time").rows(VALLEYS, NOW)]
    assert starts == sorted(starts, reverse=True)


def test_what_cost_nothing_is_last_by_loss() -> None:
    assert Listing("loss").rows(VALLEYS, NOW)[-1].verdict.cause == "no_demand"


def test_a_depth_that_was_not_measured_sorts_under_every_measured_one() -> None:
    unknown = replace(VALLEYS[0], id="u", depth_ratio=None)
    zero = replace(VALLEYS[0], id="z", depth_ratio=0.0)
    assert [v.id for v in Listing("depth").rows([unknown, zero], NOW)] == ["z", "u"]


@pytest.mark.parametrize("text", ["GARBAGE", "garbage coll", "host", "medium"])
def test_text_is_found_in_any_case_in_cause_detail_and_confidence(text: str) -> None:
    found = Listing(text=text).rows(VALLEYS, NOW)
    assert any(v.verdict.cause == "host_starvation" for v in found)
    assert len(found) < len(VALLEYS)


def test_the_next_row_ends_at_the_ends() -> None:
    rows = Listing().rows(VALLEYS, NOW)
    assert Listing().beside(VALLEYS, NOW, None, 1) == rows[0]
    assert Listing().beside(VALLEYS, NOW, rows[0].id, 1) == rows[1]
    assert Listing().beside(VALLEYS, NOW, rows[0].id, -1) is None
    assert Listing().beside(VALLEYS, NOW, rows[-1].id, 1) is None


async def test_v_lists_the_valleys_and_the_row_is_selected_in_the_picture_too() -> None:
    async with running() as screen:
        await screen.press("v", "up")
        assert "valleys: 5" in screen.text
        chosen = screen.app._main.scene()
        assert chosen.chosen
        assert chosen.valley is not None
        assert screen.app._main.view.shows(chosen.valley.start_s)
        await screen.press("v")
        assert "selected valley" in screen.text


async def test_o_sorts_by_the_next_column_and_says_so() -> None:
    async with running() as screen:
        await screen.press("v", "o")
        assert "by length" in screen.text
        rows = [row for row in screen.rows if "cache pressure" in row or "no demand" in row]
        assert "cache pressure" in rows[0]
        await screen.press(*["o"] * 4)
        assert "valleys: 5, by seconds lost, not tokens" in screen.text


async def test_f_filters_by_cause_and_n_steps_through_what_is_left() -> None:
    async with running() as screen:
        await screen.press("f", "H", "enter")
        assert "valleys: 1 of 5, only H" in screen.text
        await screen.press("n", "n", "n")
        assert screen.app._main.scene().valley is not None
        assert screen.app._main.scene().valley.verdict.cause == "host_starvation"  # type: ignore[union-attr]
        await screen.press("escape")
        assert "valleys: 5" in screen.text


async def test_escape_in_the_filter_leaves_everything_as_it_was() -> None:
    async with running() as screen:
        await screen.press("f", "H", "escape")
        assert not screen.app._main.listing.filtered
        await screen.press("slash", "g", "c", "escape")
        assert not screen.app._main.listing.filtered
        assert screen.app.is_running


async def test_slash_filters_by_text_which_is_never_markup() -> None:
    async with running() as screen:
        await screen.press("slash", *"[red]", "enter")
        assert 'valleys: 0 of 5, only "[red]"' in screen.text
        assert 'None of 5 valleys: only "[red]"' in screen.text
        await screen.press("n")
        assert 'None of 5 valleys: only "[red]"' in screen.rows[-1]
        assert "Esc drops the filter" in screen.rows[-1]


async def test_a_click_on_a_row_selects_it_and_one_on_a_column_sorts() -> None:
    async with running() as screen:
        await screen.press("v")
        row = next(y for y, text in enumerate(screen.rows) if "host starvation" in text)
        await screen.pilot.click(offset=(10, row))
        await screen.pilot.pause()
        assert screen.app._main.scene().valley.verdict.cause == "host_starvation"  # type: ignore[union-attr]
        head = next(y for y, text in enumerate(screen.rows) if "confidence" in text and "cause" in text)
        await screen.pilot.click(offset=(16, head))
        await screen.pilot.pause()
        assert screen.app._main.listing.order == "length"


async def test_down_selects_a_number_and_only_its_lane_is_marked() -> None:
    async with running() as screen:
        await screen.press("N")
        while screen.app._main.scene().valley.verdict.cause != "cache_pressure":  # type: ignore[union-attr]
            await screen.press("N")
        marked = [row for row in screen.rows[:25] if row.startswith("▸")]
        assert len(marked) > 1
        await screen.press("down")
        assert "for 1/3" in screen.text
        assert [row[1:8].strip() for row in screen.rows[:25] if row.startswith("▸")] == ["KV used"]
        await screen.press("down", "down", "down")
        assert "for 1/3" not in screen.text


async def test_d_tells_the_whole_argument_with_parts_and_stacks_and_scrolls() -> None:
    async with running(size=(80, 24)) as screen:
        await screen.press("N", "d")
        first = screen.text
        assert "try" in first
        await screen.press("pagedown")
        assert screen.text != first
        await screen.press("pageup", "escape")
        assert screen.app._main._lower.mode == "short"
