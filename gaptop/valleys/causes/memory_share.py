"""How much of the progress lost a full KV cache cost, and how much the slower steps with new prompts in them."""

from __future__ import annotations

from math import log
from typing import Final

from gaptop.valleys.causes.pace import prompts_explain, step_times
from gaptop.valleys.causes.rule import KV_TIGHT, SOME
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Fact

HALF: Final = 0.5
"""From here on the full cache is the main cause, as far as can be told..."""

CLEARLY: Final = 2 / 3
"""...and from here on it cost twice what the rest did."""

SURE: Final = 0.9
"""Under this it is no sure verdict: what is computed again is an estimate, and twice as much has been seen."""

BARE: Final = 0.2
"""Of a usual step at least, its decoding takes: what two operating points say of it is rough."""


def memory_share(evidence: Evidence) -> float | None:
    """The full cache's share of the progress lost, in 0..1, the rest being the new prompts'; None where the cache is
    not full with somebody waiting for it, where the prompts explain no slower steps, or where it was not all seen."""
    kv, waiting = evidence.kv, evidence.waiting
    if kv is None or kv.high < KV_TIGHT or prompts_explain(evidence) is False:
        return None
    queue = waiting is not None and waiting.mean >= SOME
    return share_of_loss(evidence) if queue or (evidence.preemptions or 0.0) > 0.0 else None


def share_of_loss(evidence: Evidence) -> float | None:
    """What the smaller batch cost, and what was computed again, of all progress lost.

    Progress is batch times pace, so that losses add up as logarithms. A step takes its decoding's time, and some for
    each prompt token in it: two operating points, the usual one and this, tell both. None without either of them, or
    where nobody knows what preempted requests computed again.
    """
    running, new, again = evidence.running, evidence.prompt_flow, evidence.recomputed_flow
    times = step_times(evidence)
    if again is None and evidence.preemptions == 0.0:
        again = 0.0
    if running is None or not running.before or not running.mean or new is None or again is None or times is None:
        return None
    usual, now = times
    then_held, now_held = (evidence.prompt_before or 0.0) * usual, (new + again) * now
    decoding = usual
    if now > usual and now_held > then_held:
        token = (now - usual) / (now_held - then_held)
        decoding = max(usual - token * then_held, BARE * usual)
    batch = -log(min(1.0, running.mean / running.before))
    pace = -log(min(1.0, decoding / now))
    if batch + pace <= 0.0:
        return None
    mix = again / (again + new) if again + new > 0.0 else 0.0
    return (batch + pace * mix) / (batch + pace)


def share_fact(share: float) -> Fact:
    """That share in words."""
    says = f"the full cache cost about {share:.0%} of the progress lost: by a smaller batch, and by computing again"
    return Fact("sched.running", round(share, 2), "ratio", says)
