"""Damaged and hostile streams: odd entities, jumps in time, absurd readings. Never an exception, always a report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gaptop.recording.lines import Batch, Event, Line, Source, Spans, Tick, Watermark
from gaptop.valleys import report, report_text

from .valley_streams import GPU, METRICS, Stream, analyse, stairs


def checked(lines: list[Line]) -> dict[str, Any]:
    timeline, assessment = analyse(lines)
    made = report.build(timeline, assessment, window=None)
    json.dumps(made, allow_nan=False)
    report_text.render(made, ascii=True, width=80)
    return made


@pytest.mark.parametrize("odd", [5, "abc", None, [None, "x", 1.5], {"a": 1}, True])
def test_entities_of_any_shape_are_read(odd: Any) -> None:
    lines: list[Line] = [
        Source(0.0, METRICS, "c", "server", {"url": odd, "engine": odd, "pids": odd, "model": odd}, [], 0.5),
        Source(0.0, GPU, "c", "device", {"uuid": odd, "name": odd, "kind2": odd, "pids": odd}, ["device.busy"], 0.25),
        Source(0.0, "threads/1", "c", "process", {"pid": odd, "role": odd, "critical_tid": odd}, [], 0.02),
        Source(0.0, "proc/1", "c", "process", {"pid": odd, "role": odd, "critical_tid": odd}, [], 0.1),
        *[Batch(GPU, [t / 4], {"device.busy": [1.0 if t < 20 or t > 30 else 0.0]}) for t in range(1, 60)],
        *[Batch("proc/1", [t / 4], {"host.oncpu{tid=x}": [1.0], "host.stopped{pid=x}": [1.0]}) for t in range(1, 60)],
        *[Tick(t / 4) for t in range(1, 61)],
    ]
    assert len(checked(lines)["valleys"]) <= 1


def test_time_that_jumps_far_ahead_costs_no_memory() -> None:
    lines = Stream(10).device(stairs((0, 1.0))).lines()
    made = checked([*lines, Tick(9e8), Batch(GPU, [9e8], {"device.busy": [0.0]}), Watermark(GPU, 9e8), Tick(9e8 + 1)])
    assert made["schema"] == 1


def test_absurd_readings_do_not_outweigh_the_rest() -> None:
    stream = Stream(20).device(lambda t: 1e30 if 5 < t < 5.5 else -1e30 if 7 < t < 7.5 else 1.0)
    made = checked(stream.lines())
    rows = {row["cause"]: row["device_seconds"] for row in made["ledger"]}
    assert rows["busy"] == pytest.approx(19.5, abs=0.5)


def test_lines_out_of_order_and_of_unknown_sources_are_survived() -> None:
    lines: list[Line] = [
        Tick(1.0),
        Tick(0.5),
        Batch("nobody", [1.0], {"device.busy": [1.0]}),
        Spans("nobody", (2.0, 1.0), [1], [2.0], [1.0], [9]),
        Event(3.0, "our_slow_call", "x", None, {"collector": 5}),
        *reversed(Stream(5).device(stairs((0, 1.0))).lines()),
    ]
    assert checked(lines)["valleys"] == []
