"""Ranks that come late to a step: which of them it was and what it did, or that nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.evidence import Evidence, RankView, RankViews, ThreadView
from gaptop.valleys.gather_ranks import ranks
from gaptop.valleys.model import Finding, Verdict
from gaptop.valleys.scope import scopes
from gaptop.valleys.verdict import judge

from .case_streams import does
from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Stream, classify, only, stairs, valleys_of

Does = Callable[[float], str]
GC = does("gc", "device_sync")
WAITS = does("collective", "device_sync")
NAME = "VLLM::Worker_TP{}"


def seen(*threads: Does, names: str = NAME) -> RankViews:
    """What is gathered of ranks that do so between LOW and BACK."""
    stream = Stream(END).metrics(server())
    for rank, did in enumerate(threads):
        stream.stacks(300 + rank, "worker", did, name=names.format(rank))
    timeline = Timeline(classify)
    for line in stream.lines():
        timeline.apply(line)
    return ranks(timeline, scopes(timeline)[0], LOW, BACK)


def late(found: RankViews) -> dict[str, tuple[float, str]]:
    return {item.name: (round(item.late or 0.0, 2), item.doing) for item in found.ranks if item.late}


# What is gathered.


@pytest.mark.parametrize("work", ["gc", "prepare_batch", "log", "sample"])
def test_the_rank_that_works_while_its_peers_wait_is_late(work: str) -> None:
    found = seen(WAITS, WAITS, does(work), does("device_sync"))
    assert (found.total, found.stacks, found.skewed) == (4, 4, 1.0)
    assert late(found) == {"rank 2 (pid 302)": (1.0, work)}


@pytest.mark.parametrize("waits", ["collective", "device_sync", "idle", "poll", "copy"])
def test_peers_wait_in_many_ways(waits: str) -> None:
    assert late(seen(GC, does(waits))) == {"rank 0 (pid 300)": (1.0, "gc")}


@pytest.mark.parametrize(
    "threads",
    [
        (GC, GC),
        (GC, GC, WAITS),
        (WAITS, WAITS),
        (does("compile"), WAITS),
        (does("load"), WAITS),
        (GC, does("compile")),
        (GC,),
    ],
)
def test_ranks_of_which_most_do_the_same_or_one_compiles_are_not_late(threads: tuple[Does, ...]) -> None:
    assert not late(seen(*threads))


def test_two_of_four_are_both_late() -> None:
    found = seen(GC, WAITS, GC, WAITS)
    assert late(found) == {"rank 0 (pid 300)": (1.0, "gc"), "rank 2 (pid 302)": (1.0, "gc")}


def test_ranks_that_take_turns_at_being_late_are_late_in_turn() -> None:
    turns = [does("gc", span=(LOW + 0.5 * turn, LOW + 0.5 * turn + 0.5)) for turn in range(4)]
    found = seen(*[lambda t, mine=mine: mine(t) if t < LOW + 2 else GC(t) for mine in turns[:1]], *turns[1:])
    assert found.skewed == pytest.approx(1.0, abs=0.1)
    assert {item.name: round(item.late or 0.0, 1) for item in found.ranks} == {
        "rank 0 (pid 300)": 0.5,
        "rank 1 (pid 301)": 0.2,
        "rank 2 (pid 302)": 0.2,
        "rank 3 (pid 303)": 0.2,
    }


def test_work_that_all_share_is_no_skew_however_it_is_sampled() -> None:
    # Each rank is sampled at its own moments of the same steps: half of the time work, half of it waiting.
    def half(phase: int) -> Does:
        return lambda t: "prepare_batch" if int(t * 20 + phase) % 2 else "device_sync"

    assert (seen(half(0), half(1)).skewed or 0.0) < 0.5


def test_stages_of_a_pipeline_wait_for_one_another_by_design() -> None:
    assert seen(GC, WAITS, names="VLLM::Worker_PP{}_TP0") == RankViews()


def test_the_first_scheduler_of_sglang_is_a_rank_too() -> None:
    stream = Stream(END).metrics(server()).stacks(ENGINE, "engine", GC, name="sglang::scheduler_TP0")
    stream.stacks(301, "worker", WAITS, name="sglang::scheduler_TP1")
    timeline = Timeline(classify)
    for line in stream.lines():
        timeline.apply(line)
    found = ranks(timeline, scopes(timeline)[0], LOW, BACK)
    assert (late(found), found.led) == ({"rank 0 (pid 200)": (1.0, "gc")}, False)


def test_a_rank_without_stacks_has_its_wait_for_a_core() -> None:
    stream = Stream(END).metrics(server())
    for rank, wants in enumerate((0.8, 0.0)):
        curve = stairs((0, wants))
        stream.states(300 + rank, "worker", stairs((0, 0.1)), wants=curve, name=NAME.format(rank))
    timeline = Timeline(classify)
    for line in stream.lines():
        timeline.apply(line)
    found = ranks(timeline, scopes(timeline)[0], LOW, BACK)
    assert (found.stacks, found.skewed) == (0, None)
    assert [item.wants_cpu for item in found.ranks] == [pytest.approx(0.8), pytest.approx(0.0)]


@pytest.mark.parametrize(("on_cpu", "late_one"), [(0.05, True), (0.9, False), (None, False)])
def test_a_peer_asleep_in_unknown_code_waits_and_one_on_a_core_works(on_cpu: float | None, late_one: bool) -> None:
    stream = Stream(END).metrics(server())
    for number, did in enumerate((GC, does("other"))):
        stream.stacks(300 + number, "worker", did, name=NAME.format(number))
    if on_cpu is not None:
        stream.states(301, "worker", stairs((0, on_cpu)), name=NAME.format(1))
    timeline = Timeline(classify)
    for line in stream.lines():
        timeline.apply(line)
    found = ranks(timeline, scopes(timeline)[0], LOW, BACK)
    assert late(found) == ({"rank 0 (pid 300)": (1.0, "gc")} if late_one else {})


# What is said of it.


def rank(number: int, share: float | None = 0.0, doing: str = "", **more: Any) -> RankView:
    return RankView(f"rank {number}", share, doing if share else "", **more)


def evidence(
    *views: RankView, skewed: float | None = 1.0, total: int = 0, stacks: int | None = None, **more: Any
) -> Evidence:
    known = RankViews(total or len(views), len(views) if stacks is None else stacks, skewed, True, views)
    asked: dict[str, Any] = {"busy": 0.5, "busy_level": 1.0, "devices": len(views), "decode_rate": 0.0}
    asked |= {"decode_before": 800.0, "power_ratio": 0.4, "ranks": known, **more}
    return Evidence("progress", "vllm", 0.0, 3.0, **asked)


def of(cause: str, seen_by: Evidence) -> Finding:
    (found,) = (item for item in judge(seen_by) if item.cause == cause)
    return found


@pytest.mark.parametrize(
    ("views", "detail"),
    [
        ((rank(0), rank(3, 0.98, "gc")), "straggler: rank 3 is late: GC"),
        ((rank(0), rank(1, 0.9, "prepare_batch")), "straggler: rank 1 is late: batch preparation"),
        ((rank(0, 1.0, "log"), rank(1), rank(2, 1.0, "log"), rank(3)), "straggler: rank 0, rank 2 are late: logging"),
        ((rank(0, 0.5, "gc"), rank(1, 0.3, "gc"), rank(2)), "straggler: no fixed rank is late: GC"),
        (
            (rank(0), rank(1, 1.0, "other", strange="spy (a.py)")),
            "straggler: rank 1 is late: unrecognised code: spy (a.py)",
        ),
        ((rank(0), rank(1, wants_cpu=0.9), rank(2, wants_cpu=0.05)), "straggler: rank 1 is late: waits for a core"),
    ],
)
def test_the_detail_names_the_late_rank_and_what_it_does(views: tuple[RankView, ...], detail: str) -> None:
    skewed = 0.8 if "fixed" in detail else 0.0 if "core" in detail else 1.0
    known = evidence(*views, skewed=skewed)
    found = judge(known)[0]
    assert (found.cause, found.detail) == ("synchronisation", detail)
    assert of("host_starvation", known).score == 0.0
    assert of("host_starvation", known).against[0].startswith(f"only some of the {len(views)} ranks: rank ")


@pytest.mark.parametrize(
    ("wants", "late_one"),
    [((0.9, 0.05), True), ((0.9, 0.2), False), ((0.9, None), False), ((0.9, 0.9, 0.0), False), ((0.9, 0.0, 0.0), True)],
)
def test_a_rank_waits_for_a_core_alone_or_all_do(wants: tuple[float | None, ...], late_one: bool) -> None:
    views = tuple(rank(number, None, wants_cpu=share) for number, share in enumerate(wants))
    threads = tuple(ThreadView("worker", "w", True, on_cpu=0.1, wants_cpu=share) for share in wants)
    known = evidence(*views, skewed=None, stacks=0, threads=threads, states_seen=True)
    best = judge(known)[0]
    assert best.cause == ("synchronisation" if late_one else "host_starvation")
    assert not late_one or any("stacks not seen" in text for text in best.unseen)


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"busy": 1.0}, 0.3),
        ({"busy": None}, 0.7),
        ({"decode_rate": 760.0}, 0.3),
        ({}, 1.0),
    ],
)
def test_a_rank_that_works_beside_busy_devices_holds_nobody_up(more: dict[str, Any], most: float) -> None:
    assert of("synchronisation", evidence(rank(0), rank(1, 1.0, "gc"), **more)).score <= most
    assert (of("synchronisation", evidence(rank(0), rank(1, 1.0, "gc"), **more)).score > 0.8) == (most == 1.0)


def test_a_rank_whose_own_device_works_is_not_late() -> None:
    assert of("synchronisation", evidence(rank(0), rank(1, 1.0, "gc", busy=0.95))).score < 0.3
    assert of("synchronisation", evidence(rank(0), rank(1, 1.0, "gc", busy=0.1))).score > 0.8


def test_an_engine_that_works_holds_all_ranks_up() -> None:
    threads = (ThreadView("engine", "e", True, {"schedule": 0.9, "worker_wait": 0.1}),)
    known = evidence(rank(0), rank(1, 1.0, "idle"), busy=0.0, threads=threads, stacks_seen=True)
    assert judge(known)[0].cause == "host_starvation"


def test_a_peer_that_was_not_seen_may_be_late_as_well() -> None:
    found = of("synchronisation", evidence(rank(0), rank(1, 1.0, "gc"), total=4))
    assert found.unseen == ("2 of 4 ranks not seen: one of them may be late",)


# Whole valleys.


def ranked(*threads: Does | None, spins: bool = True, stacks_of_engine: bool = True) -> Stream:
    """A server of several ranks; the last one's device idles, and its peers' spin (or idle as well)."""
    stream, last = Stream(END), len(threads) - 1
    pids = (API, ENGINE, *(300 + number for number in range(len(threads))))
    for number in range(len(threads)):
        busy = quiet_between(1.0) if number == last or not spins else stairs((0, 1.0))
        stream.device(busy, source=f"nvml/GPU-{number}", pids=(300 + number,), power=quiet_between(300.0, 90.0))
    stream.metrics(server(**stopped_progress()), pids=pids).stacks(API, "api", lambda t: "idle")
    if stacks_of_engine:
        stream.stacks(ENGINE, "engine", engine("worker_wait", "worker_wait"))
    for number, did in enumerate(threads):
        if did is not None:
            stream.stacks(300 + number, "worker", did, name=NAME.format(number))
    return stream


def verdict(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


@pytest.mark.parametrize("spins", [True, False])
def test_a_straggler_is_told_with_its_remedy_and_where_to_look(spins: bool) -> None:
    said = verdict(ranked(WAITS, GC, spins=spins))
    assert (said.cause, said.confidence) == ("synchronisation", "high")
    assert said.detail == "straggler: rank 1 (pid 301) is late: GC"
    assert (
        said.evidence[0].says
        == "rank 1 (pid 301) was at its host work (GC) 100% of the time while the others waited for it"
    )
    assert "gc.freeze()" in said.advice or "garbage" in said.advice
    assert said.advice.endswith("Look at that rank, not at the network: its peers only wait for it.")
    assert any(fact.says.startswith("meanwhile the other ranks waited") for fact in said.evidence)
    assert {part.cause for part in said.segments} == {"synchronisation"}


@pytest.mark.parametrize(
    ("stream", "cause", "detail", "unseen"),
    [
        (ranked(None, None), "synchronisation", "collective: this rank idles while the others spin", "worker"),
        (ranked(None, None, spins=False), "unknown", "", "the worker's threads not seen"),
        (ranked(None, None, spins=False, stacks_of_engine=False), "unknown", "", ""),
        (
            ranked(WAITS, None, GC),
            "synchronisation",
            "straggler: rank 2 (pid 302) is late: GC",
            "1 of 3 ranks not seen",
        ),
        (
            ranked(WAITS, None, spins=False),
            "synchronisation",
            "collective: a rank is waited for",
            "1 of 2 ranks not seen",
        ),
    ],
)
def test_less_of_the_ranks_says_less(stream: Stream, cause: str, detail: str, unseen: str) -> None:
    said = verdict(stream)
    assert (said.cause, said.detail) == (cause, detail or said.detail)
    assert any(unseen in text for text in said.unseen) or not unseen
    assert said.confidence != "high"


@pytest.mark.parametrize("work", ["gc", "prepare_batch"])
def test_work_of_all_ranks_is_the_hosts(work: str) -> None:
    said = verdict(ranked(does(work), does(work), spins=False))
    assert said.cause == "host_starvation"


def test_a_late_rank_that_compiles_is_compiling() -> None:
    assert verdict(ranked(WAITS, does("compile"))).cause == "compiling"
