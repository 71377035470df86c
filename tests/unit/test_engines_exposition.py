"""Filtering and remembering series must change no value; what is not metrics must never look like an idle server."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gaptop_collectors.engines.exposition import ExpositionReader, NotMetrics, Sample, require_metrics

BODY = (Path(__file__).parents[1] / "data" / "vllm" / "0.32_bursty.prom").read_text()
NAMES = ("a", "a_total", "a_total_sum", "vllm:b", "c:d_count")


def by_prometheus(text: str, names: frozenset[str]) -> list[Sample]:
    found = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names:
                value = float(sample.value)
                found.append(Sample(sample.name, dict(sample.labels), value if math.isfinite(value) else None))
    return found


label_value = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)
value = st.one_of(
    st.sampled_from(["0", "1", "NaN", "+Inf", "-Inf", "1e+06", "1.0659e+06", "-3.5"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@st.composite
def series(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["a", "a_total", "a_total_sum", "ab", "vllm:b", "vllm:bc", "c:d", "c:d_count"]))
    labels = draw(st.dictionaries(st.sampled_from(["engine", "model_name", "x"]), label_value, max_size=3))
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for k, v in labels.items()}
    inner = ",".join(f'{k}="{v}"' for k, v in escaped.items())
    stamp = draw(st.sampled_from(["", "", " 1395066363000"]))
    blank = draw(st.sampled_from([" ", "  ", "\t"]))
    indent = draw(st.sampled_from(["", "", " "]))
    return f"{indent}{name}{'{' + inner + '}' if inner or draw(st.booleans()) else ''}{blank}{draw(value)}{stamp}"


comment = st.sampled_from(["# HELP a_total what a{is}", "# TYPE a_total counter", "# TYPE vllm:b gauge", "# hm", ""])
body = st.lists(st.one_of(series(), comment), min_size=1, max_size=12).map(lambda lines: "\n".join(lines) + "\n")


@settings(max_examples=200, deadline=None)
@given(text=body, wanted=st.sets(st.sampled_from(NAMES), min_size=1))
def test_filter_and_memory_change_no_wanted_value(text: str, wanted: set[str]) -> None:
    names = frozenset(wanted)
    # prometheus_client must accept the body at all: it refuses for instance a TYPE line without blanks.
    expected = by_prometheus(text, names)
    reader = ExpositionReader(names)
    if not expected:
        try:
            assert reader.read(text) == []
        except NotMetrics:
            assert not any(line.strip() and not line.startswith("# hm") for line in text.splitlines())
        return
    assert reader.read(text) == expected
    assert reader.read(text) == expected, "the second reading comes from the remembered series"


def test_real_body_gives_what_prometheus_client_gives() -> None:
    names = frozenset(s.name for family in text_string_to_metric_families(BODY) for s in family.samples)
    reader = ExpositionReader(names)
    first = reader.read(BODY)
    assert len(first) > 400
    assert first == by_prometheus(BODY, names) == reader.read(BODY)


def test_untrusted_labels_stay_data() -> None:
    evil = 'x"y\\z[bold red]\x1b]0;pwned\x07'
    text = f'a{{model_name="{evil.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}\\n}} "}} 3\n'
    (sample,) = ExpositionReader(["a"]).read(text)
    assert sample == Sample("a", {"model_name": evil + "\n} "}, 3.0)


@pytest.mark.parametrize("printed", ["NaN", "+Inf", "-Inf", "nan", "inf"])
def test_not_a_number_is_no_observation(printed: str) -> None:
    assert ExpositionReader(["a"]).read(f"a {printed}\n") == [Sample("a", {}, None)]


def test_a_cut_last_line_is_left_out() -> None:
    assert ExpositionReader(["a", "b"]).read("a 1\nb 164") == [Sample("a", {}, 1.0)]


@pytest.mark.parametrize("line", ["a", "a{x=1} 2", "a one", 'a{x="1"', "a 1_0", "a 1 2 3 x"])
def test_a_broken_wanted_line_is_an_error_not_a_value(line: str) -> None:
    with pytest.raises(NotMetrics):
        ExpositionReader(["a"]).read(f"{line}\n")


@pytest.mark.parametrize(
    "text",
    ["<html><body>502 Bad Gateway</body></html>\n", '{"detail":"Not Found"}\n', "[]\n", "Not Found\n", "ok\n"],
)
def test_other_text_is_an_error_never_an_empty_answer(text: str) -> None:
    with pytest.raises(NotMetrics):
        ExpositionReader(["a"]).read(text)


def test_metrics_without_a_wanted_one_are_metrics() -> None:
    assert ExpositionReader(["a"]).read("# TYPE b gauge\nb 1\n") == []
    assert ExpositionReader(["a"]).read('b{x="}"} 1.5e3 1395066363000\n') == []
    require_metrics("")


def test_memory_of_series_is_bounded() -> None:
    reader = ExpositionReader(["a"])
    reader.read("".join(f'a{{x="{i}"}} 1\n' for i in range(5000)))
    assert len(reader._series) <= 4096
