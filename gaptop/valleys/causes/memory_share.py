"""How much of the progress lost a full KV cache cost, and how much the slower steps with new prompts in them."""

from __future__ import annotations

from math import log
from typing import Final, NamedTuple

from gaptop.valleys.causes.pace import prompts_explain, step_times
from gaptop.valleys.causes.rule import KV_TIGHT, SOME
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.model import Fact

HALF: Final = 0.5
"""From here on the full cache is the main cause, as far as can be told..."""

CLEARLY: Final = 2 / 3
"""...and from here on it cost twice what the rest did."""

SURE: Final = 0.9
"""Under this it is no sure verdict: how many tokens are computed again is an estimate."""

BARE: Final = 0.2
"""Of a usual step at least, its decoding takes: what two operating points say of it is rough."""


class Share(NamedTuple):
    """The full cache's share of the progress lost, in 0..1, as two readings bound it; ``again``: some was computed
    again."""

    least: float
    most: float
    again: bool

    @property
    def middle(self) -> float:
        """What decides."""
        return (self.least + self.most) / 2.0


def memory_share(evidence: Evidence) -> Share | None:
    """The full cache's share, the rest being the new prompts'; None where the cache is not full with somebody waiting
    for it, where the prompts explain no slower steps, or where it was not all seen."""
    kv, waiting = evidence.kv, evidence.waiting
    if kv is None or kv.high < KV_TIGHT or prompts_explain(evidence) is False:
        return None
    queue = waiting is not None and waiting.mean >= SOME
    return share_of_loss(evidence) if queue or (evidence.preemptions or 0.0) > 0.0 else None


def share_of_loss(evidence: Evidence) -> Share | None:
    """What the smaller batch cost, and what was computed again, of all progress lost.

    Progress is batch times pace, so that losses add up as logarithms. The pace is taken against the usual steps, and
    against steps without any prompt: a token takes its time whatever the step, so that two operating points, the usual
    one and this, tell what decoding takes, if roughly. None without either of them, or where nobody knows what
    preempted requests computed again.
    """
    running, new, usual_new = evidence.running, evidence.prompt_flow, evidence.prompt_before
    again, times = evidence.recomputed_flow, step_times(evidence)
    if again is None and evidence.preemptions == 0.0:
        again = 0.0
    if new is None or usual_new is None or again is None or times is None:
        return None
    if running is None or not running.before or not running.mean:
        return None
    usual, now = times
    batch = -log(min(1.0, running.mean / running.before))
    mix = again / (again + new) if again + new > 0.0 else 0.0
    decoding = _decoding(usual, now, usual_new * usual, (new + again) * now)
    paces = [-log(min(1.0, least / now)) for least in (usual, decoding)]
    shares = [(batch + pace * mix) / (batch + pace) for pace in paces if batch + pace > 0.0]
    return Share(min(shares), max(shares), again > 0.0) if shares else None


def _decoding(usual: float, now: float, usual_tokens: float, tokens: float) -> float:
    """Seconds of a usual step without the prompt tokens in it."""
    if now <= usual or tokens <= usual_tokens:
        return usual
    token = (now - usual) / (tokens - usual_tokens)
    return max(usual - token * usual_tokens, BARE * usual)


def share_fact(share: Share) -> Fact:
    """That share in words."""
    least, most = f"{share.least:.0%}", f"{share.most:.0%}"
    part = most if least == most else f"{least} to {most}"
    how = "by a smaller batch, and by computing again" if share.again else "by a smaller batch"
    says = f"the full cache cost about {part} of the progress lost, {how}"
    return Fact("sched.running", round(share.middle, 2), "ratio", says)
