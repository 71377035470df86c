"""The ring as the collector hands it on: bunches, holes for entries that nobody got, stamps off by what is declared."""

from __future__ import annotations

from random import Random
from statistics import mean

import pytest

from gaptop.lab.fast.device import Window
from gaptop.lab.fast.ring import JITTER, NO_ENTRY, OFFSET, Reading, Ring
from gaptop.lab.fast.view import View
from gaptop.recording.lines import Batch, Hole, Line, Source, Tick
from gaptop_collectors.devices.nvml_ring import LAG_S

from .lab_fast import made

W = 0.2


def drained(late: float, lost: float, seconds: float = 400.0) -> list[tuple[float, list[Reading]]]:
    """What each drain finds, four a second; windows end at whole fifths of a second."""
    ring = Ring(W, 0.007, late, lost, Random(5))
    found, ended = [], 0
    for step in range(1, int(seconds * 4)):
        now = step / 4
        new = []
        while (ended + 1) * W <= now - 0.007:
            ended += 1
            new.append(Window(ended * W, 0.5, 0.1, 0.0, 0.0, 0.0))
        found.append((now, ring.drain(new, now)))
    return found


def test_a_ring_without_traps_brings_each_window_with_its_next_drain() -> None:
    found = drained(0.0, 0.0)
    assert all(0 < now - item.window.end < 0.007 + 0.25 + 1e-6 for now, items in found for item in items)
    assert all(item.missed is None for _, items in found for item in items)


def test_stamps_are_off_by_less_than_the_source_declares() -> None:
    """Lag, the clock's offset and jitter together: the reader takes a lag of 10 ms off, and is sure of it to 10 ms."""
    off = [item.stamp - item.window.end for _, items in drained(0.0, 0.0) for item in items]
    assert max(off) - min(off) > JITTER
    assert max(abs(item - 0.007) for item in off) <= OFFSET + JITTER + 1e-9
    assert all(abs(item - LAG_S) <= LAG_S for item in off)


def test_a_late_ring_stands_still_and_brings_all_at_once() -> None:
    found = drained(0.05, 0.0)
    assert sum(len(items) for _, items in found) > 1990
    assert 3 <= max(len(items) for _, items in found) <= 5
    waits = [now - item.window.end for now, items in found for item in items]
    assert 0.5 < max(waits) < 1.0  # else the collector would have begun to poll
    empty = sum(not items for _, items in found) / len(found)
    usual = sum(not items for _, items in drained(0.0, 0.0)) / len(found)
    assert 0.01 < empty - usual < 0.1
    assert all(item.missed is None for _, items in found for item in items)


def test_lost_entries_are_holes_of_their_windows() -> None:
    found = [item for _, items in drained(0.0, 0.02) for item in items]
    missed = [item.missed for item in found if item.missed is not None]
    assert 2000 - len(found) == pytest.approx(0.02 * 2000, rel=0.5)
    assert missed
    assert mean(end - start for start, end in missed) == pytest.approx(W, rel=0.1)
    for before, after in zip(found, found[1:], strict=False):
        if after.missed is not None:
            assert after.missed[0] == pytest.approx(before.stamp - LAG_S)
            assert after.missed[1] == pytest.approx(after.stamp - W - LAG_S)


def windows(lines: tuple[Line, ...]) -> list[tuple[float, Batch]]:
    """Batches of windows, each with the last tick before it."""
    found, now = [], 0.0
    for line in lines:
        if isinstance(line, Tick):
            now = line.t
        elif isinstance(line, Batch) and "device.busy" in line.values:
            found.append((now, line))
    return found


def test_the_stream_shows_it() -> None:
    lines = made("steady", 31.0, View(ring_late=0.1, ring_lost=0.05))
    holes = [line for line in lines if isinstance(line, Hole)]
    assert {hole.reason for hole in holes} == {NO_ENTRY}
    assert 1 <= len(holes) <= 16
    assert max(len(batch.t) for _, batch in windows(lines)) >= 3
    stamps = [t for _, batch in windows(lines) for t in batch.t]
    assert stamps == sorted(stamps)
    assert not any(hole.start + LAG_S + 0.01 < t - W / 2 < hole.end for hole in holes for t in stamps)
    (told,) = {(line.lag, line.error) for line in lines if isinstance(line, Source) and line.kind == "device"}
    assert told == (LAG_S, LAG_S)
