"""Lines that decode and make no sense: never an exception, never memory without bound."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop.recording.lines import BadLine, Batch, Frames, Hole, Source, Spans, Tick, Watermark, decode, encode
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Cover, SeriesId, ThreadId

POWER = SeriesId("s", "device.power")
SOURCE = Source(0.0, "s", "test", "device", {}, ("device.power",), 0.1, window=0.2)

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(
        [10**400, -(10**400), 2**63, 1e308, -1e308, 1e15, 9e8, float("nan"), float("inf"), "s", "", "7", "a{tid=1}"]
    ),
    st.lists(st.sampled_from([0.5, 1, 2.5, None, "x", 1e308, float("nan"), [], {}]), max_size=4),
    st.dictionaries(
        st.sampled_from(["device.power", "tokens.decode", "host.oncpu{tid=1}", "device.busy", "0", "7", "x"]),
        st.one_of(st.none(), st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), max_size=4)),
        max_size=3,
    ),
)
FIELDS = {
    "header": ["format", "version", "gaptop", "start_utc", "start_monotonic_ns", "host", "simulated"],
    "source": ["t", "id", "collector", "kind", "entity", "signals", "period", "unsupported", "window", "lag", "says"],
    "batch": ["src", "t", "values"],
    "frames": ["src", "stacks"],
    "spans": ["src", "covered", "tid", "start", "end", "stack"],
    "hole": ["src", "start", "end", "reason"],
    "clock": ["t", "utc", "boot_ns"],
    "event": ["t", "what", "says", "src", "data"],
    "health": ["t", "src", "collector", "state", "newest", "cost"],
    "self": ["t", "cpu_seconds", "rss_bytes"],
    "tick": ["t"],
    "watermark": ["src", "t"],
    "range": ["start", "end"],
    "verdict": ["valley"],
}
GOOD: dict[str, Any] = {
    "src": "s",
    "t": [1.0, 2.0],
    "values": {"device.power": [1.0, 2.0], "device.busy": [0.5, 0.5], "tokens.decode": [1.0, 1e308]},
    "covered": [0.0, 9.0],
    "tid": [1, 2],
    "start": [1.0, 2.0],
    "end": [2.0, 3.0],
    "stack": [1, 1],
    "stacks": {"1": [["f", "a.py", 1]], "x": 3, "2": "frames", "-1": []},
    "signals": ["device.power"],
    "entity": {"threads": [{"tid": 1, "name": "x"}]},
    "period": 0.1,
    "id": "s",
    "kind": "device",
    "collector": "test",
}


@st.composite
def odd_lines(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(sorted(FIELDS)))
    body: dict[str, Any] = {"k": kind}
    for name in FIELDS[kind]:
        plain = GOOD.get(name, "x")
        if name == "t" and kind != "batch":
            plain = draw(st.sampled_from([0.5, 1.5, 3.0]))
        if kind in ("hole", "range") and name in ("start", "end"):
            plain = draw(st.sampled_from([0.5, 1.5, 3.0, -1.0]))
        body[name] = draw(st.one_of(st.just(plain), st.just(plain), ODD))
    return json.dumps(body).encode()


def ask_everything(made: Timeline) -> None:
    for signal in ("device.power", "device.busy", "tokens.decode", "host.oncpu"):
        for id in made.ids(signal):
            for start, end in ((0.0, 5.0), (-1e9, 1e9), (float("nan"), float("inf"))):
                made.columns(id, start, end, 9)
                steps = made.steps(id, start, end)
                assert (steps.value == steps.value).all()
                assert (abs(steps.value) < float("inf")).all()
                made.mean(id, start, end)
                made.extremes(id, start, end)
                made.increase(id, start, end)
            made.value_at(id, 1.5)
            made.latest(id)
    for thread in made.threads():
        made.spans(thread, 0.0, 10.0)
        made.shares(thread, -1e9, 1e9)
        made.share_columns(thread, 0.0, 10.0, 5)
        made.thread_name(thread)
    for id_, view in made.sources.items():
        assert view.watermark == view.watermark
        made.holes(id_, 0.0, 10.0)


@given(st.lists(odd_lines(), max_size=12))
@settings(max_examples=80, deadline=None)
def test_no_line_raises(lines: list[bytes]) -> None:
    made = Timeline(lambda frames: frames[-1][0])
    made.apply(SOURCE)
    for text in lines:
        try:
            line = decode(text)
        except BadLine:
            continue
        if line is not None:
            made.apply(line)
    ask_everything(made)
    made.apply(Tick(20.0))
    ask_everything(made)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e308, None, 10**400])
def test_what_is_no_number_is_no_observation(value: Any) -> None:
    made = Timeline()
    made.apply(SOURCE)
    made.apply(Batch("s", [1.0, 1.1, 1.2], {"device.power": [5.0, value, 7.0]}))
    made.apply(Tick(1.3))
    assert made.steps(POWER, 0.0, 9.0).value.tolist() == [5.0, 7.0]
    assert made.value_at(POWER, 1.15) is None


def test_unknown_sources_and_lines_of_odd_lengths() -> None:
    made = Timeline()
    made.apply(SOURCE)
    made.apply(Batch("nobody", [1.0], {"device.power": [1.0]}))
    made.apply(Batch("s", [1.0, 1.1], {"device.power": [1.0, 2.0, 3.0], "device.energy": []}))
    made.apply(Batch("s", [1.2], {"device.power": []}))
    made.apply(Hole("nobody", 0.0, 1.0, "x"))
    made.apply(Watermark("nobody", 1.0))
    made.apply(Spans("s", (0.0, 9.0), [-1, 1, 2], [0.0, 1.0], [1.0, 2.0], [1, 1, 1]))
    assert list(made.sources) == ["s"]
    assert made.ids("device.power") == (POWER,)
    assert made.threads() == (ThreadId("s", 1),)


def test_an_absurdly_late_reading_and_a_very_long_silence() -> None:
    made = Timeline()
    made.apply(SOURCE)
    for t in (1.0, 2.0, 9e8, 9e8 + 1, 1e300):
        made.apply(Batch("s", [t], {"device.power": [t], "device.busy": [0.5], "tokens.decode": [t]}))
    made.apply(Watermark("s", 9.5e8))
    assert made.value_at(POWER, 1.1) == 1.0
    assert made.value_at(POWER, 9e8 + 0.1) == pytest.approx(9e8)
    assert made.coverage(POWER, 3.0, 9e8) == 0.0
    assert len(made.steps(POWER, -1e9, 1e9).value) == 4


def test_the_number_of_series_threads_and_stacks_stays_bounded() -> None:
    made = Timeline()
    made.apply(SOURCE)
    for n in range(24):
        made.apply(Batch("s", [float(n)], {f"host.memory{{pid={n * 500 + i}}}": [1.0] for i in range(500)}))
        made.apply(Spans("s", (n, n + 1), list(range(n * 200, n * 200 + 200)), [n] * 200, [n + 1] * 200, [1] * 200))
        made.apply(Frames("s", {str(n * 3000 + i): [["f", "a.py", n * 3000 + i]] for i in range(3000)}))
    assert len(made.ids("host.memory")) == 10_000
    assert len(made.threads()) == 4_096
    assert sum(bool(made.frames(stack)) for stack in range(24 * 3000)) <= 65_536
    # Stacks that nothing refers to made room for the newest ones.
    assert made.frames(24 * 3000 - 1) == (("f", "a.py", 24 * 3000 - 1),)


def test_a_series_with_far_too_many_readings_loses_its_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaptop.timeline.runs._MOST", 1 << 14)
    made = Timeline()
    made.apply(SOURCE)
    for part in range(12):
        times = [part * 2 + i / 1000 for i in range(2000)]
        made.apply(Batch("s", times, {"device.power": [float(i) for i in range(2000)]}))
        made.columns(POWER, 0.0, 100.0, 10)
    assert 14_000 < len(made.steps(POWER, 0.0, 1e6).value) < 23_000
    assert made.value_at(POWER, 23.5005) == 1500.0
    assert made.value_at(POWER, 1.0) is None
    assert made.columns(POWER, 0.0, 2.0, 1).cover.tolist() == [Cover.NOTHING]


def test_histories_that_do_not_fit_together_lose_their_older_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaptop.timeline.intake._PIECES", 10_000)
    made = Timeline()
    made.apply(SOURCE)
    energy = SeriesId("s", "device.energy")
    times = [i / 1000 for i in range(8000)]
    made.apply(Batch("s", times, {POWER.key: times}))
    made.apply(Batch("s", times[:4000], {energy.key: times[:4000]}))
    made.apply(Tick(10.0))
    assert 3500 < len(made.steps(POWER, 0.0, 1e6).value) < 4500
    assert len(made.steps(energy, 0.0, 1e6).value) == 3999


def test_what_the_wire_carries_arrives() -> None:
    made = Timeline()
    for line in (SOURCE, Batch("s", [1.0, 1.1], {"device.power": [3.0, 4.0]}), Tick(1.2)):
        decoded = decode(encode(line))
        assert decoded is not None
        made.apply(decoded)
    assert made.steps(POWER, 0.0, 2.0).value.tolist() == [3.0, 4.0]
