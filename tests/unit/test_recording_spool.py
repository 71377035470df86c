"""The spool and the snapshots that are cut from it."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop.recording.lines import (
    Batch,
    Event,
    Frames,
    Header,
    Hole,
    Line,
    Range,
    Source,
    Spans,
    Tick,
    Verdict,
    decode,
    encode,
)
from gaptop.recording.reader import open_stream
from gaptop.recording.snapshot import write_snapshot
from gaptop.recording.spool import Spool
from gaptop.recording.writer import WriteError

HEADER = Header("gaptop", (1, 0), "0.1.0", "2026-01-31T14:03:12Z", 5)


def session(seconds: int) -> list[Line]:
    """A recording: its source changes once at 50 s, stacks come at the start, each span two seconds late."""
    lines: list[Line] = [HEADER, Source(0.0, "s", "c", "device", {"uuid": "u"}, ["device.busy"], 0.25)]
    lines.append(Frames("t", {str(number): [["f", "a.py", number]] for number in range(10)}))
    for second in range(seconds):
        if second == 50:
            lines.append(Source(50.0, "s", "c", "device", {"uuid": "u"}, ["device.busy"], 0.5))
        lines.append(Batch("s", [second + 0.5], {"device.busy": [0.5]}))
        if second >= 2:
            lines.append(Spans("t", (second - 2, second - 1), [1], [second - 2], [second - 1], [second % 10]))
        lines.append(Tick(second + 1.0))
    return lines


def spooled(spool: Spool, start: float, end: float) -> list[Line]:
    return [line for raw in spool.lines(start, end) if (line := decode(raw)) is not None]


def encoded(lines: list[Line]) -> list[bytes]:
    return [encode(line) for line in lines]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path, keep_seconds=640.0)


def fill(spool: Spool, lines: list[Line]) -> None:
    for line in lines:
        spool.write(encode(line))


def test_everything_kept_comes_back_byte_for_byte(spool: Spool) -> None:
    lines = session(200)
    fill(spool, lines)
    assert encoded(spooled(spool, 0.0, 200.0)) == encoded(lines)


def test_it_leaves_no_file_and_gives_its_space_back(spool: Spool, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    fill(spool, session(60))
    assert list(tmp_path.iterdir()) == []
    spool.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_too_old_goes_and_the_rest_is_readable_alone(spool: Spool) -> None:
    fill(spool, session(2000))
    kept = spooled(spool, 1500.0, 2000.0)
    assert kept[0] == HEADER
    assert isinstance(kept[1], Source)
    assert kept[1].period == 0.5
    first = next(line for line in kept if isinstance(line, Batch))
    assert first.t[0] <= 1500.0 - 120.0
    assert next(line for line in spooled(spool, 0.0, 2000.0) if isinstance(line, Batch)).t[0] > 1300.0
    known: set[str] = set()
    for line in kept:
        if isinstance(line, Frames):
            known |= line.stacks.keys()
        elif isinstance(line, Spans):
            assert str(line.stack[0]) in known


def test_its_size_is_bounded(tmp_path: Path) -> None:
    spool = Spool(tmp_path, keep_seconds=1e9, max_bytes=160_000)
    spool.write(encode(HEADER))
    for second in range(3000):
        spool.write(encode(Event(second, "x", os.urandom(200).hex())))
        spool.write(encode(Tick(second)))
    sizes = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if "gaptop-spool" in os.readlink(f"/proc/self/fd/{fd}"):
                sizes.append(os.fstat(int(fd)).st_size)
    assert 80_000 < sum(sizes) < 180_000
    spool.close()


def test_all_that_is_kept_goes_into_a_file_that_has_each_line_once(spool: Spool, tmp_path: Path) -> None:
    lines = session(300)
    fill(spool, lines)
    path = spool.keep(tmp_path / "a.gaptop")
    assert path == tmp_path / "a.gaptop"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stream = open_stream(path)
    # Each part gives its stacks when a span first needs them, so only those stand elsewhere.
    kept: list[Line] = [line for line in stream if not isinstance(line, Frames)]
    assert encoded(kept) == encoded([line for line in lines if not isinstance(line, Frames)])
    assert stream.says == ""
    assert len(spool._segments) > 5, "it came from several files"


def test_what_is_kept_never_overwrites_and_nothing_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.gaptop").write_text("mine")
    assert Spool(tmp_path).keep(tmp_path / "a.gaptop") is None
    spool = Spool(tmp_path)
    fill(spool, session(3))
    assert spool.keep(tmp_path / "a.gaptop") == tmp_path / "a-2.gaptop"
    assert (tmp_path / "a.gaptop").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-2.gaptop", "a.gaptop"]


def test_a_spool_that_gave_up_says_so_when_all_is_to_be_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "missing")
    fill(spool, session(3))
    with pytest.raises(WriteError, match="nothing can be saved"):
        spool.keep(tmp_path / "a.gaptop")


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can become larger: as where a disk gets full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_snapshot_for_which_there_is_no_room_is_no_file_and_nobody_is_told_that_it_can_be_opened(
    tmp_path: Path,
) -> None:
    with files_of_at_most(500), pytest.raises(WriteError) as told:
        write_snapshot(session(600), 0.0, 600.0, [], tmp_path / "a.gaptop")
    says = f"cannot write {tmp_path}/a.gaptop: File too large; make room, or start gaptop in another folder."
    assert str(told.value) == says
    assert list(tmp_path.iterdir()) == []


def test_a_ring_for_which_there_is_no_room_is_no_file(spool: Spool, tmp_path: Path) -> None:
    fill(spool, session(600))
    with files_of_at_most(500), pytest.raises(WriteError, match="a.gaptop: File too large; make room"):
        spool.keep(tmp_path / "a.gaptop")
    assert list(tmp_path.iterdir()) == []


def test_a_spool_whose_disk_is_full_is_not_taken_for_the_snapshot_s(tmp_path: Path) -> None:
    spool = Spool(tmp_path, keep_seconds=1e9)
    fill(spool, session(300))
    with (
        files_of_at_most(0),
        pytest.raises(WriteError, match="^nothing can be saved: .*File too large.*start gaptop again"),
    ):
        write_snapshot((decode(raw) or HEADER for raw in spool.lines(0.0, 300.0)), 0.0, 300.0, [], tmp_path / "a")
    assert "nothing can be saved" in spool.says


def test_a_folder_that_cannot_be_written_is_said_and_nothing_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "missing")
    fill(spool, session(3))
    assert "nothing can be saved" in spool.says
    with pytest.raises(WriteError, match="nothing can be saved"):
        list(spool.lines(0.0, 1.0))


def test_a_snapshot_holds_the_range_its_context_and_the_verdicts(tmp_path: Path) -> None:
    verdict = {"id": "v1", "cause": "no_demand"}
    path = write_snapshot(session(600), 300.0, 310.0, [verdict], tmp_path / "a.gaptop")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    stream = open_stream(path)
    lines = list(stream)
    assert stream.says == ""
    assert lines[0] == HEADER
    (source,) = [line for line in lines if isinstance(line, Source)]
    assert source.period == 0.5
    ticks = [line.t for line in lines if isinstance(line, Tick)]
    assert (ticks[0], ticks[-1]) == (180.0, 320.0)
    spans = [line for line in lines if isinstance(line, Spans)]
    assert spans[0].covered[1] >= 180.0
    assert spans[-1].covered[0] <= 320.0
    # Told two seconds late, yet inside the look-ahead.
    assert (319.0, 320.0) in [line.covered for line in spans]
    assert lines[-2:] == [Range(300.0, 310.0), Verdict(verdict)]
    known = {key for line in lines if isinstance(line, Frames) for key in line.stacks}
    assert known == {str(number) for number in range(10)}


def test_a_hole_that_spans_the_range_is_kept(tmp_path: Path) -> None:
    hole = Hole("s", 1.0, 500.0, "gone")
    path = write_snapshot([*session(20), hole], 300.0, 301.0, [], tmp_path / "a.gaptop", lookback=0)
    assert hole in list(open_stream(path))


def test_a_snapshot_of_a_snapshot_is_the_same(tmp_path: Path) -> None:
    first = write_snapshot(session(400), 200.0, 210.0, [], tmp_path / "a.gaptop")
    again = [line for line in open_stream(first) if not isinstance(line, Range | Verdict)]
    second = write_snapshot(again, 200.0, 210.0, [], tmp_path / "b.gaptop")
    assert encoded(list(open_stream(first))) == encoded(list(open_stream(second)))


def test_a_snapshot_never_overwrites(tmp_path: Path) -> None:
    paths = [write_snapshot(session(3), 0.0, 1.0, [], tmp_path / "a.gaptop") for _ in range(3)]
    assert [path.name for path in paths] == ["a.gaptop", "a-2.gaptop", "a-3.gaptop"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-2.gaptop", "a-3.gaptop", "a.gaptop"]


def test_a_snapshot_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> list[Line]:
        raise RuntimeError("the feed broke")

    with pytest.raises(RuntimeError):
        write_snapshot((line for _ in [0] for line in broken()), 0.0, 1.0, [], tmp_path / "a.gaptop")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(WriteError, match="No such file or directory; start gaptop in a folder"):
        write_snapshot(session(3), 0.0, 1.0, [], tmp_path / "no" / "a.gaptop")
