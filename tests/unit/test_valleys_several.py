"""Several servers in one stream: each is judged by its own requests, threads and devices alone, and is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import report, report_text
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop.valleys.ranks import NEIGHBOURS
from gaptop.valleys.scope import scopes

from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, METRICS, URL, Stream, analyse, classify, only

OTHER_URL = "http://127.0.0.1:8001"
OTHER_METRICS = f"metrics/{OTHER_URL}"
OTHER_API, OTHER_ENGINE = 500, 501
OTHER_GPU = "nvml/GPU-b"


def two(
    second_pids: Sequence[int] = (OTHER_API, OTHER_ENGINE),
    gpus: tuple[Sequence[int], Sequence[int]] = ((ENGINE,), (OTHER_ENGINE,)),
) -> Stream:
    """For the same three seconds the first server has no request, and the second one's engine collects garbage."""
    stream = Stream(END).device(quiet_between(1.0), pids=gpus[0])
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(API, "api", lambda t: "idle")
    stream.stacks(ENGINE, "engine", lambda t: "await_requests" if LOW <= t < BACK else "device_sync")
    stream.device(quiet_between(1.0), source=OTHER_GPU, pids=gpus[1])
    stream.metrics(server(**stopped_progress()), source=OTHER_METRICS, pids=second_pids)
    stream.stacks(OTHER_API, "api", lambda t: "idle")
    return stream.stacks(OTHER_ENGINE, "engine", lambda t: "gc" if LOW <= t < BACK else "device_sync")


def built(found: tuple[Timeline, Assessment], window: tuple[float, float] | None = None) -> dict[str, Any]:
    return report.build(*found, window=window)


def test_valleys_of_the_same_time_have_each_the_cause_of_their_own_server() -> None:
    made = built(analyse(two().lines()))
    assert {(item["server"], tuple(item["devices"]), item["cause"]) for item in made["valleys"]} == {
        (URL, ("GPU-a",), "no_demand"),
        (OTHER_URL, ("GPU-b",), "host_starvation"),
    }
    assert [item["url"] for item in made["source"]["servers"]] == [URL, OTHER_URL]
    text = report_text.render(made, ascii=False, width=100)
    assert "no demand (queue empty) at 127.0.0.1:8000" in " ".join(text.split())
    assert "at 127.0.0.1:8001" in text


def test_of_one_server_nothing_says_which() -> None:
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(sched__running=quiet_between(8)))
    found = analyse(stream.lines())
    assert only(found[1].valleys, kind="utilisation").server == URL
    assert "8000" not in found[1].sentence
    valleys = report_text.render(built(found), ascii=False, width=80).partition("Valleys:")[2]
    assert "at 127.0.0.1" not in valleys


def test_a_server_whose_processes_are_unknown_has_none_of_anothers_threads() -> None:
    timeline, said = analyse(two(second_pids=(), gpus=((ENGINE,), ())).lines())
    first, second, *rest = scopes(timeline)
    assert {ref.pid for ref in first.stacks} == {API, ENGINE}
    assert second.stacks == ()
    assert second.devices == ()
    assert [scope.devices[0].label for scope in rest] == ["GPU-b"], "nobody's device stands alone"
    for valley in said.valleys:
        if valley.server == OTHER_URL:
            assert valley.verdict.cause != "host_starvation"


def test_a_standstill_without_a_device_is_its_servers_also_in_a_part_of_the_time() -> None:
    found = analyse(two(second_pids=(), gpus=((ENGINE,), ())).lines())
    stall = only(found[1].valleys, server=OTHER_URL)
    assert (stall.kind, stall.devices) == ("progress", ())
    for window in (None, (LOW - 1.0, BACK + 1.0)):
        rows = [row for row in built(found, window)["ledger"] if row["cause"] == stall.verdict.cause]
        assert OTHER_URL in {row["device"] for row in rows if row["valleys"]}
        assert URL not in {row["device"] for row in rows}


def test_that_one_server_of_a_device_has_no_request_is_a_guess_where_another_one_works_there_too() -> None:
    apart = only(analyse(two().lines())[1].valleys, devices=("GPU-a",)).verdict
    assert (apart.cause, apart.confidence) == ("no_demand", "high")
    assert NEIGHBOURS not in apart.unseen
    stream = two(gpus=((ENGINE, OTHER_ENGINE), ()))
    valleys = analyse(stream.lines())[1].valleys
    shared = only(valleys, kind="utilisation", devices=("GPU-a",)).verdict
    assert (shared.cause, shared.confidence, shared.doubt) == ("no_demand", "low", NEIGHBOURS)
    stall = only(valleys, kind="progress").verdict
    assert (stall.cause, stall.confidence) == ("host_starvation", "medium")
    assert stall.unseen[0] == NEIGHBOURS


@pytest.mark.parametrize(("lost", "says"), [((OTHER_METRICS,), False), ((METRICS, OTHER_METRICS), True)])
def test_one_that_does_not_answer_takes_the_sentence_only_where_no_other_does(lost: Sequence[str], says: bool) -> None:
    stream = two()
    for source in lost:
        stream.health(END - 1.0, source, "failing", f"{source} does not answer.")
    timeline = Timeline(classify)
    analyst = Analyst(timeline)
    for line in stream.lines():
        timeline.apply(line)
        analyst.apply(line)
    said = analyst.assessment.sentence
    assert ("does not answer" in said) is says
    assert said.startswith("127.0.0.1:800") is not says
