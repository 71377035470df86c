"""The dependency chain: its first blocked link is the verdict's own."""

from __future__ import annotations

import pytest

from gaptop.valleys.chain import blocked_link, chain
from gaptop.valleys.evidence import Evidence, Gauge, ThreadView
from gaptop.valleys.model import CAUSE_NAMES, LINKS, Cause, Finding
from gaptop.valleys.remedy import Remedy
from gaptop.valleys.verdict import judge, verdict


def gauge(value: float, high: float | None = None) -> Gauge:
    return Gauge(value, value, value if high is None else high, value, value, value)


FULL = Evidence(
    "utilisation",
    "vllm",
    10.0,
    13.0,
    busy=0.0,
    busy_level=1.0,
    running=gauge(0.0),
    waiting=gauge(0.0),
    kv=gauge(0.99),
    threads=(ThreadView("api", "api", False, activities={"tokenize": 1.0}),),
)
"""A busy front end before an empty queue, and a full cache: each looks blocked by itself."""


def states(evidence: Evidence, finding: Finding) -> list[str]:
    return [link.link for link in chain(evidence, finding) if link.state == "blocked"]


@pytest.mark.parametrize("cause", sorted(set(CAUSE_NAMES) - {"unknown", "artefact"}))
def test_no_link_before_the_verdicts_own_is_blocked(cause: Cause) -> None:
    finding = Finding(cause, 0.9, "what it is")
    assert states(FULL, finding)[0] == blocked_link(finding)
    crowded = Evidence("progress", "vllm", 10.0, 13.0, running=gauge(8.0), waiting=gauge(9.0), kv=gauge(0.99))
    assert states(crowded, finding)[0] == blocked_link(finding)


def test_without_a_cause_the_chain_shows_what_looks_blocked() -> None:
    assert states(FULL, Finding("unknown", 0.4)) == ["front end"]


@pytest.mark.parametrize(
    ("more", "link"),
    [
        ({"threads": (ThreadView("engine", "engine", True, activities={"kv_transfer": 1.0}),)}, "step preparation"),
        ({"threads": (ThreadView("engine", "engine", True, on_cpu=0.0, blocked_on_disk=0.9),)}, "step preparation"),
        ({"major_faults": 900.0}, "step preparation"),
        ({"running": gauge(0.0), "waiting": gauge(6.0), "deferred": gauge(6.0), "kv": gauge(0.2)}, "queue"),
    ],
)
def test_a_wait_for_something_outside_blocks_the_step_or_the_queue(more: dict[str, object], link: str) -> None:
    seen: dict[str, object] = {"busy": 0.0, "busy_level": 1.0, "running": gauge(8.0), "waiting": gauge(0.0)}
    evidence = Evidence("utilisation", "vllm", 10.0, 13.0, **{**seen, **more})  # type: ignore[arg-type]
    assert judge(evidence)[0].cause == "external_wait"
    made = verdict(evidence, (), confirmed=True).chain
    assert [item.link for item in made if item.state == "blocked"] == [link]


def test_all_links_stand_in_order() -> None:
    made = chain(FULL, Finding("host_starvation", 0.9, "front end", remedy=Remedy.FRONT_END))
    assert tuple(link.link for link in made) == LINKS
