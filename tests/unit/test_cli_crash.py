"""A screen that breaks: it keeps the exception, prints nothing, and what came is put into a file that can be opened."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from textual import work
from textual.app import App

from gaptop.cli import crash, feeds, first_minute, paths
from gaptop.cli.exits import Exit, broken
from gaptop.cli.feeds import LiveFeed, StreamFeed
from gaptop.cli.in_force import settings
from gaptop.cli.look import Look
from gaptop.cli.target import Target
from gaptop.recording.lines import Header, Line, Tick, encode
from gaptop.recording.reader import open_stream
from gaptop.recording.spool import Spool
from gaptop.tui.mortal import MortalApp
from gaptop.tui.waiting import Waiting

HEADER = encode(Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0))
TICKS = [encode(Tick(float(second))) for second in range(5)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; the state folder lies beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


class Breaks(MortalApp):
    """Dies of a handler, of a worker, or of a thread of its own."""

    def __init__(self, of: str) -> None:
        super().__init__()
        self._of = of

    def on_mount(self) -> None:
        if self._of == "handler":
            raise KeyError("made for a test")
        if self._of == "worker":
            self.works()
        elif self._of == "thread":
            threading.Thread(target=self.raises).start()
        else:
            self.set_timer(0.01, self.exit)

    @work(thread=True)
    def works(self) -> None:
        self.raises()

    def raises(self) -> None:
        raise KeyError("made for a test")


@pytest.mark.parametrize("of", ["handler", "worker", "thread"])
async def test_what_broke_a_screen_is_kept_and_nothing_is_printed(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    app = Breaks(of)
    before = threading.excepthook
    threading.excepthook = lambda told: app.break_from_thread(told.exc_value)
    try:
        await App.run_async(app, headless=True)
    finally:
        threading.excepthook = before
    assert isinstance(app.broke, KeyError)
    assert app.broke.__traceback__ is not None
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")


class Headless(Breaks):
    def run(self, **options: object) -> None:
        super().run(headless=True)


@pytest.mark.parametrize("of", ["handler", "worker", "thread", "nothing"])
def test_the_runner_tells_what_ended_it_and_leaves_no_hook(of: str) -> None:
    before = threading.excepthook
    error = crash.run(Headless(of), mouse=False)
    assert isinstance(error, KeyError) == (of != "nothing")
    assert threading.excepthook is before


def test_a_screen_that_cannot_even_start_broke_too() -> None:
    class NoStart(Breaks):
        def run(self, **options: object) -> None:
            raise OSError("no event loop")

    assert isinstance(crash.run(NoStart("nothing"), mouse=False), OSError)


def filled(folder: Path) -> Spool:
    spool = Spool(folder)
    for raw in (HEADER, *TICKS):
        spool.write(raw)
    return spool


def test_all_that_was_spooled_is_in_the_working_directory(folder: Path) -> None:
    path = crash.keep_all(filled(folder.parent))
    assert path is not None
    assert path.parent == folder
    assert path.stat().st_mode & 0o777 == 0o600
    stream = open_stream(path)
    assert [encode(line) for line in stream] == [HEADER, *TICKS]
    assert stream.says == ""


def test_where_the_working_directory_takes_nothing_the_state_folder_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copyfileobj

    def full_here(source: object, target: object) -> None:
        if Path(os.readlink(f"/proc/self/fd/{target.fileno()}")).parent == folder:  # type: ignore[attr-defined]
            raise OSError(errno.ENOSPC, "No space left on device")
        copy(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copyfileobj", full_here)
    path = crash.keep_all(filled(folder.parent))
    assert path is not None
    assert path.parent == paths.state_dir() != folder
    assert list(folder.iterdir()) == [], "what was begun there is taken away"


def test_where_nothing_can_be_written_the_first_reason_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match=f"cannot write {folder}/.*: No space left on device; make room"):
        crash.keep_all(filled(folder.parent))
    assert list(folder.iterdir()) == list(paths.state_dir().iterdir()) == []


def test_a_working_directory_that_is_gone_is_no_place(folder: Path) -> None:
    folder.rmdir()
    assert paths.places() == [paths.state_dir()]


def test_a_live_feed_keeps_what_its_probe_still_had_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = LiveFeed({})
    monkeypatch.setattr(feed._lines, "rest", lambda: iter([HEADER, *TICKS]))
    path = feed.keep()
    assert path is not None
    assert [encode(line) for line in open_stream(path)] == [HEADER, *TICKS]


def test_a_feed_through_a_pipe_keeps_what_came(folder: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(b"".join([HEADER, *TICKS]))
    feed = StreamFeed(os.fdopen(reader, "rb"))
    assert feed._done.wait(5)
    drained = feed.drain(2)
    path = feed.keep()
    assert len(drained) == 2
    assert path is not None
    assert [encode(line) for line in open_stream(path)] == [HEADER, *TICKS]


def test_a_reader_that_breaks_is_told_where_the_lines_are_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "run.gaptop").write_bytes(b"".join([HEADER, *TICKS]))

    def breaks_after_two(source: Path) -> Iterator[Line]:
        yield from islice(open_stream(source), 2)
        raise ZeroDivisionError

    monkeypatch.setattr(feeds, "open_stream", breaks_after_two)
    feed = StreamFeed(folder / "run.gaptop")
    lines: list[Line] = []

    def drain_for(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lines.extend(feed.drain(1))

    with pytest.raises(ZeroDivisionError):
        drain_for(5)
    assert [encode(line) for line in lines] == [HEADER, TICKS[0]]
    assert feed.ended() is None
    assert feed.keep() == folder / "run.gaptop"


class Kept:
    def __init__(self, live: bool, answer: Path | None | BaseException) -> None:
        self.live = live
        self._answer = answer

    def keep(self) -> Path | None:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("feed", "says"),
    [
        (Kept(True, Path("/a b/c.gaptop")), "is kept: gaptop open '/a b/c.gaptop' shows it (send that file with"),
        (Kept(False, Path("/r.gaptop")), "the recording /r.gaptop is as it was (send it with the report)"),
        (Kept(True, None), "nothing had been measured yet"),
        (
            Kept(True, OSError("cannot write /x: full; make room.")),
            "could not be kept (cannot write /x: full; make room)",
        ),
        (Kept(True, AssertionError()), "could not be kept (AssertionError)"),
        (Kept(True, KeyboardInterrupt()), "could not be kept (KeyboardInterrupt)"),
    ],
)
def test_what_became_of_it_is_told(feed: Kept, says: str) -> None:
    assert says in crash.keep(feed)


@pytest.mark.parametrize("logged", [True, False])
def test_the_error_is_told_in_any_case(
    logged: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not logged:
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
    try:
        raise ValueError("asked with --api-key hunter2 \x1b[2J\nsecond line")
    except ValueError as error:
        with pytest.raises(SystemExit) as ended:
            broken(error, "nothing could be kept")
    told = capsys.readouterr().err
    assert ended.value.code == Exit.BROKEN
    assert "bug in gaptop (ValueError: asked with --api-key *** ␛[2J second line); nothing could be kept; " in told
    assert told.endswith("please report it.\n")
    assert ("Traceback" in told) != logged
    assert "hunter2" not in told
    assert "\x1b" not in told
    assert ("gaptop broke" in caplog.text) == logged


def test_a_thread_that_dies_after_the_screen_is_told_too() -> None:
    app = MortalApp()
    app.break_from_thread(KeyError("late"))
    app.break_from_thread(KeyError("later"))
    assert repr(app.broke) == "KeyError('late')"


def test_the_wait_for_a_server_that_breaks_is_told_as_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(self: Waiting, **options: object) -> None:
        raise KeyError("made for a test")

    monkeypatch.setattr(Waiting, "run", breaks)
    monkeypatch.setattr(first_minute, "take_terminal", lambda: None)
    look = Look("auto", "auto", "auto", mouse=True, sweep="auto", settings=settings(environ={}))
    with pytest.raises(SystemExit) as ended:
        first_minute.wait_for_servers(Target(), "why", look)
    assert ended.value.code == Exit.BROKEN
    assert "bug in gaptop (KeyError: 'made for a test'); " in capsys.readouterr().err
