"""The speedscope file: the keys that its public schema requires, and events that its reader takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.export.labels import ThreadLabel
from gaptop.export.speedscope import speedscope
from gaptop.timeline.stacks import Frame
from gaptop.timeline.types import Span

MAIN = ThreadLabel("VLLM::EngineCore", 7, "MainThread", 7)
RUN, STEP, WAIT = ("run", "a.py", 1), ("step", "b.py", 20), ("wait", "c.py", 3)
STACKS: dict[int, tuple[Frame, ...]] = {1: (RUN,), 2: (RUN, STEP), 3: (RUN, WAIT), 4: (RUN, STEP, WAIT), 5: ()}
UNITS = {"bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"}


def made(*spans: tuple[float, float, int], start: float = 0.0, end: float = 10.0) -> dict[str, Any]:
    told = [Span(a, b, "launch", stack) for a, b, stack in spans]
    file = speedscope([(MAIN, told)], lambda stack: STACKS[stack], start, end, "run.gaptop", "gaptop 1")
    checked(file)
    return file


def checked(file: dict[str, Any]) -> None:
    """What the schema requires, and what speedscope's reader refuses otherwise: events in order, and balanced."""
    json.dumps(file, allow_nan=False)
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = file["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
    for profile in file["profiles"]:
        assert {"type", "name", "unit", "startValue", "endValue", "events"} <= set(profile)
        assert profile["type"] == "evented"
        assert profile["unit"] in UNITS
        opened: list[int] = []
        at = profile["startValue"]
        for event in profile["events"]:
            assert set(event) == {"type", "frame", "at"}
            assert at <= event["at"] <= profile["endValue"]
            assert 0 <= event["frame"] < len(frames)
            at = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
            else:
                assert event["type"] == "C"
                assert opened.pop() == event["frame"]
        assert not opened


def shown(file: dict[str, Any]) -> list[str]:
    names = [frame["name"] for frame in file["shared"]["frames"]]
    return [f"{event['type']} {names[event['frame']]} {event['at']:g}" for event in file["profiles"][0]["events"]]


def test_frames_that_go_on_stay_open() -> None:
    file = made((1.0, 2.0, 2), (2.0, 3.0, 3))
    assert shown(file) == ["O run 1", "O step 1", "C step 2", "O wait 2", "C wait 3", "C run 3"]
    assert file["shared"]["frames"][1] == {"name": "step", "file": "b.py", "line": 20}


def test_across_a_gap_nothing_goes_on() -> None:
    assert shown(made((1.0, 2.0, 1), (3.0, 4.0, 1))) == ["O run 1", "C run 2", "O run 3", "C run 4"]


def test_what_reaches_over_the_edges_is_cut_there() -> None:
    file = made((1.0, 4.0, 1), (4.0, 9.0, 2), (9.0, 10.0, 3), start=2.0, end=5.0)
    assert shown(file) == ["O run 2", "O step 4", "C step 5", "C run 5"]
    assert (file["profiles"][0]["startValue"], file["profiles"][0]["endValue"]) == (2.0, 5.0)


def test_one_profile_a_thread_in_seconds() -> None:
    other = ThreadLabel("api", 8, "loop", 9)
    spans = [Span(1.0, 2.0, "launch", 1)]
    file = speedscope([(MAIN, spans), (other, spans)], lambda stack: STACKS[stack], 0.0, 5.0, "f", "gaptop 1")
    checked(file)
    assert [profile["name"] for profile in file["profiles"]] == [
        "VLLM::EngineCore (pid 7) MainThread (tid 7)",
        "api (pid 8) loop (tid 9)",
    ]
    assert {profile["unit"] for profile in file["profiles"]} == {"seconds"}
    assert len(file["shared"]["frames"]) == 1


def test_a_stack_without_frames_is_named_so() -> None:
    file = made((1.0, 2.0, 5))
    assert file["shared"]["frames"] == [{"name": "[frames not recorded]"}]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.sampled_from([0, 0, 7]), st.sampled_from(sorted(STACKS))), max_size=40),
    st.integers(0, 500),
    st.integers(1, 500),
)
def test_any_history_is_balanced_and_keeps_each_functions_time(
    pieces: list[tuple[int, int, int]], start: int, length: int
) -> None:
    spans, t = [], 0
    for took, gap, stack in pieces:
        spans.append(((t + gap) / 100, (t + gap + took) / 100, stack))
        t += gap + took
    low, high = start / 100, (start + length) / 100
    file = made(*spans, start=low, end=high)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    took_by_name: dict[str, float] = {}
    for event in file["profiles"][0]["events"]:
        sign = 1 if event["type"] == "C" else -1
        name = names[event["frame"]]
        took_by_name[name] = took_by_name.get(name, 0.0) + sign * event["at"]
    wanted: dict[str, float] = {}
    for a, b, stack in spans:
        for function, _, _ in STACKS[stack] or (("[frames not recorded]", "", 0),):
            wanted[function] = wanted.get(function, 0.0) + max(0.0, min(b, high) - max(a, low))
    assert took_by_name == {name: pytest.approx(seconds, abs=1e-9) for name, seconds in wanted.items() if seconds > 0}
