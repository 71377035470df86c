"""The dependency chain of a valley: eight links, each fine, blocked or not seen, with the number that says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gaptop.valleys.causes.rule import FEW, KV_FULL, SOME, WORKER_UNSEEN, quiet
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import BUSY, critical, front_end
from gaptop.valleys.model import LINKS, Cause, Finding, Link, LinkState
from gaptop.valleys.remedy import Remedy

_BLOCKS: Final[dict[Cause, str]] = {
    "no_demand": "arrivals",
    "admission_stall": "admission",
    "prefill_interference": "step preparation",
    "cache_pressure": "KV blocks",
    "host_starvation": "step preparation",
    "synchronisation": "launch and sync",
    "external_wait": "step preparation",
    "compiling": "launch and sync",
    "device_limit": "device",
    "stalled_busy": "device",
}


_BY_REMEDY: Final[dict[tuple[Cause, Remedy], str]] = {
    ("host_starvation", Remedy.FRONT_END): "front end",
    ("host_starvation", Remedy.FRONT_STOPPED): "front end",
    ("external_wait", Remedy.DEFERRED): "queue",
}
"""Where the sub-cause names another link than its cause does."""


def blocked_link(finding: Finding) -> str | None:
    """The link that this cause names as the one that holds the others up."""
    return _BY_REMEDY.get((finding.cause, finding.remedy)) or _BLOCKS.get(finding.cause)


def chain(evidence: Evidence, finding: Finding) -> tuple[Link, ...]:
    """All links in order. The verdict's own link is blocked, and none before it: what was seen of those did not hold
    the others up."""
    blocked = blocked_link(finding)
    made = (
        _arrivals(evidence),
        _front(evidence),
        _queue(evidence),
        _admission(evidence),
        _kv(evidence),
        _preparation(evidence),
        _launch(evidence),
        _device(evidence),
    )
    assert tuple(link.link for link in made) == LINKS
    if blocked is None:
        return made
    at = LINKS.index(blocked)
    before = (replace(link, state="fine") if link.state == "blocked" else link for link in made[:at])
    own = Link(blocked, "blocked", made[at].signal, made[at].value, finding.detail or made[at].says)
    return (*before, own, *made[at + 1 :])


def _state(blocked: bool) -> LinkState:
    return "blocked" if blocked else "fine"


def _arrivals(evidence: Evidence) -> Link:
    demand = evidence.demand
    if demand is None:
        return Link("arrivals", "not_seen", "sched.running", None, "requests not seen")
    return Link("arrivals", "fine", "sched.running", round(demand, 3), f"{demand:.1f} requests in the engine")


def _front(evidence: Evidence) -> Link:
    front = front_end(evidence)
    if front.busy is None:
        return Link("front end", "not_seen", "host.thread_activity", None, "front-end threads not seen")
    empty = evidence.waiting is not None and evidence.waiting.mean <= FEW
    says = f"busiest thread {front.busy:.0%}" + (f" ({front.activity})" if front.activity else "")
    return Link(
        "front end",
        _state(front.busy >= BUSY and empty and quiet(evidence) is True),
        "host.thread_activity",
        round(front.busy, 4),
        says,
    )


def _queue(evidence: Evidence) -> Link:
    if evidence.waiting is None:
        return Link("queue", "not_seen", "sched.waiting", None, "waiting requests not seen")
    deferred = 0.0 if evidence.deferred is None else evidence.deferred.mean
    says = f"{evidence.waiting.mean:.1f} waiting" + (f", {deferred:.1f} of them deferred" if deferred >= SOME else "")
    says += f" ({evidence.waiting_why})" if evidence.waiting_why else ""
    return Link("queue", "fine", "sched.waiting", round(evidence.waiting.mean, 3), says)


def _admission(evidence: Evidence) -> Link:
    if evidence.running is None or evidence.waiting is None:
        return Link("admission", "not_seen", "sched.running", None, "running requests not seen")
    limit = "limit not seen" if evidence.limit is None else f"of {evidence.limit:.0f}"
    says = f"{evidence.running.mean:.1f} running, {limit}"
    return Link("admission", "fine", "sched.running", round(evidence.running.mean, 3), says)


def _kv(evidence: Evidence) -> Link:
    if evidence.kv is None:
        return Link("KV blocks", "not_seen", "kv.used", None, "KV use not seen")
    full = evidence.kv.high >= KV_FULL and evidence.waiting is not None and evidence.waiting.mean >= SOME
    return Link("KV blocks", _state(full), "kv.used", round(evidence.kv.high, 4), f"up to {evidence.kv.high:.0%} used")


def _preparation(evidence: Evidence) -> Link:
    main = critical(evidence)
    if main.work is None:
        return Link("step preparation", "not_seen", "host.thread_activity", None, "critical thread not seen")
    says = f"host work {main.work:.0%} of the critical thread"
    if main.worker_unseen:
        return Link("step preparation", "not_seen", "host.thread_activity", None, WORKER_UNSEEN)
    return Link("step preparation", "fine", "host.thread_activity", round(main.work, 4), says)


def _launch(evidence: Evidence) -> Link:
    main = critical(evidence)
    if main.sync is None:
        return Link("launch and sync", "not_seen", "host.thread_activity", None, "critical thread not seen")
    says = f"sync, copy and collectives {main.sync:.0%} of the critical thread"
    return Link("launch and sync", "fine", "host.thread_activity", round(main.sync, 4), says)


def _device(evidence: Evidence) -> Link:
    if evidence.busy is None:
        return Link("device", "not_seen", "device.busy", None, "device not seen")
    says = "idle, waits for the links before it" if evidence.device_idle else f"busy {evidence.busy:.0%}"
    return Link("device", "fine", "device.busy", round(evidence.busy, 4), says)
