"""Why a column is empty, questions of any kind, and what a stream says beside its readings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from gaptop.recording.lines import Batch, Event, Header, Health, Hole, Range, Self, Tick, Verdict, Watermark
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Cover, SeriesId
from tests.unit.timeline_streams import BUSY, POWER, TOKENS, batch, source, steps, timeline


class TestCover:
    def test_nothing_before_the_source_and_pending_after_the_newest(self) -> None:
        made = timeline(
            source(t=2.0), batch(BUSY, (2.2, 0.5), (2.4, 0.5), (2.6, 0.5), (2.8, 0.5), (3.0, 0.5)), Tick(5.0)
        )
        assert made.columns(BUSY, 0.0, 6.0, 6).cover.tolist() == [0, 0, 1, 3, 3, 0]

    def test_a_hole_up_to_the_watermark(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 5.0)), Watermark("s", 8.0), Tick(9.0))
        assert made.columns(POWER, 1.0, 10.0, 9).cover.tolist() == [1, 1, 1, 2, 2, 2, 2, 3, 0]

    def test_a_counter_is_pending_while_its_next_reading_could_still_tell(self) -> None:
        made = timeline(source(), batch(TOKENS, (0.5, 0.0), (1.0, 5.0)), Watermark("s", 8.0), Tick(8.0))
        assert made.columns(TOKENS, 0.0, 8.0, 4).cover.tolist() == [1, 3, 3, 3]
        made.apply(Watermark("s", 12.0))
        assert made.columns(TOKENS, 0.0, 8.0, 4).cover.tolist() == [1, 2, 2, 2]

    def test_an_explicit_hole_is_known_before_the_watermark_comes(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 5.0)), Watermark("s", 1.0), Hole("s", 1.0, 3.0, "x"), Tick(4.0))
        assert made.columns(POWER, 1.0, 4.0, 3).cover.tolist() == [2, 2, 3]
        assert made.columns(POWER, 0.5, 3.0, 1).cover.tolist() == [2]

    def test_zero_is_data(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 0.0), (2.0, 0.0)))
        columns = made.columns(POWER, 1.0, 2.0, 1)
        assert (columns.mean[0], columns.cover[0]) == (0.0, Cover.DATA)

    def test_a_signal_that_never_came(self) -> None:
        made = timeline(source(t=1.0), Watermark("s", 3.0), Tick(4.0))
        assert made.columns(POWER, 0.0, 5.0, 5).cover.tolist() == [0, 2, 2, 3, 0]
        assert made.columns(SeriesId("s", "device.energy"), 0.0, 5.0, 5).cover.tolist() == [0] * 5
        assert made.columns(SeriesId("x", "device.power"), 0.0, 5.0, 5).cover.tolist() == [0] * 5
        assert math.isnan(made.columns(POWER, 0.0, 5.0, 5).mean[2])

    def test_a_late_first_reading_is_a_hole_but_not_for_a_thread_that_was_born_late(self) -> None:
        thread = SeriesId("s", "host.memory{pid=7}")
        made = timeline(source(), Watermark("s", 9.0), batch(POWER, (9.0, 1.0)), batch(thread, (9.0, 1.0)), Tick(10.0))
        assert made.columns(POWER, 0.0, 9.0, 3).cover.tolist() == [2, 2, 2]
        assert made.columns(thread, 0.0, 9.0, 3).cover.tolist() == [0, 0, 0]


class TestQuestions:
    def test_of_what_is_not_there(self) -> None:
        made = timeline(source())
        assert steps(made, POWER) == []
        assert made.value_at(POWER, 1.0) is None
        assert made.latest(POWER) is None
        assert made.mean(POWER, 0.0, 1.0) is None
        assert made.extremes(POWER, 0.0, 1.0) is None
        assert made.increase(TOKENS, 0.0, 1.0) is None
        assert made.coverage(POWER, 0.0, 1.0) == 0.0
        assert made.ids("device.power") == ()
        assert made.holes("nobody", 0.0, 1.0) == ()

    @pytest.mark.parametrize(
        ("start", "end", "n"),
        [(1.0, 1.0, 3), (2.0, 1.0, 3), (0.0, 1.0, 0), (0.0, 1e-7, 5), (math.nan, 1.0, 2), (-math.inf, math.inf, 4)],
    )
    def test_of_strange_ranges(self, start: float, end: float, n: int) -> None:
        made = timeline(source(), batch(POWER, (0.5, 1.0), (0.75, 2.0)))
        columns = made.columns(POWER, start, end, n)
        assert len(columns.mean) == len(columns.cover) == n
        made.mean(POWER, start, end)
        made.steps(POWER, start, end)
        made.coverage(POWER, start, end)
        made.value_at(POWER, start)

    def test_coverage(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 1.0), (2.0, 2.0)))
        assert made.coverage(POWER, 0.0, 4.0) == 0.25
        assert made.coverage(POWER, 1.0, 2.0) == 1.0

    def test_every_label_of_a_signal(self) -> None:
        keys = ("host.oncpu{tid=1}", "host.oncpu{tid=2}", "host.oncpuish")
        made = timeline(source(), Batch("s", [1.0], {key: [1.0] for key in keys}))
        assert made.ids("host.oncpu") == (SeriesId("s", keys[0]), SeriesId("s", keys[1]))
        assert made.ids("host.oncpu", "other") == ()

    def test_columns_that_were_finished_stay_as_they_were(self) -> None:
        made = timeline(source(period=0.01))
        before: Sequence[float] = []
        for i in range(1, 1000):
            made.apply(batch(POWER, (i / 100, float(i * 7 % 31))))
            if i == 500:
                before = made.columns(POWER, 0.0, 4.0, 16).mean.tolist()
        after = made.columns(POWER, 0.0, 8.0, 32).mean.tolist()
        assert np.array_equal(before, after[:16], equal_nan=True)


class TestStream:
    def test_repeated_descriptions_change_nothing(self) -> None:
        header = Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00Z", 1)
        once = timeline(header, source(), batch(POWER, (1.0, 1.0), (2.0, 2.0)), Tick(2.0))
        again = timeline(
            header, source(), batch(POWER, (1.0, 1.0)), header, source(), batch(POWER, (2.0, 2.0)), source()
        )
        again.apply(Tick(2.0))
        assert steps(once, POWER) == steps(again, POWER)
        assert again.header == header
        assert again.sources == once.sources

    def test_what_is_not_newer_is_ignored(self) -> None:
        made = timeline(source(), batch(POWER, (1.0, 1.0), (2.0, 2.0), (2.0, 9.0), (1.5, 9.0), (3.0, 3.0)))
        assert steps(made, POWER) == [(1.0, 2.0, 1.0), (2.0, 3.0, 2.0)]

    def test_views(self) -> None:
        health = Health(2.0, "s", "test", "ok")
        event = Event(1.0, "server_restarted", "The server restarted.")
        cost = Self(2.0, 0.1, 1000)
        verdict = Verdict({"id": "v1"})
        made = timeline(source(), health, event, cost, verdict, Range(1.0, 2.0), batch(POWER, (1.0, 1.0)), Tick(3.0))
        assert made.now == 3.0
        assert made.sources["s"].health == health
        assert (made.sources["s"].newest, made.sources["s"].watermark) == (1.0, 1.0)
        assert made.health == {"s": health}
        assert made.events == (event,)
        assert made.self_cost == cost
        assert made.recorded == (verdict,)
        assert made.range == Range(1.0, 2.0)
        made.apply(Tick(2.0))
        assert made.now == 3.0

    def test_old_data_is_forgotten_in_chunks(self) -> None:
        made = Timeline(keep_seconds=100.0)
        made.apply(source(period=0.1))
        sizes = []
        for second in range(1, 1000):
            made.apply(
                Batch(
                    "s", [second + i / 10 for i in range(10)], {POWER.key: [1.0] * 10, "host.memory{pid=1}": [2.0] * 10}
                )
            )
            made.apply(Tick(float(second)))
            sizes.append(len(made.steps(POWER, 0.0, 1e6).value))
        assert 1000 <= sizes[-1] < 2000
        assert made.coverage(POWER, 900.0, 999.0) == 1.0
        assert made.columns(POWER, 0.0, 100.0, 1).cover.tolist() == [Cover.NOTHING]
        made.apply(Tick(3000.0))
        assert made.ids("host.memory") == ()
        assert made.ids("device.power") == (POWER,)
