"""Folded stacks: one line a stack, in milliseconds, whatever is in the names."""

from __future__ import annotations

from gaptop.export.folded import folded
from gaptop.export.labels import ThreadLabel
from gaptop.timeline.stacks import Frame
from gaptop.timeline.types import StackTime, StackTimes

MAIN = ThreadLabel("VLLM::EngineCore", 7, "MainThread", 7)
RUN, STEP = ("run", "/srv/a.py", 1), ("Core.step", "/srv/b.py", 20)


def times(*parts: tuple[float, tuple[Frame, ...]]) -> StackTimes:
    rows = tuple(StackTime(number, "launch", frames, seconds) for number, (seconds, frames) in enumerate(parts))
    return StackTimes(0.0, 10.0, rows)


def test_a_line_is_process_thread_frames_and_milliseconds() -> None:
    assert folded([(MAIN, times((0.5004, (RUN,)), (1.25, (RUN, STEP))))]) == (
        "VLLM::EngineCore (pid 7);MainThread (tid 7);run (/srv/a.py:1);Core.step (/srv/b.py:20) 1250\n"
        "VLLM::EngineCore (pid 7);MainThread (tid 7);run (/srv/a.py:1) 500\n"
    )


def test_threads_follow_one_another_and_are_not_mixed() -> None:
    other = ThreadLabel("", 8, "9", 9)
    text = folded([(MAIN, times((0.1, (RUN,)))), (other, times((0.2, (RUN,))))])
    assert [line.partition(";run")[0] for line in text.splitlines()] == [
        "VLLM::EngineCore (pid 7);MainThread (tid 7)",
        "process (pid 8);thread 9",
    ]


def test_stacks_that_read_the_same_are_added_before_they_are_rounded() -> None:
    """A probe that has forgotten a stack gives it a new number when it comes again."""
    text = folded([(MAIN, times(*[(0.0004, (RUN,))] * 10, (0.0004, (STEP,))))])
    assert text == "VLLM::EngineCore (pid 7);MainThread (tid 7);run (/srv/a.py:1) 4\n"


def test_names_cannot_end_a_frame_or_a_line() -> None:
    evil = ("a;b\n\x1b[2J", "/x;y.py", 3)
    text = folded([(ThreadLabel("p;q", 7, "t\nu", 7), times((1.0, (evil,))))])
    assert text.count("\n") == 1
    assert text.count(";") == 2
    assert "\x1b" not in text
    assert text.endswith(" 1000\n")


def test_a_line_or_a_file_that_is_not_known_is_left_out() -> None:
    text = folded([(MAIN, times((1.0, (("f", "/a.py", 0), ("g", "", 0))), (0.5, ())))])
    assert [line.partition(" (tid 7);")[2] for line in text.splitlines()] == [
        "f (/a.py);g 1000",
        "[frames not recorded] 500",
    ]


def test_nothing_seen_is_nothing_written() -> None:
    assert folded([(MAIN, times())]) == ""
