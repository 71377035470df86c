"""A real vLLM whose host is held up: what gaptop says of it must be what the drive did to it.

The device is the time that forward passes were computed in (forward.py): on a CPU the engine's thread is host and
device at once, and only the server itself can tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from gaptop.timeline.types import SeriesId
from tests.real import servers
from tests.real.conftest import installed
from tests.real.host_vllm import Beside, beside

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SILENCES = [f"silence {number}" for number in range(1, 9)]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    installed(servers.VLLM)
    with beside(tmp_path_factory.mktemp("vllm-host")) as found:
        yield found


def most(seconds: Mapping[str, float]) -> str:
    """The cause that most of the time went to."""
    return max(seconds, key=lambda cause: seconds[cause], default="")


def test_the_engines_critical_thread_is_found_and_its_time_adds_up(held: Beside) -> None:
    entity = held.timeline.sources[f"threads/{held.engine}"].info.entity
    assert entity["role"] == "engine"
    assert entity["critical_tid"] == held.engine
    shares = held.main("steady")
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.1)
    # On the CPU the forward pass itself runs in this thread, so launching is most of what it does.
    assert shares["launch"] > 0.4
    work = {"launch", "schedule", "prepare_batch", "sample", "copy", "device_sync", "serialize"}
    assert sum(share for activity, share in shares.items() if activity in work) > 0.8


def test_rules_name_nine_tenths_of_what_the_threads_did(held: Beside) -> None:
    coverage = held.report["coverage"]
    assert coverage["matched_ratio"] >= 0.9
    assert coverage["critical_matched_ratio"] >= 0.9


@pytest.mark.parametrize("silence", SILENCES)
def test_an_idle_engine_never_reads_as_a_busy_host(held: Beside, silence: str) -> None:
    start, end = held.span(silence)
    shares = held.shares(held.engine, start, end)[held.engine]
    assert shares.get("await_requests", 0.0) > 0.9
    # By the time: a slice at the edge of a silence holds a part of what was before or after it.
    assert most(held.causes(start, end)) == "no_demand"
    parts = [part for valley in held.report["valleys"] for part in valley["segments"]]
    wholly = {part["cause"] for part in parts if start <= part["start_s"] and part["end_s"] <= end}
    assert wholly <= {"no_demand"}
    ran = held.timeline.mean(SeriesId(f"proc/{held.engine}", f"host.oncpu{{tid={held.engine}}}"), start, end)
    assert ran is not None
    assert ran < 0.1


def test_long_texts_are_a_front_end_that_tokenises(held: Beside) -> None:
    start, end = held.span("tokenize")
    threads = held.shares(held.api, start, end)
    assert max(shares.get("tokenize", 0.0) for shares in threads.values()) > 0.4
    seconds = held.causes(start, end)
    assert most(seconds) == "host_starvation"
    assert seconds["host_starvation"] > 0.6 * (end - start)
    own = [item["detail"] for item in held.own(start, end) if item["cause"] == "host_starvation"]
    assert not own or "front end (tokenise)" in own


def test_schemas_that_nobody_has_seen_are_grammars_that_requests_wait_for(held: Beside) -> None:
    start, end = held.span("grammar")
    threads = held.shares(held.engine, start, end)
    beside_it = [shares.get("grammar", 0.0) for tid, shares in threads.items() if tid != held.engine]
    assert max(beside_it) > 0.5
    # The masks of the tokens that a grammar allows are made in the engine's own thread.
    assert threads[held.engine].get("grammar", 0.0) > 0.0
    assert most(held.causes(start, end)) == "host_starvation"
    assert held.causes(start, end).get("external_wait", 0.0) < 0.1 * (end - start)
    own = [(item["cause"], item["detail"]) for item in held.own(start, end)]
    assert not own or ("host_starvation", "grammar") in own


def test_penalties_show_as_sampling(held: Beside) -> None:
    plain, penalised = held.main("steady").get("sample", 0.0), held.main("penalties").get("sample", 0.0)
    assert penalised > 2 * plain
    assert penalised > plain + 0.03


def test_other_work_on_the_engines_core_is_cpu_contention(held: Beside) -> None:
    start, end = held.span("burners")
    wanted = held.timeline.mean(SeriesId(f"proc/{held.engine}", f"host.runqueue_wait{{tid={held.engine}}}"), start, end)
    assert wanted is not None
    assert wanted == pytest.approx(held.waited, abs=0.1)
    if held.waited < 0.4:
        pytest.skip(f"the kernel gave the engine its core all the same: it waited {held.waited:.0%} of the time")
    seconds = held.causes(start, end)
    assert most(seconds) == "host_starvation"
    assert seconds["host_starvation"] > 0.7 * (end - start)
    kept = [item for item in held.overlapping(start, end) if item["detail"] in ("CPU contention", "CPU affinity")]
    assert kept
    evidence = {fact["signal"]: fact["value"] for item in kept for fact in item["evidence"]}
    assert evidence["host.runqueue_wait"] > 0.3


def test_collecting_garbage_in_each_step_is_host_starvation_and_the_caller_is_named(held: Beside) -> None:
    start, end = held.span("garbage")
    took = held.functions(start, end)
    assert max(took, key=lambda name: took[name]) == "collect"
    assert most(held.causes(start, end)) == "host_starvation"
    # CPython's collector runs in C: without somebody who watches it no frame says that it is garbage collection.
    assert "gc" not in held.main("garbage")
    assert held.main("watched garbage").get("gc", 0.0) > 0.01
    assert most(held.causes(*held.span("watched garbage"))) == "host_starvation"


def test_a_stall_that_compiles_is_one_valley_and_the_compilers_frames_prove_it(held: Beside) -> None:
    phase = held.drive.phase("compiling")
    start, end = phase.start - held.began, phase.end - held.began
    assert end - start > 3.0
    (valley,) = [item for item in held.report["valleys"] if item["cause"] == "compiling"]
    assert min(valley["end_s"] or held.last, end) - max(valley["start_s"], start) > 0.8 * (end - start)
    seconds = held.causes(start, end)
    assert seconds["compiling"] > 0.8 * (end - start)
    assert sum(seconds.values()) < 1.2 * (end - start), "a second valley beside it"
    signals = {fact["signal"] for fact in valley["evidence"]}
    assert {"host.compilers", "host.thread_activity"} <= signals
    frames = [frame["file"] for thread in valley["stacks"] for path in thread["paths"] for frame in path["frames"]]
    assert any("torch/_inductor/" in file or "torch/_dynamo/" in file for file in frames)
