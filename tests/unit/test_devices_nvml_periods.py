"""What is kept of a GPU for the next run, and whatever can be wrong with the file."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaptop_collectors.devices.nvml_memo import Memo
from gaptop_collectors.devices.nvml_periods import ENTRIES, FILE_NAME, FORMAT, Kept, Periods
from gaptop_collectors.devices.nvml_ring import Entry
from gaptop_collectors.devices.nvml_window import Window

DATA = Path(__file__).parents[3] / "shared" / "data" / "gpu_power"


def ring(window_us: int, count: int, percent: int = 90, start: int = 10**15) -> list[Entry]:
    return [Entry(start + k * window_us, percent) for k in range(count)]


def test_what_is_kept_comes_back_for_its_gpu_and_driver_only(tmp_path: Path) -> None:
    Periods(tmp_path).put("GPU-a", "595.1", Kept(0.167, 0.002, "down"))
    Periods(tmp_path).put("GPU-b", "595.1", Kept(0.2))
    assert Periods(tmp_path).get("GPU-a", "595.1") == Kept(0.167, 0.002, "down")
    assert Periods(tmp_path).get("GPU-b", "595.1") == Kept(0.2)
    assert Periods(tmp_path).get("GPU-a", "600.2") == Kept()
    assert Periods(tmp_path).get("GPU-c", "595.1") == Kept()
    assert Periods(None).get("GPU-a", "595.1") == Kept()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_the_file_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    periods = Periods(tmp_path)
    for number in range(ENTRIES + 5):
        periods.put(f"GPU-{number}", "1", Kept(0.2))
    periods.put("GPU-9", "1", Kept(0.167))
    assert periods.get("GPU-4", "1") == Kept()
    assert periods.get("GPU-5", "1") == Kept(0.2)
    periods.put("GPU-new", "1", Kept(0.2))
    assert periods.get("GPU-5", "1") == Kept()
    assert periods.get("GPU-9", "1") == Kept(0.167)
    assert len(json.loads((tmp_path / FILE_NAME).read_text())["gpus"]) == ENTRIES


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"format": "another program 1", "gpus": [{"uuid": "GPU-a", "driver": "1", "window": 0.5}]}',
        json.dumps({"format": FORMAT, "gpus": {"uuid": "GPU-a"}}).encode(),
        json.dumps({"format": FORMAT, "gpus": [None, 7, {}, {"uuid": "GPU-a", "driver": 1, "window": 0.5}]}).encode(),
        b" " * 70_000 + json.dumps({"format": FORMAT, "gpus": []}).encode(),
    ],
)
def test_a_damaged_or_foreign_file_is_ignored_and_replaced(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)
    periods = Periods(tmp_path)
    assert periods.get("GPU-a", "1") == Kept()
    periods.put("GPU-a", "1", Kept(0.2))
    assert periods.get("GPU-a", "1") == Kept(0.2)


@pytest.mark.parametrize("window", [0.0, 0.049, 2.01, -0.2, 1e999, True, "0.2", None, [0.2], {}])
def test_implausible_values_are_ignored(tmp_path: Path, window: Any) -> None:
    entry = {"uuid": "GPU-a", "driver": "1", "window": window, "jitter": 0.01, "rounding": "down"}
    (tmp_path / FILE_NAME).write_text(json.dumps({"format": FORMAT, "gpus": [entry]}))
    assert Periods(tmp_path).get("GPU-a", "1") == Kept(None, 0.0, "down")


ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers() | st.integers(10**300, 10**900),
    lambda inner: (
        st.dictionaries(st.sampled_from(["uuid", "driver", "window", "jitter", "rounding", "x"]), inner)
        | st.lists(inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["uuid", "driver", "window", "jitter", "rounding", "entry", "gpus", "format", "file"]), ANY)
@example("window", 10**400)
@example("jitter", -(10**400))
@example("file", 10**5000)
def test_whatever_stands_in_any_place_of_the_file_nothing_is_raised(
    tmp_path_factory: pytest.TempPathFactory, place: str, value: Any
) -> None:
    folder = tmp_path_factory.mktemp("state")
    entry = {"uuid": "GPU-a", "driver": "1", "window": 0.3, "jitter": 0.01, "rounding": "down"}
    good = {"uuid": "GPU-good", "driver": "1", "window": 0.5}
    entry = {**entry, place: value} if place in entry else entry
    body: Any = {"format": FORMAT, "gpus": [value if place == "entry" else entry, good]}
    body = value if place == "file" else {**body, place: value} if place in body else body
    (folder / FILE_NAME).write_text(written(body))
    kept = Periods(folder).get("GPU-a", "1")
    assert kept.window is None or 0.05 <= kept.window <= 2
    if place in entry or place == "entry":
        assert Periods(folder).get("GPU-good", "1") == Kept(0.5)
    Periods(folder).put("GPU-new", "1", Kept(0.2))
    assert Periods(folder).get("GPU-new", "1") == Kept(0.2)


def written(body: Any) -> str:
    """As JSON; numbers that Python refuses to write have no limit in a file."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(body)
    finally:
        sys.set_int_max_str_digits(limit)


@given(ANY)
def test_whatever_stands_in_the_file_a_window_is_plausible_or_none(
    tmp_path_factory: pytest.TempPathFactory, body: Any
) -> None:
    folder = tmp_path_factory.mktemp("state")
    entry = {"uuid": "GPU-a", "driver": "1", **(body if isinstance(body, dict) else {"window": body})}
    (folder / FILE_NAME).write_text(written({"format": FORMAT, "gpus": [entry, body]}))
    kept = Periods(folder).get("GPU-a", "1")
    assert kept.window is None or 0.05 <= kept.window <= 2
    assert 0 <= kept.jitter < (kept.window or 1)
    assert kept.rounding in ("", "nearest", "down")


def test_a_place_that_cannot_be_used_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing" / "folder", tmp_path / "file", Path("/proc/self")):
        periods = Periods(folder)
        periods.put("GPU-a", "1", Kept(0.2))
        assert periods.get("GPU-a", "1") == Kept()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_pipe_or_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    assert Periods(tmp_path).get("GPU-a", "1") == Kept()  # and did not wait for a writer
    (tmp_path / FILE_NAME).unlink()
    other = tmp_path / "other"
    Periods(tmp_path).put("GPU-a", "1", Kept(0.2))
    (tmp_path / FILE_NAME).rename(other)
    (tmp_path / FILE_NAME).symlink_to(other)
    assert Periods(tmp_path).get("GPU-a", "1") == Kept()


def test_a_memo_writes_news_only(tmp_path: Path) -> None:
    memo = Memo(Periods(tmp_path), "GPU-a", "1")
    window = Window(memo.period)
    memo.keep(window)
    assert not list(tmp_path.iterdir())  # nothing was measured
    window.entries(ring(166_667, 20), 0)
    memo.keep(window)
    assert Periods(tmp_path).get("GPU-a", "1").window == 0.167
    (tmp_path / FILE_NAME).unlink()
    memo.keep(window)
    assert not list(tmp_path.iterdir())
    again = Memo(Periods(tmp_path), "GPU-a", "1")
    assert again.period is None


def test_without_a_drivers_version_nothing_is_kept(tmp_path: Path) -> None:
    Periods(tmp_path).put("GPU-a", "", Kept(0.2))
    assert not list(tmp_path.iterdir())
