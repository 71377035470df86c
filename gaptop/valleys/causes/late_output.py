"""Tokens that the engine has made and the front end has not passed on: its event loop was blocked meanwhile."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.demand import NAMES, SCRAPE_SLOW, front_unseen
from gaptop.valleys.causes.rule import LIKELY, SLOW, gauge_fact
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import FrontView
from gaptop.valleys.model import Fact, Finding
from gaptop.valleys.remedy import Remedy

BLOCKED: Final = 0.8
"""A front-end thread at work for this share of the time."""

NO_ANSWER: Final = 0.5
"""It answered no scrape for this share of the time: servers count their tokens where they pass them on."""


def late_output(evidence: Evidence, front: FrontView) -> Finding | None:
    """A blocked front end holds up what is made as well as what is asked: no token comes out of an engine at work."""
    progress, slow = evidence.progress_ratio, evidence.scrape_latency
    if progress is None or progress >= SLOW or front.busy is None or front.busy < BLOCKED or slow is None:
        return None
    if slow < max(SCRAPE_SLOW, NO_ANSWER * evidence.length, 5 * (evidence.scrape_before or 0.0)):
        return None
    activity = front.activity if front.activity not in ("", "other") else ""
    detail = NAMES.get(activity, "front end")
    detail = detail if detail.startswith("front end") else f"front end ({activity})"
    says = f"front-end thread {front.name or '?'} worked {front.busy:.0%} of the time ({activity or 'on CPU'})"
    facts = (
        Fact("host.thread_activity", round(front.busy, 4), "ratio", says),
        Fact("latency.scrape", round(slow, 4), "seconds", f"the front end took {slow:.2f} s to answer a scrape"),
        *gauge_fact("sched.running", evidence.running, "running"),
    )
    unseen = front_unseen(evidence, front)
    return Finding("host_starvation", LIKELY, detail, facts, unseen=unseen, remedy=Remedy.FRONT_END)
