"""Writing and reading back: members, cuts, damage, bombs, full disks."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.recording import unpack
from gaptop.recording.lines import Batch, Event, Frames, Header, Line, Source, Spans, Tick, decode, encode
from gaptop.recording.reader import OpenError, Stream, open_stream
from gaptop.recording.writer import SizeReached, StreamWriter, WriteError

HEADER = Header("gaptop", (1, 0), "0.1.0", "2026-01-31T14:03:12Z", 5)
SOURCE = Source(0.0, "s", "c", "device", {"uuid": "u"}, ["device.busy"], 0.25)
FRAMES = Frames("threads/1", {"7": [["main", "a.py", 1], ["step", "b.py", 2]], "8": [["other", "c.py", 3]]})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def spans(stack: int, start: float) -> Spans:
    return Spans("threads/1", (start, start + 1), [1], [start], [start + 1], [stack])


def some_lines() -> list[Line]:
    lines: list[Line] = [HEADER, SOURCE, FRAMES]
    for number in range(24):
        t = number * 0.5
        lines.append(Batch("s", [t, t + 0.25], {"device.busy": [0.5, None]}))
        lines.append(spans(7, t))
        lines.append(Event(t, "x", f"détail {number}"))
        lines.append(Tick(t + 0.25))
    return lines


def written(lines: list[Line], compress: bool) -> bytes:
    """Twelve seconds of recording: several members, each flushed every second."""
    clock, target = Clock(), io.BytesIO()
    writer = StreamWriter(target, compress, clock=clock)
    for line in lines:
        if isinstance(line, Tick):
            clock.now = line.t
        writer.write(line)
    writer.close()
    return target.getvalue()


def members(data: bytes) -> Iterator[bytes]:
    while data:
        packer = zlib.decompressobj(31)
        yield packer.decompress(data)
        data = packer.unused_data


def normal(lines: list[Line]) -> list[bytes]:
    return [encode(line) for line in lines]


LINES = some_lines()
PLAIN = written(LINES, compress=False)
PACKED = written(LINES, compress=True)


def test_plain_is_the_lines_and_nothing_else() -> None:
    assert b"".join(map(encode, LINES)) == PLAIN


def test_what_was_written_comes_back_without_the_repeats() -> None:
    for data in (PLAIN, PACKED):
        stream = open_stream(io.BytesIO(data))
        assert normal(list(stream)) == normal(LINES)
        assert (stream.says, stream.skipped, stream.unknown) == ("", 0, 0)


def test_every_member_can_be_read_alone() -> None:
    parts = list(members(PACKED))
    assert len(parts) == 3
    for part in parts:
        lines = [decode(text) for text in part.splitlines()]
        assert lines[0] == HEADER
        assert lines[1] == SOURCE
        known: set[str] = set()
        for line in lines:
            if isinstance(line, Frames):
                known |= line.stacks.keys()
            elif isinstance(line, Spans):
                assert {str(stack) for stack in line.stack} <= known
    # Only the stacks that its spans name are repeated.
    assert b'"8"' not in parts[1]


def test_zcat_and_head_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a.gaptop"
    path.write_bytes(PACKED)
    out = subprocess.run(f"zcat '{path}' | head -2", shell=True, capture_output=True, check=True)
    assert out.stdout.splitlines()[0] == encode(HEADER).rstrip()


def whole_lines(data: bytes) -> list[Line]:
    return [line for text in data.split(b"\n")[:-1] if (line := decode(text)) is not None]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(PLAIN)))
def test_a_plain_stream_cut_anywhere_opens_up_to_its_last_whole_line(cut: int) -> None:
    data = PLAIN[:cut]
    expected = whole_lines(data)
    if not data.endswith(b"\n") and PLAIN[cut : cut + 1] == b"\n":
        expected = whole_lines(data + b"\n")
    if not expected:
        with pytest.raises(OpenError, match=r"empty|ends within its first line|not a gaptop stream"):
            open_stream(io.BytesIO(data))
        return
    stream = open_stream(io.BytesIO(data))
    assert normal(list(stream)) == normal(expected)
    assert stream.skipped == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(PACKED)))
def test_a_packed_file_cut_anywhere_opens_up_to_its_last_flush(cut: int) -> None:
    data = PACKED[:cut]
    readable = b""
    rest = data
    while rest:
        packer = zlib.decompressobj(31)
        readable += packer.decompress(rest)
        rest = packer.unused_data
    if b"\n" not in readable:
        with pytest.raises(OpenError):
            open_stream(io.BytesIO(data))
        return
    stream = open_stream(io.BytesIO(data))
    got = normal(list(stream))
    assert got == normal(LINES)[: len(got)]
    # A member repeats only a part of the stacks.
    whole = {encode(line) for line in whole_lines(readable) if not isinstance(line, Frames)}
    assert whole <= set(got)
    assert stream.skipped == 0


def test_what_is_a_second_old_is_on_disk(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "a.gaptop"
    writer = StreamWriter(path, compress=True, clock=clock)
    writer.write(HEADER)
    writer.write(Tick(0.5))
    clock.now = 1.0
    writer.flush()
    assert [type(line) for line in open_stream(path)] == [Header, Tick]
    writer.write(Tick(1.0))
    writer.flush()
    clock.now = 2.0
    writer.write(Tick(2.0))
    assert [line.t for line in open_stream(path) if isinstance(line, Tick)] == [0.5, 1.0, 2.0]


def test_a_file_is_for_its_owner_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.gaptop"
    writer = StreamWriter(path, compress=True)
    writer.write(HEADER)
    writer.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(WriteError, match="exists and is not overwritten"):
        StreamWriter(path, compress=True)
    with pytest.raises(WriteError, match="No such file or directory; give a folder"):
        StreamWriter(tmp_path / "no" / "a.gaptop", compress=True)


def test_nothing_that_exists_is_written_to(tmp_path: Path) -> None:
    """Not even an empty file: somebody else may have made it, readable for himself, where the recording was to go."""
    empty, link, dangling = tmp_path / "empty", tmp_path / "link", tmp_path / "dangling"
    empty.touch(mode=0o644)
    link.symlink_to(empty)
    dangling.symlink_to(tmp_path / "elsewhere")
    for path in (empty, link, dangling, tmp_path):
        with pytest.raises(WriteError, match=r"exists and is not overwritten.*remove it, or give another name"):
            StreamWriter(path, compress=True)
    assert empty.stat().st_size == 0
    assert not (tmp_path / "elsewhere").exists()


def test_devices_and_pipes_take_a_stream(tmp_path: Path) -> None:
    writer = StreamWriter(Path("/dev/null"), compress=True)
    writer.write(HEADER)
    writer.close()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = StreamWriter(pipe, compress=False)
    writer.write(HEADER)
    writer.close()
    with os.fdopen(reading, "rb") as stream:
        assert list(open_stream(stream)) == [HEADER]
    with pytest.raises(WriteError, match="the disk is full"):
        StreamWriter(Path("/dev/full"), compress=False).write(HEADER)


def write_for_ever(writer: StreamWriter, clock: Clock | None = None) -> None:
    for number in range(10_000):
        if clock is not None:
            clock.now += 0.3
        writer.write(Event(number, "x", str(hash(str(number)))))


@pytest.mark.parametrize("compress", [True, False])
def test_the_largest_size_is_kept_and_the_file_is_complete(tmp_path: Path, compress: bool) -> None:
    path = tmp_path / "a.gaptop"
    writer = StreamWriter(path, compress, max_size=4000)
    writer.write(HEADER)
    with pytest.raises(SizeReached, match=r"has reached 4000 bytes.*--max-size"):
        write_for_ever(writer)
    assert 3000 < path.stat().st_size <= 4000
    stream = open_stream(path)
    assert len(list(stream)) > 20
    assert stream.says == ""


class Full(io.BytesIO):
    """A disk that takes 3000 bytes, also half a write."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def write(self, data: Any, /) -> int:
        room = 3000 - self.tell()
        if room <= 0:
            raise OSError(self._code, "")
        return super().write(bytes(data)[:room])


@pytest.mark.parametrize(
    ("code", "says"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "an error"), (errno.EDQUOT, "quota")]
)
def test_a_full_disk_is_one_sentence_and_what_was_flushed_stays(code: int, says: str) -> None:
    target, clock = Full(code), Clock()
    writer = StreamWriter(target, compress=True, clock=clock)
    writer.write(HEADER)
    with pytest.raises(WriteError, match=says):
        write_for_ever(writer, clock)
    assert len(list(open_stream(io.BytesIO(target.getvalue())))) > 10
    with pytest.raises(WriteError):
        writer.write(Tick(1.0))
    writer.close()


def test_a_reader_that_has_gone_is_a_broken_pipe() -> None:
    class Gone(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise BrokenPipeError(errno.EPIPE, "")

    with pytest.raises(BrokenPipeError):
        StreamWriter(Gone(), compress=False).write(HEADER)


def test_messages_are_redacted() -> None:
    assert b"hunter2" not in written([HEADER, Event(1.0, "x", "http://me:hunter2@h/")], compress=False)


class ByteByByte(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        piece = self._data[self._at : self._at + 1]
        self._at += len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("data", [PLAIN, PACKED])
def test_a_pipe_that_delivers_byte_by_byte(data: bytes) -> None:
    raw: Any = ByteByByte(data)
    assert normal(list(open_stream(raw))) == normal(LINES)
    buffered: Any = io.BufferedReader(ByteByByte(data))
    assert normal(list(open_stream(buffered))) == normal(LINES)


def test_a_line_of_a_live_pipe_comes_at_once() -> None:
    class Live(io.RawIOBase):
        def __init__(self) -> None:
            self.pieces = [encode(HEADER), encode(Tick(1.0))]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any, /) -> int:
            piece = self.pieces.pop(0)  # an IndexError here: it asked for more than it needs
            buffer[: len(piece)] = piece
            return len(piece)

    live: Any = io.BufferedReader(Live())
    stream = open_stream(live)
    assert next(stream) == HEADER
    assert next(stream) == Tick(1.0)


def opened(data: bytes) -> tuple[list[Line], Stream]:
    stream = open_stream(io.BytesIO(data))
    return list(stream), stream


def test_a_bad_line_in_the_middle_is_skipped_and_counted() -> None:
    text = encode(HEADER) + b"\xff{garbage\n" + b'{"k":"tick","t":"x"}\n' + b'{"k":"later"}\n\n' + encode(Tick(1.0))
    lines, stream = opened(text)
    assert lines == [HEADER, Tick(1.0)]
    assert (stream.skipped, stream.unknown) == (3, 1)
    assert stream.says == ""


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"hello\n", b'{"k":"tick","t":1}\n', b"\x1f\x8b", b"\x1f", b"\x00" * 100, PACKED[:8]]
)
def test_what_is_no_stream_is_said(data: bytes) -> None:
    with pytest.raises(OpenError, match=r"^the stream .*\.$"):
        open_stream(io.BytesIO(data))


def test_a_folder_or_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="Is a directory"):
        open_stream(tmp_path)
    with pytest.raises(OpenError, match="No such file"):
        open_stream(tmp_path / "x")


def test_a_newer_major_version_is_refused_and_a_newer_minor_read() -> None:
    newer = b'{"k":"header","format":"gaptop","version":[2,3,"beta"],"gaptop":"9.1","shape":"new"}\n'
    with pytest.raises(OpenError) as refused:
        open_stream(io.BytesIO(newer.replace(b',"beta"', b"")))
    assert "format 2.3" in str(refused.value)
    assert "reads format 1.0" in str(refused.value)
    assert "pip install --upgrade gaptop" in str(refused.value)
    lines, _ = opened(encode(HEADER).replace(b"[1,0]", b"[1,7]"))
    assert len(lines) == 1


def test_a_second_recording_behind_the_first_is_not_mixed_in() -> None:
    other = encode(Header("gaptop", (1, 0), "0.1.0", "2026-02-01T00:00:00Z", 9))
    lines, stream = opened(encode(HEADER) + encode(Tick(5.0)) + other + encode(Tick(1.0)))
    assert lines == [HEADER, Tick(5.0)]
    assert "a second recording begins there" in stream.says


def test_damage_in_the_middle_keeps_what_comes_before() -> None:
    data = bytearray(PACKED)
    data[len(data) // 2] ^= 0xFF
    lines, stream = opened(bytes(data))
    assert 10 < len(lines) < len(LINES) + 1
    assert "damaged" in stream.says or stream.skipped


def test_a_gzip_bomb_is_refused_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "LONGEST_LINE", 1 << 20)
    with pytest.raises(OpenError, match="a line is longer than"):
        open_stream(io.BytesIO(gzip.compress(b"\0" * (4 << 20))))
    ticks = encode(HEADER) + encode(Tick(1.0)) * 200_000
    monkeypatch.setattr(unpack, "_RATIO_FROM", 1 << 20)
    stream = open_stream(io.BytesIO(gzip.compress(ticks)))
    count = sum(1 for _ in stream)
    assert count < 150_000
    assert "unfolds to over" in stream.says


def test_a_line_longer_than_the_bound_ends_a_plain_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "LONGEST_LINE", 1 << 20)
    lines, stream = opened(encode(HEADER) + b"x" * (3 << 20))
    assert lines == [HEADER]
    assert "a line is longer than" in stream.says


def test_repeated_sources_are_given_again_only_when_they_change() -> None:
    changed = Source(3.0, "s", "c", "device", {"uuid": "u"}, ["device.busy"], 0.5)
    lines, _ = opened(b"".join(normal([HEADER, SOURCE, SOURCE, HEADER, changed, SOURCE])))
    assert normal(lines) == normal([HEADER, SOURCE, changed, SOURCE])
