"""The lab's device feed: a file of JSON lines that grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Message, SourceInfo
from gaptop_collectors.devices.feed import LINE_BYTES, FeedDevice


def line(t_ns: int, busy: float | None = 0.5, **more: Any) -> str:
    return json.dumps({"uuid": "SIM-0", "name": "Sim", "window_s": 0.2, "t_ns": t_ns, "busy": busy, **more}) + "\n"


def batches(messages: Sequence[Message]) -> list[Batch]:
    return [one for one in messages if isinstance(one, Batch)]


def infos(messages: Sequence[Message]) -> list[SourceInfo]:
    return [one for one in messages if isinstance(one, SourceInfo)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feed.jsonl"


def test_windows_arrive_as_they_are_written(path: Path) -> None:
    path.write_text(line(1000, 0.25, power_w=300.0) + line(2000, None, power_w=60))
    feed = FeedDevice(str(path))
    info, batch, delivered = feed.open()
    assert isinstance(info, SourceInfo)
    assert "Simulated" in info.says
    assert (info.source, info.window, info.window_measured, info.entity["kind2"]) == ("feed/SIM-0", 0.2, True, "gpu")
    assert info.signals == ["device.busy", "device.power"]
    assert batch == Batch("feed/SIM-0", [1000, 2000], {"device.busy": [0.25, None], "device.power": [300.0, 60.0]})
    assert delivered == Delivered("feed/SIM-0", 2000)
    assert feed.sample() == []
    with path.open("a") as file:
        file.write(line(3000, 1.0, clock_hz=1.9e9, limit_reasons=4))
    info, batch, _ = feed.sample()
    assert isinstance(info, SourceInfo)
    assert "device.clock_sm" in info.signals
    assert isinstance(batch, Batch)
    assert batch.values["device.power"] == [None]
    assert batch.values["device.limit_reasons"] == [4.0]
    feed.close()


def test_a_signal_that_begins_within_a_batch_has_no_earlier_value(path: Path) -> None:
    path.write_text(line(1000) + line(2000, power_w=70))
    (batch,) = batches(FeedDevice(str(path)).open())
    assert batch.values["device.power"] == [None, 70.0]


def test_half_a_line_waits_for_its_end(path: Path) -> None:
    whole = line(1000)
    path.write_text(whole[:20])
    feed = FeedDevice(str(path))
    assert feed.open() == []
    with path.open("a") as file:
        file.write(whole[20:])
    assert batches(feed.sample())[0].times_ns == [1000]


@pytest.mark.parametrize(
    "bad",
    [
        "not json",
        "[1,2]",
        "{}",
        json.dumps({"uuid": 5, "window_s": 0.2, "t_ns": 5, "busy": 0.1}),
        json.dumps({"uuid": "SIM-0", "window_s": 0, "t_ns": 5, "busy": 0.1}),
        json.dumps({"uuid": "SIM-0", "window_s": 0.2, "t_ns": 5.5, "busy": 0.1}),
        line(500, 1.5).strip(),
        line(500, -0.1).strip(),
        '{"uuid": "SIM-0", "window_s": 0.2, "t_ns": 5, "busy": NaN}',
        line(500, 0.1, power_w="many").strip(),
        "[" * 5000,
        "\x00\xff",
        "x" * (LINE_BYTES * 2),
    ],
)
def test_a_bad_line_is_skipped_and_counted(path: Path, bad: str) -> None:
    path.write_text(bad + "\n" + line(1000))
    messages = FeedDevice(str(path)).open()
    assert batches(messages)[0].times_ns == [1000]
    assert "1 unreadable" in infos(messages)[0].says


def test_a_line_without_end_is_given_up(path: Path) -> None:
    path.write_text("x" * (LINE_BYTES * 2))
    feed = FeedDevice(str(path))
    feed.open()
    with path.open("a") as file:
        file.write("\n" + line(1000))
    assert batches(feed.sample())[0].times_ns == [1000]


def test_a_missing_file_is_absent_until_it_appears(path: Path) -> None:
    feed = FeedDevice(str(path))
    with pytest.raises(CollectorError) as error:
        feed.open()
    assert error.value.state == "absent"
    assert error.value.retry
    path.write_text(line(1000))
    assert batches(feed.open())


def test_a_replaced_or_cut_file_is_read_from_its_start(path: Path) -> None:
    path.write_text(line(1000) + line(2000))
    feed = FeedDevice(str(path))
    feed.open()
    other = path.with_suffix(".new")
    other.write_text(line(2000) + line(3000))
    other.rename(path)
    assert batches(feed.sample())[0].times_ns == [3000]
    path.write_text(line(4000))
    assert batches(feed.sample())[0].times_ns == [4000]
    path.unlink()
    assert feed.sample() == []


def test_two_devices_in_one_file(path: Path) -> None:
    path.write_text(line(1000, uuid="SIM-0") + line(1000, uuid="SIM-1"))
    messages = FeedDevice(str(path)).open()
    assert [info.source for info in infos(messages)] == ["feed/SIM-0", "feed/SIM-1"]
    assert [info.entity["index"] for info in infos(messages)] == [0, 1]


@pytest.mark.parametrize(
    ("told", "stated"), [("nearest", "nearest"), ("down", "down"), ("up", ""), (None, ""), (7, "")]
)
def test_how_readings_were_rounded_is_passed_on(tmp_path: Path, told: object, stated: str) -> None:
    path = tmp_path / "feed"
    path.write_text(line(5, 0.5, rounding=told))
    (info, *_) = FeedDevice(str(path)).open()
    assert isinstance(info, SourceInfo)
    assert info.rounding == stated


def test_a_device_may_tell_whose_it_is_and_who_else_is_on_it(path: Path) -> None:
    path.write_text(line(1000, pids=[7, 9], foreign_processes=1))
    feed = FeedDevice(str(path))
    (info,) = infos(found := feed.open())
    assert info.entity["pids"] == [7, 9]
    assert batches(found)[0].values["device.foreign_processes"] == [1.0]
    with path.open("a") as file:
        file.write(line(2000))
    (info,) = infos(feed.sample())
    assert info.entity["pids"] is None
    with path.open("a") as file:
        file.write(line(3000, pids="7") + line(4000, pids=[1.5]) + line(5000))
    (info,) = infos(found := feed.sample())
    assert "2 unreadable lines" in info.says
    assert batches(found)[0].times_ns == [5000]
    feed.close()
