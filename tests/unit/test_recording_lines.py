"""Lines: what is written comes back, and whatever is read has the promised shape or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.recording import lines as ln

TEXT = st.text(max_size=12)
TIME = st.floats(min_value=0, max_value=1e6).map(lambda value: round(value, 6))
VALUE = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)
JSON = st.dictionaries(
    TEXT,
    st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=3)),
    max_size=3,
)


@st.composite
def batches(draw: st.DrawFn) -> ln.Batch:
    times = sorted(draw(st.lists(TIME, min_size=1, max_size=5)))
    column = st.lists(VALUE, min_size=len(times), max_size=len(times))
    return ln.Batch(draw(TEXT), times, draw(st.dictionaries(TEXT, column, max_size=3)))


@st.composite
def spans(draw: st.DrawFn) -> ln.Spans:
    rows = draw(st.lists(st.tuples(st.integers(1, 9), TIME, TIME, st.integers(0, 2**40)), max_size=4))
    edges = [sorted(row[1:3]) for row in rows]
    first, last = sorted((draw(TIME), draw(TIME)))
    return ln.Spans(
        draw(TEXT),
        (first, last),
        [row[0] for row in rows],
        [edge[0] for edge in edges],
        [edge[1] for edge in edges],
        [row[3] for row in rows],
    )


LINES = st.one_of(
    st.builds(ln.Header, st.just("gaptop"), st.just((1, 0)), TEXT, TEXT, st.integers(0, 2**62), JSON, st.booleans()),
    st.builds(
        ln.Source,
        t=TIME,
        id=TEXT,
        collector=TEXT,
        kind=TEXT,
        entity=st.fixed_dictionaries({"name": TEXT}, optional={"pids": st.none() | st.lists(st.integers(1, 9))}),
        signals=st.lists(TEXT, max_size=3),
        period=TIME,
        window=st.none() | TIME,
        says=TEXT,
    ),
    batches(),
    spans(),
    st.builds(ln.Event, TIME, TEXT, TEXT, st.none() | TEXT, JSON),
    st.builds(ln.Health, TIME, TEXT, TEXT, TEXT, st.none() | TIME, st.none() | TIME, st.none() | TIME, TEXT),
    st.builds(ln.Self, TIME, TIME, st.integers(0, 2**50), st.none() | TIME),
    st.builds(ln.Tick, TIME),
    st.builds(ln.Watermark, TEXT, TIME),
)


@given(LINES)
def test_what_is_written_comes_back(line: ln.Line) -> None:
    raw = ln.encode(line)
    back = ln.decode(raw)
    assert back == line
    assert back is not None
    assert ln.encode(back) == raw
    assert ln.kind_of(raw) == line.k
    assert raw.count(b"\n") == 1


def test_a_file_name_that_is_no_utf8_survives() -> None:
    line = ln.Event(1.0, "x", "caf\udce9")
    assert ln.decode(ln.encode(line)) == line


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_reading_is_not_written(value: float) -> None:
    with pytest.raises(ValueError):
        ln.encode(ln.Batch("s", [1.0], {"x": [value]}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "null",
        '"text"',
        "{",
        '{"k":"tick"}',
        '{"k":"tick","t":NaN}',
        '{"k":"tick","t":1e999}',
        '{"k":"tick","t":true}',
        '{"k":"tick","t":"1"}',
        '{"k":"tick","t":1e12}',
        '{"k":"tick","t":' + "9" * 400 + "}",
        '{"k":"batch","src":"s","t":[1,2],"values":{"x":[1]}}',
        '{"k":"batch","src":"s","t":[2,1],"values":{"x":[1,1]}}',
        '{"k":"batch","src":"s","t":[1],"values":{"x":[true]}}',
        '{"k":"batch","src":"s","t":[1],"values":{"x":["1"]}}',
        '{"k":"batch","src":"s","t":[1],"values":{"x":[1e999]}}',
        '{"k":"batch","src":"s","t":[1],"values":[[1]]}',
        '{"k":"batch","src":"s","t":1,"values":{}}',
        '{"k":"batch","src":["s"],"t":[],"values":{}}',
        '{"k":"spans","src":"s","covered":[0],"tid":[],"start":[],"end":[],"stack":[]}',
        '{"k":"spans","src":"s","covered":[2,1],"tid":[],"start":[],"end":[],"stack":[]}',
        '{"k":"spans","src":"s","covered":[0,1],"tid":[1],"start":[0],"end":[1],"stack":[]}',
        '{"k":"spans","src":"s","covered":[0,1],"tid":[1],"start":[1],"end":[0],"stack":[1]}',
        '{"k":"frames","src":"s","stacks":{"x":[]}}',
        '{"k":"frames","src":"s","stacks":{"1":[["f","file"]]}}',
        '{"k":"frames","src":"s","stacks":{"1":[["f","file","3"]]}}',
        '{"k":"hole","src":"s","start":2,"end":1,"reason":""}',
        '{"k":"event","t":1,"what":"x","says":"y","data":[]}',
        '{"k":"event","t":1,"what":"x","says":"y","data":' + '{"a":' * 60 + "1" + "}" * 61,
        '{"k":"event","t":1,"what":"x","says":"y","data":{"a":[1e999]}}',
        '{"k":"source","t":0,"id":"a","collector":"c","kind":"device","entity":{"pids":["x"]},"signals":[],"period":1}',
        '{"k":"source","t":0,"id":"a","collector":"c","kind":"device","entity":{"threads":[1]},"signals":[],"period":1}',
        '{"k":"header","format":"gaptop","version":"1.0","gaptop":"","start_utc":"","start_monotonic_ns":1}',
        "[" * 100_000,
    ],
)
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(ln.BadLine):
        ln.decode(text.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ln.BadLine):
        ln.decode(b'{"k":"event","t":1,"what":"x","says":"\xff"}')


@pytest.mark.parametrize("text", ['{"k":"later"}', "{}", '{"k":3}', '{"k":["tick"]}'])
def test_an_unknown_kind_is_none(text: str) -> None:
    assert ln.decode(text.encode()) is None


def test_unknown_fields_are_skipped() -> None:
    assert ln.decode(b'{"k":"tick","t":1.5,"new":{"a":1}}') == ln.Tick(1.5)


WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(LINES, st.data())
def test_a_line_with_one_field_replaced_is_a_message_or_refused(line: ln.Line, data: st.DataObject) -> None:
    body: dict[str, Any] = json.loads(ln.encode(line))
    field = data.draw(st.sampled_from(sorted(body)))
    body[field] = data.draw(WILD)
    try:
        decoded = ln.decode(json.dumps(body).encode())
    except ln.BadLine:
        return
    if decoded is not None:
        ln.encode(decoded)
        ln.times(decoded)
