"""The sentence that is always on screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Line, Source, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment, Cause, Valley, Verdict
from gaptop.valleys.sentence import sentence as sentence_of

from .valley_server import quiet_between, server, stopped_progress
from .valley_streams import API, METRICS, Stream, analyse, classify, stairs


def said(stream: Stream) -> str:
    return analyse(stream.lines())[1].sentence


def test_busy_device_without_a_valley() -> None:
    assert said(Stream(10).device(stairs((0, 0.98)))) == "no valley at all: device busy 98% over 10 s"


def test_what_goes_on_has_no_valley_yet() -> None:
    timeline, assessment = analyse(Stream(10).device(stairs((0, 0.98))).lines())
    going = sentence_of(timeline, replace(assessment, ended=False))
    assert going == "no valley yet: device busy 98% over 10 s"


def test_device_that_never_worked() -> None:
    sentence = said(Stream(10).device(stairs((0, 0.0))))
    assert sentence.startswith("no valley at all: the device has not worked")


def test_server_without_a_device() -> None:
    sentence = said(Stream(10).metrics(server()))
    assert sentence == "no valley at all: no device seen, 800 decode tokens a second"


def test_unproved_cause_says_what_was_not_seen_and_how_to_see_it() -> None:
    stream = Stream(22).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    sentence = said(stream)
    assert sentence.startswith("no cause proved for the last valley, 3.0 s")
    assert sentence.endswith("threads not seen; run `sudo gaptop record -o - | gaptop open -`")


def test_a_server_without_python_is_not_sent_for_more_rights() -> None:
    stream = Stream(22).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.health(0.5, "host.threads_pyspy", "absent", "No process of this server is Python.")
    sentence = said(stream)
    assert sentence.startswith("no cause proved for the last valley")
    assert "sudo" not in sentence


def test_open_valley_is_told_while_it_lasts_and_after_it() -> None:
    stream = Stream(22).device(quiet_between(1.0)).stacks(API, "api", lambda t: "idle")
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    timeline, sentences = Timeline(classify), {}
    analyst = Analyst(timeline)
    line: Line
    for line in stream.lines():
        timeline.apply(line)
        if analyst.apply(line) is not None and isinstance(line, Tick):
            sentences[line.t] = analyst.assessment.sentence
    assert "device busy 100%" in sentences[12.0]
    assert sentences[14.0].startswith("valley now, for 2.0 s: no demand, queue empty")
    assert "provisional" in sentences[14.0]
    assert sentences[22.0] == "last valley, 3.0 s: no demand, queue empty (high): running 0; not a fault"


def test_a_server_that_no_longer_answers_comes_first() -> None:
    stream = Stream(22).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.health(21.9, METRICS, "failing", "Nothing listens at this address any more.")
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    for line in stream.lines():
        timeline.apply(line)
        analyst.apply(line)
    assert analyst.assessment.sentence.startswith("no reading of the server for ")
    assert analyst.assessment.sentence.endswith("Nothing listens at this address any more.")
    # A recording that ends so still tells of its valleys.
    assert "valley" in analyst.finish().sentence


def test_a_device_of_which_little_is_seen_has_worked_where_it_was_busy() -> None:
    # An exporter that shows one window of 0.2 s in many: 0.4 s seen in all.
    stream = Stream(10).device(stairs((0, 0.97), (0.5, None)))
    assert said(stream) == "no valley at all: device busy 97% over 10 s"


@pytest.mark.parametrize(("count", "words"), [(1, "the device tells"), (3, "the 3 devices tell")])
def test_devices_without_utilisation_are_not_said_to_be_unseen(count: int, words: str) -> None:
    stream = Stream(10).metrics(server())
    for index in range(count):
        entity = {"uuid": f"MIG-{index}", "name": "A100", "kind2": "gpu", "index": index, "pids": None}
        stated = {"device.busy": "GPM begins with Hopper"}
        lane = f"nvml/MIG-{index}"
        stream.add(0.0, Source(0.0, lane, "devices.nvml", "device", entity, ["device.power"], 0.25, unsupported=stated))
    sentence = said(stream)
    assert sentence == f"no valley at all: {words} no utilisation (N/A), 800 decode tokens a second"


HOST = "most was lost to host starvation, about 500 tokens in 1 of 2 valleys; its costliest, 1.0 s"
CACHE = "most was lost to cache pressure, about 900 tokens in 1 of 2 valleys; its costliest, 6.0 s"


def two_valleys(second: Verdict, tokens: float | None) -> Assessment:
    """What has ended: a valley of host starvation that cost 500 tokens, and after it another."""
    first = Verdict("host_starvation", "scheduling", "high", 0.9, None, (), (), (), "", (), ())
    one = Valley("1", "utilisation", ("gpu",), 10.0, 11.0, 0.1, 0.1, 1.0, 1.0, 0.1, True, 500.0, True, first)
    two = replace(one, id="2", start_s=20.0, end_s=26.0, idle_s=6.0, tokens_lost=tokens, verdict=second)
    state = analyse(Stream(30).device(stairs((0, 0.98))).lines())[1]
    assert state.ended
    return replace(state, valleys=(one, two))


@pytest.mark.parametrize(
    ("cause", "tokens", "begins"),
    [
        ("no_demand", 0.0, HOST),
        ("artefact", 900.0, HOST),
        (
            "cache_pressure",
            900.0,
            CACHE,
        ),
        ("host_starvation", None, HOST.replace("1 of 2", "2 of 2")),
    ],
)
def test_of_what_has_ended_the_sentence_tells_what_cost_most(cause: Cause, tokens: float | None, begins: str) -> None:
    second = Verdict(cause, "", "high", 0.9, None, (), (), (), "", (), ())
    state = two_valleys(second, tokens)
    assert sentence_of(Timeline(classify), state).startswith(begins)
    live = sentence_of(Timeline(classify), replace(state, ended=False))
    assert live.startswith("last valley, 6.0 s")


def test_where_nothing_was_lost_the_sentence_says_so() -> None:
    state = two_valleys(Verdict("no_demand", "", "high", 0.9, None, (), (), (), "", (), ()), 0.0)
    state = replace(state, valleys=(state.valleys[1], replace(state.valleys[1], id="3", start_s=27.0, end_s=29.0)))
    said = sentence_of(Timeline(classify), state)
    assert said == "2 valleys, and nothing was lost in any; the longest, 6.0 s: no demand (high); not a fault"


def test_a_cost_that_nobody_saw_is_no_zero() -> None:
    state = two_valleys(Verdict("host_starvation", "", "high", 0.9, None, (), (), (), "", (), ()), None)
    blind = tuple(replace(valley, idle_s=None, tokens_lost=None) for valley in state.valleys)
    said = sentence_of(Timeline(classify), replace(state, valleys=blind))
    assert said.startswith("most was lost to host starvation, 7.0 s whose cost was not seen in 2 of 2 valleys; ")
