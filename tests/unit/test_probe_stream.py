"""From collectors' messages to lines, and out of the probe in order and in bounded memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from gaptop.probe import translate
from gaptop.probe.outlet import Outlet
from gaptop.probe.translate import Translator
from gaptop.recording.lines import Batch, Event, Frames, Hole, Line, Source, Spans, Tick, Watermark, decode, encode
from gaptop_collectors import collector as told

S = 1_000_000_000
ORIGIN = 1000 * S
A, B = told.Frame("main", "a.py", 1), told.Frame("step", "b.py", 2)


@pytest.fixture
def translator() -> Translator:
    return Translator(ORIGIN, 5)


def lines(translator: Translator, *messages: told.Message) -> list[Line]:
    return [line for message in messages for line in translator.translate(message, ORIGIN + S)]


def test_a_batch(translator: Translator) -> None:
    batch = told.Batch("s", [ORIGIN + S, ORIGIN + 1_500_000_400], {"x": [1.0, None], "y": [None, None]})
    assert lines(translator, batch) == [Batch("s", [1.0, 1.5], {"x": [1.0, None]})]


def test_what_is_no_reading_becomes_none(translator: Translator) -> None:
    batch = told.Batch("s", [ORIGIN, ORIGIN + S], {"x": [float("nan"), 2.0], "y": [float("inf"), None]})
    assert lines(translator, batch) == [Batch("s", [0.0, 1.0], {"x": [None, 2.0]})]


def test_what_was_read_before_the_start_is_left_out(translator: Translator) -> None:
    found = lines(
        translator,
        told.Batch("s", [ORIGIN - S, ORIGIN + S], {"x": [1.0, 2.0], "y": [1.0, None]}),
        told.Batch("s", [ORIGIN - 2 * S, ORIGIN - S], {"x": [1.0, 2.0]}),
        told.Hole("s", ORIGIN - S, ORIGIN + S, "r"),
        told.Hole("s", ORIGIN - 2 * S, ORIGIN - S, "r"),
        told.Delivered("s", ORIGIN - S),
        told.Delivered("s", ORIGIN + S),
    )
    assert found == [Batch("s", [1.0], {"x": [2.0]}), Hole("s", 0.0, 1.0, "r"), Watermark("s", 1.0)]


@pytest.mark.parametrize(
    "batch",
    [
        told.Batch("s", [ORIGIN + S, ORIGIN], {"x": [1.0, 2.0]}),
        told.Batch("s", [ORIGIN + S], {"x": [1.0, 2.0]}),
    ],
)
def test_a_broken_contract_is_an_error(translator: Translator, batch: told.Batch) -> None:
    with pytest.raises(ValueError):
        lines(translator, batch)


def test_stacks_are_interned_once(translator: Translator) -> None:
    first = told.Stacks(
        "t",
        (ORIGIN, ORIGIN + S),
        [
            told.StackSpan(1, ORIGIN, ORIGIN + S // 2, (A, B)),
            told.StackSpan(1, ORIGIN + S // 2, ORIGIN + S, (A,)),
            told.StackSpan(2, ORIGIN, ORIGIN + S, (A, B)),
        ],
    )
    again = told.Stacks("t", (ORIGIN + S, ORIGIN + 2 * S), [told.StackSpan(1, ORIGIN + S, ORIGIN + 2 * S, (A,))])
    frames, spans, later = lines(translator, first, again)
    assert frames == Frames("t", {"5": [["main", "a.py", 1], ["step", "b.py", 2]], "6": [["main", "a.py", 1]]})
    assert isinstance(spans, Spans)
    assert list(spans.stack) == [5, 6, 5]
    assert spans.covered == (0.0, 1.0)
    assert isinstance(later, Spans)
    assert list(later.stack) == [6]
    for line in (frames, spans, later):
        assert encode(decode(encode(line)) or line) == encode(line)


def test_a_watched_thread_that_did_nothing_is_still_covered(translator: Translator) -> None:
    (spans,) = lines(translator, told.Stacks("t", (ORIGIN, ORIGIN + S), []))
    assert isinstance(spans, Spans)
    assert spans.covered == (0.0, 1.0)


def test_forgotten_stacks_get_a_new_number(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "STACKS_KEPT", 2)

    def seen(line: int) -> list[Line]:
        frame = told.Frame("f", "a.py", line)
        return lines(
            translator, told.Stacks("t", (ORIGIN, ORIGIN + S), [told.StackSpan(1, ORIGIN, ORIGIN + S, (frame,))])
        )

    assert [len(seen(number)) for number in (1, 2, 1, 3, 1, 2)] == [2, 2, 1, 2, 1, 2]


def test_secrets_go_and_ids_stay_together(translator: Translator) -> None:
    url = "metrics/http://me:hunter2@h"
    source, batch, event, hole = lines(
        translator,
        told.SourceInfo(url, "c", "server", {"url": url, "argv": ["--api-key", "hunter2"]}, ["x"], 0.5),
        told.Batch(url, [ORIGIN], {"x": [1.0]}),
        told.Note(ORIGIN, "w", "token=hunter2", url, {"password": "hunter2"}),
        told.Hole(url, ORIGIN, ORIGIN + S, "HF_TOKEN=hunter2"),
    )
    assert b"hunter2" not in b"".join(map(encode, (source, batch, event, hole)))
    assert isinstance(source, Source)
    assert isinstance(batch, Batch)
    assert isinstance(event, Event)
    assert isinstance(hole, Hole)
    assert source.id == batch.src == event.src == hole.src


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    readable, writable = os.pipe()
    yield readable, writable
    for descriptor in (readable, writable):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_lines_of_one_call_stay_together(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1])

    def put(number: int) -> None:
        for _ in range(20):
            outlet.put([Event(number, "a", ""), Event(number, "b", "")])

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outlet.close(2.0)
    os.close(pipe[1])
    read = [decode(text) for text in _all(pipe[0]).splitlines()]
    assert len(read) == 160
    for first, second in zip(read[::2], read[1::2], strict=True):
        assert isinstance(first, Event)
        assert isinstance(second, Event)
        assert (first.t, first.what, second.what) == (second.t, "a", "b")


def _all(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def test_a_reader_that_does_not_read_costs_readings_but_no_memory_and_leaves_holes(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], most_waiting=100_000)
    outlet.put([Source(0.0, "s", "c", "device", {}, [], 1.0)])
    begun = time.monotonic()
    for number in range(10_000):
        outlet.put([Batch("s", [float(number)], {"x": [1.0]}), Tick(float(number))])
    assert time.monotonic() - begun < 5
    outlet.put([Frames("s", {"1": []})])
    read: list[Line | None] = []
    reader = threading.Thread(target=lambda: read.extend(decode(text) for text in _all(pipe[0]).splitlines()))
    reader.start()
    end = time.monotonic() + 10
    while outlet._waiting > 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    outlet.put([Batch("s", [20_000.0], {"x": [1.0]})])
    outlet.close(2.0)
    os.close(pipe[1])
    reader.join()
    batches = [line for line in read if isinstance(line, Batch)]
    (hole,) = [line for line in read if isinstance(line, Hole)]
    assert len(batches) < 6000
    assert (hole.start, hole.end) == (batches[-2].t[0] + 1, 9999.0)
    assert read.index(hole) < read.index(batches[-1])
    assert any(isinstance(line, Frames) for line in read)


def test_a_reader_that_has_gone(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1])
    os.close(pipe[0])
    end = time.monotonic() + 5
    while not outlet.broken:
        assert time.monotonic() < end
        outlet.put([Tick(1.0)])
        time.sleep(0.01)
    outlet.put([Tick(1.0)])
    outlet.close(1.0)
