"""The probe's pure parts: pace, sources, what was heard, configuration, commands that come in."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from gaptop.probe.config import ConfigError, parse
from gaptop.probe.heard import Heard
from gaptop.probe.inlet import Inlet
from gaptop.probe.pace import Backoff, Budget
from gaptop.probe.selfcost import measure
from gaptop.probe.sentences import over_budget
from gaptop.probe.sources import SourceBook
from gaptop.recording.lines import Batch, Hole, Source, Spans, Watermark, encode


def source(name: str, period: float = 0.5) -> Source:
    return Source(0.0, name, "c", "device", {}, [], period)


def told(book: SourceBook, now: float) -> list[tuple[str, str, float | None]]:
    return [(line.src, line.state, line.newest) for line in book.health(now, "c", "ok", 0.5, None, "")]


def test_back_off_grows_to_a_minute_and_starts_anew() -> None:
    backoff = Backoff(worked=False)
    assert [backoff.failed() for _ in range(8)] == [2, 4, 8, 16, 32, 60, 60, 60]
    backoff.succeeded()
    assert backoff.failed() == 2
    soon = Backoff(worked=True)
    assert [soon.failed() for _ in range(5)] == [0.5, 1, 2, 5, 5]


def test_a_collector_over_its_budget_is_read_less_often_and_again_when_it_fits() -> None:
    budget = Budget(lambda: 0.02)
    now, stretches = 0.0, []
    per_sample = 0.01  # at 4 a second: 4 % of a core
    for _ in range(60):
        budget.spend(per_sample, now, 0.25)
        stretches.append(budget.stretch)
        now += 0.25 * budget.stretch
    assert budget.stretch == 2
    assert budget.cost == pytest.approx(0.02, abs=0.006)
    assert stretches[0] == 1
    assert budget.over[0] == 0.25
    assert budget.over[1] == pytest.approx(0.04, abs=0.006)
    says = over_budget(*budget.over, budget.share, budget.stretch, 0.5)
    assert says.startswith("reading it every 0.25 s took 4.")
    assert says.endswith("so it is read 2 times more rarely than it would be: now every 0.5 s.")
    for _ in range(60):
        budget.spend(0.0005, now, 0.25)
        now += 0.25 * budget.stretch
    assert budget.stretch == 1


def test_the_cost_is_not_known_before_it_was_measured() -> None:
    budget = Budget(lambda: 0.02)
    budget.spend(0.5, 1.0, 0.25)
    assert budget.cost is None


def test_a_source_that_is_left_out_says_so_and_has_not_ended() -> None:
    book = SourceBook()
    paused = replace(source("a"), paused=True, says="left out")
    book.note([paused, source("b"), Batch("a", [1.0], {"x": [1.0]}), Batch("b", [98.0], {"x": [1.0]})], 98.0)
    book.note([Batch("a", [1.0], {"x": [1.0]})], 1.0)
    (left_out, going) = book.health(99.0, "c", "ok", 0.5, None, "")
    assert (left_out.state, left_out.says) == ("backoff", "left out")
    assert going.state == "ok"
    book.note([source("a")], 99.0)
    assert told(book, 99.0)[0][1] == "ended"


def test_holes_come_at_once_on_a_failure_and_after_a_while_of_silence() -> None:
    book = SourceBook()
    book.note([source("a"), Batch("a", [1.0], {"x": [1.0]})], 1.1)
    assert list(book.holes(2.0, "")) == []
    assert list(book.holes(2.0, "reading it fails")) == [Hole("a", 1.0, 2.0, "reading it fails")]
    assert list(book.holes(3.0, "reading it fails")) == []
    assert list(book.holes(7.0, "reading it fails")) == [Hole("a", 2.0, 7.0, "reading it fails")]
    book.note([Batch("a", [8.0], {"x": [1.0]})], 8.0)
    assert list(book.holes(17.0, "")) == []
    (hole,) = book.holes(18.5, "")
    assert (hole.start, hole.end) == (8.0, 18.5)


def test_a_watermark_is_a_word_but_no_reading() -> None:
    book = SourceBook()
    book.note([source("a"), Batch("a", [1.0], {"x": [1.0]})], 1.0)
    book.note([Watermark("a", 50.0)], 50.0)
    assert list(book.holes(55.0, "")) == []
    assert told(book, 55.0) == [("a", "ok", 1.0)]


def test_one_source_of_several_that_has_no_more_readings_has_ended() -> None:
    book = SourceBook()
    book.note([source("old"), source("new"), Spans("old", (0, 1), [], [], [], [])], 1.0)
    for second in range(2, 40):
        book.note([Batch("new", [second], {"x": [1.0]})], second)
    assert told(book, 39.5) == [("old", "ended", 1), ("new", "ok", 39)]
    # All of them silent: the collector's own state tells, not this.
    assert [state for _, state, _ in told(book, 100.0)] == ["ok", "ok"]


def test_what_was_heard_gives_a_hole_for_every_source() -> None:
    heard = Heard()
    for line in (source("a"), source("b"), Batch("a", [1.0, 2.0], {"x": [1.0, 2.0]}), Watermark("a", 2.5)):
        heard.note(encode(line))
    heard.note(b'{"k":"batch","src":')
    assert not heard.header
    assert list(heard.holes(4.0, "died")) == [Hole("a", 2.5, 4.0, "died"), Hole("b", 0.0, 4.0, "died")]
    assert list(heard.holes(5.0, "died"))[0].start == 4.0


def test_a_configuration() -> None:
    body = {
        "servers": [{"url": "http://h:1", "engine": "vllm", "pids": [3, 4], "sequence_cap": 8, "later": 1}],
        "headers": {"A": "b"},
        "threads": "fast",
        "duration": 3,
        "state": "/var/lib/x",
        "later": True,
    }
    config = parse(json.dumps(body))
    assert config.servers[0].pids == (3, 4)
    assert config.threads == "fast"
    assert config.duration == 3
    assert config.state == "/var/lib/x"
    assert config.gpu
    assert config.origin_ns is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ({"threads": "sometimes"}, "not one of auto, off, fast"),
        ({"servers": [{"engine": "vllm"}]}, "has no url"),
        ({"servers": [{"url": "u", "pids": ["1"]}]}, "are not numbers"),
        ({"intern_base": True}, "wrong type"),
        ({"gpu": 1}, "wrong type"),
        ({"state": 1}, "wrong type"),
    ],
)
def test_a_configuration_that_is_wrong(body: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(body if isinstance(body, str) else json.dumps(body))


def test_lines_that_come_in_pieces() -> None:
    readable, writable = os.pipe()
    inlet = Inlet(readable)
    assert inlet.first(0.0) is None
    os.write(writable, b'{"a"')
    assert inlet.first(0.0) is None
    os.write(writable, b':1}\n{"do":"x"}\n{"do"')
    assert inlet.first(0.0) == b'{"a":1}'
    assert inlet.take() == [b'{"do":"x"}']
    os.close(writable)
    inlet.read()
    assert inlet.ended
    assert inlet.take() == []
    os.close(readable)


def test_a_line_that_never_ends_is_an_end() -> None:
    readable, writable = os.pipe()
    inlet = Inlet(readable)
    for _ in range(40):
        os.write(writable, b"x" * 32768)
        inlet.read()
    assert inlet.ended
    os.close(readable)
    os.close(writable)


def test_its_own_cost() -> None:
    line = measure(1.5)
    assert line.t == 1.5
    assert line.cpu_seconds > 0
    assert 1 << 20 < line.rss_bytes < 1 << 34
