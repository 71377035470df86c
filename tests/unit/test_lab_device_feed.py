"""The live driver's device feed: what the simulation says of its devices, as lines."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from gaptop.lab.core.events import Condition, DeviceSpan, Limit
from gaptop.lab.live.device_feed import DeviceFeed
from gaptop.lab.live.plan import LiveClock


def written(path: Path, feed: DeviceFeed, count: int) -> list[dict[str, object]]:
    threading.Thread(target=feed.run, daemon=True).start()
    deadline = time.monotonic() + 10.0
    while True:
        text = path.read_text() if path.exists() else ""
        if text.count("\n") >= count:
            return [json.loads(line) for line in text.splitlines()[:count]]
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


def span(start: float, end: float, device: int) -> DeviceSpan:
    return DeviceSpan(start, end, 1, 0, 0, 1, 0.0, device)


def test_each_device_has_its_own_lines_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"
    feed = DeviceFeed(path, LiveClock(time.monotonic_ns()), (11, 12), tells_foreign=True)
    feed.add(span(0.0, 0.4, 0))
    feed.add(span(0.2, 0.3, 1))
    feed.add(Limit(0.0, 0.2, 1, "thermal"))
    feed.add(Condition(0.2, 0.5, "foreign", 1.0))
    lines = written(path, feed, 4)
    assert [line["pids"] for line in lines] == [[11], [12], [11], [12]]
    assert [line["busy"] for line in lines] == [1.0, 0.0, 1.0, 0.5]
    assert [line["limit_reasons"] for line in lines] == [0, 0x21, 0, 0]
    assert [line["foreign_processes"] for line in lines] == [0, 0, 1, 1]
    assert lines[0]["uuid"] != lines[1]["uuid"]


def test_one_device_alone_tells_neither_owner_nor_others(tmp_path: Path) -> None:
    path = tmp_path / "feed.jsonl"
    feed = DeviceFeed(path, LiveClock(time.monotonic_ns()), (11,), tells_foreign=False)
    [line] = written(path, feed, 1)
    assert {"pids", "foreign_processes"}.isdisjoint(line)
