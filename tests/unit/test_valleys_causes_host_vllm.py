"""What recordings beside a real vLLM showed: grammars, garbage collection, tokens at edges, lower readings."""

from __future__ import annotations

from typing import Any

import pytest

from gaptop.valleys.causes.artefact import artefact
from gaptop.valleys.causes.no_demand import no_demand
from gaptop.valleys.causes.rule import LIKELY, STRONG
from gaptop.valleys.evidence import Evidence, Gauge, ThreadView
from gaptop.valleys.model import Verdict

from .valley_host import meanwhile, run_states, standstill
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import ENGINE, Stream, only, valleys_of

COMPILER = 777
DEFERRED = "sched.waiting_by_reason{reason=deferred}"


def verdict(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


def passed_over(deferred: float, running: float, share: float) -> Stream:
    """An engine that polls while requests are passed over, and a thread that compiles a share of that time."""
    waiting = {"sched__waiting": quiet_between(0, 6), DEFERRED: quiet_between(0, deferred)}
    stream = standstill("poll", sched__running=quiet_between(8, running), **waiting)

    def beside(t: float) -> str:
        return "grammar" if LOW <= t < BACK and round(t * 20 - 0.5) % 10 < 10 * share else "idle"

    return stream.stacks(ENGINE, "engine", beside, tid=COMPILER)


def test_requests_that_wait_for_their_grammars_are_host_starvation() -> None:
    # Seen beside a real vLLM: each request brings a JSON schema of its own.
    said = verdict(passed_over(deferred=5, running=1, share=1.0))
    assert (said.cause, said.detail) == ("host_starvation", "grammar")
    assert said.runner_up is not None
    assert said.runner_up[0] == "external_wait"
    assert "Reuse schemas" in said.advice
    assert "compiled grammars 100% of the time" in said.evidence[0].says


def test_a_crowded_grammar_compiler_is_still_what_the_requests_wait_for() -> None:
    stream = passed_over(deferred=5, running=0, share=1.0)
    stream = run_states(stream, ENGINE, "engine", running=meanwhile(0.5), wants=meanwhile(0.5))
    assert verdict(stream).detail == "grammar"


@pytest.mark.parametrize(
    ("deferred", "running", "share"),
    [(5, 0, 0.2), (0, 0, 1.0), (2, 6, 1.0)],
    ids=["they wait for something else", "nobody is passed over", "most requests run"],
)
def test_a_grammar_that_few_wait_for_holds_nothing_up(deferred: float, running: float, share: float) -> None:
    assert verdict(passed_over(deferred, running, share)).detail != "grammar"


def test_collections_that_somebody_watches_are_told_beside_the_frame_that_set_them_off() -> None:
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**stopped_progress()))

    def littered(t: float) -> str:
        return "gc" if round(t * 20 - 0.5) % 10 == 0 else "schedule"

    stream.stacks(ENGINE, "engine", lambda t: littered(t) if LOW <= t < BACK else "device_sync")
    said = verdict(stream)
    assert (said.cause, said.detail) == ("host_starvation", "scheduling")
    assert any(fact.says.startswith("garbage collections were told of 10%") for fact in said.evidence)


def test_an_artefact_is_an_idle_reading_and_not_a_somewhat_lower_one() -> None:
    # Beside a real vLLM: after a silence a load that kept the device at 68 %, where it had been at 95 %.
    same: dict[str, Any] = {"kind": "utilisation", "engine": "vllm", "start": 10.0, "end": 18.0, "busy_level": 0.95}
    same |= {"decode_rate": 720.0, "decode_before": 600.0}
    assert artefact(Evidence(**same, busy=0.68)).score == 0.0
    assert artefact(Evidence(**same, busy=0.05)).score >= LIKELY


def test_an_engine_that_awaits_requests_has_none_whatever_few_tokens_at_the_edges_look_like() -> None:
    # Beside a real vLLM, after long prompts at 7 tokens a second.
    none = Gauge(0.0, 0.0, 0.0, 0.0, 0.0, 2.0)
    same: dict[str, Any] = {"kind": "utilisation", "engine": "vllm", "start": 10.0, "end": 14.0, "busy": 0.07}
    same |= {"running": none, "waiting": none, "decode_rate": 30.0, "decode_before": 7.0}
    front = ThreadView("api", "front", False, {"idle": 1.0})
    awaits = ThreadView("engine", "main", True, {"await_requests": 0.9, "launch": 0.1})
    polls = ThreadView("engine", "main", True, {"poll": 0.9, "launch": 0.1})
    assert no_demand(Evidence(**same, threads=(front, awaits))).score >= STRONG
    assert no_demand(Evidence(**same, threads=(front, polls))).score == 0.0
