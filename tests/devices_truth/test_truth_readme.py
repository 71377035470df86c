"""README's table of what NVML can and cannot see is what the stand-in, the collector and the analysis really give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.devices_truth import test_truth_found as found
from tests.devices_truth import test_truth_rounding as rounding
from tests.devices_truth.gaps import BEFORE, Gap, card, one_each, seen_by_pollers, shown, told
from tests.devices_truth.replay import Judged, judge, streams

README = Path(__file__).parents[2] / "README.md"
WINDOW = 0.2
LENGTHS = (20, 50, 100, 200, 300, 400)
"""Milliseconds."""
GAPS = 60


def gaps_of(length: int) -> list[Gap]:
    if length == 300:
        return found.gaps_of(WINDOW)
    return one_each(2.0, length / 1000, 4.0, 4.0 + 2.0 * GAPS, random.Random(f"{length} ms"))


@cache
def judged(length: int) -> Judged:
    if length == 300:
        return found.judged(WINDOW, "each 250 ms")
    seconds = 2.0 * GAPS + 8.0
    (stream,) = streams(seconds, card(gaps_of(length), seconds, WINDOW), begin=BEFORE)
    return judge(stream)


def row(length: int) -> str:
    gaps = gaps_of(length)
    low = sorted(min(shown(gap, WINDOW)) for gap in gaps)
    about = [told(judged(length), gap, WINDOW) for gap in gaps]
    error = max(abs(one.idle_s - (gap[1] - gap[0])) for one, gap in zip(about, gaps, strict=True))
    poller = percent(seen_by_pollers(gaps, WINDOW, random.Random(length)))
    lowest = f"{low[0]} %" if low[0] == low[-1] else f"{low[0]} to {low[-1]} %"
    return f"| {length} ms | {lowest} | {kinds([one.kind for one in about])} | {1000 * error:.1f} ms | {poller} |"


def kinds(found_as: Sequence[str]) -> str:
    """Each kind that there is, with its share."""
    counts = {kind: found_as.count(kind) for kind in ("valley", "dip", "nothing")}
    return ", ".join(f"{kind} {percent(count / len(found_as))}" for kind, count in counts.items() if count)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("length", LENGTHS)
def test_the_row_of_a_gap(length: int) -> None:
    assert row(length) in README.read_text()


def test_what_is_found_in_windows_of_500_ms() -> None:
    told_as = kinds([one.kind for one in found.all_told(0.5, "each 250 ms")])
    assert f"with a window of 500 ms, 300 ms gaps are: {told_as}" in in_one_line(README.read_text())


def test_the_rounding_of_the_rtx_3090() -> None:
    nearest, down = rounding.told("nearest"), rounding.told("down")
    values, _ = rounding.readings_and_truth()
    says = f"{nearest.equal} of {len(values)} readings of an RTX 3090 are the true duty rounded to the nearest"
    assert says in in_one_line(README.read_text())
    assert f"({down.equal} rounded down)" in in_one_line(README.read_text())
