"""The public cases with sources taken away: what was right never becomes something else that is said to be sure."""

from __future__ import annotations

import pytest

from .case_streams import Case, View, found
from .test_cases_rows import ROWS

VIEWS = (
    View("no stacks", stacks=False),
    View("no threads", stacks=False, states=False),
    View("no NVML", nvml=False),
    View("no power", power=False),
    View("no host", host=False),
    View("metrics alone", stacks=False, states=False, nvml=False, host=False),
    View("a scrape a second", scrape=1.0),
    View("gauges every 40 steps", refresh=("steps", 40)),
    View("gauges every 10 s", refresh=("s", 10)),
    View("gauges every 10 s, no threads", stacks=False, states=False, refresh=("s", 10)),
)
SHORT = [case for case in ROWS if case.seconds < 100.0]
NAMED = {"host_starvation", "synchronisation"}


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
@pytest.mark.parametrize("case", SHORT, ids=[case.name.partition(",")[0] for case in SHORT])
def test_less_evidence_never_makes_another_cause_sure(case: Case, view: View) -> None:
    for item in found(case, view):
        said = item.verdict
        if said.confidence == "high":
            assert said.cause in case.causes
        if said.cause in case.never:
            assert said.confidence == "low"
        if said.cause not in case.causes:
            assert said.confidence != "high"
            assert said.unseen


@pytest.mark.parametrize("case", SHORT, ids=[case.name.partition(",")[0] for case in SHORT])
def test_metrics_alone_never_guess_host_against_synchronisation(case: Case) -> None:
    """The front end is another matter: a scrape that is slow to be answered is its own trace."""
    alone = View("metrics alone", stacks=False, states=False, nvml=False, host=False)
    for item in found(case, alone):
        assert item.verdict.cause not in NAMED or item.verdict.detail.startswith("front end")


@pytest.mark.parametrize(
    ("view", "row", "cause", "sure", "unseen"),
    [
        ("no stacks", "29: the same", "unknown", "low", "connector frames"),
        ("no threads", "13: images", "unknown", "low", "front end not seen"),
        ("no threads", "44: KV", "no_demand", "medium", "whether the engine still works"),
        ("no threads", "43: aborted", "artefact", "medium", "whether the engine still works"),
        ("no threads", "34: a stall", "compiling", "medium", "compile frames"),
        ("no NVML", "40: 96 %", "stalled_busy", "low", "device not seen"),
        ("no NVML", "40: silences", "unknown", "low", "device not seen"),
        ("no power", "40: 96 %", "stalled_busy", "medium", "power not seen"),
        ("no host", "1: 6 cores", "host_starvation", "medium", "CPU quota not seen"),
        ("metrics alone", "34: a stall", "unknown", "low", "compiler processes not seen"),
        ("a scrape a second", "14: a prompt", "host_starvation", "high", ""),
        ("gauges every 40 steps", "29: the device", "host_starvation", "low", "gauges move every 0.401 s"),
        ("gauges every 10 s", "18: 0.5B", "unknown", "low", "KV use not seen: the server's gauges move every 10 s"),
        ("gauges every 10 s, no threads", "42: an idle vLLM", "unknown", "low", "threads not seen"),
    ],
)
def test_a_verdict_says_what_it_could_not_see(view: str, row: str, cause: str, sure: str, unseen: str) -> None:
    (case,) = (item for item in SHORT if item.name.startswith(row))
    (seen,) = (item for item in VIEWS if item.name == view)
    (said,) = (item.verdict for item in found(case, seen) if item.kind == case.kind or not seen.nvml)
    assert (said.cause, said.confidence) == (cause, sure)
    assert any(unseen in text for text in said.unseen) or not unseen
