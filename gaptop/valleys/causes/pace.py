"""How long steps take, and whether the prompts in them explain why they take longer."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.evidence import STANDSTILL, Evidence

MOST: Final = 0.75
"""Share of the usual steps' time, at most, that a server spends on prompts: what would need more is no explanation."""


NEVER_PREEMPT: Final = frozenset({"llamacpp"})
"""Engines that hold a request's memory until it ends, so that nothing is ever computed again."""


def step_times(evidence: Evidence) -> tuple[float, float] | None:
    """Seconds of a usual step and of one now; without a counter of steps those between two tokens of one request."""
    running = evidence.running
    now, before = evidence.step_rate, evidence.step_before
    if now is None or not before:
        if running is None or not running.mean or not running.before:
            return None
        now, before = evidence.decode_rate, evidence.decode_before
        if now is None or not before:
            return None
        now, before = now / running.mean, before / running.before
    return 1.0 / before, 1.0 / max(now, STANDSTILL * before)


def prompts_explain(evidence: Evidence) -> bool | None:
    """Whether the prompt tokens that came make steps as slow as these; None where that was not all seen.

    Tokens take their time whatever the step, and decoding has what they leave: with ``more`` times the usual tokens,
    steps at ``pace`` (1 is usual) follow where prompts usually take a share ``(1 - pace) / (more - pace)`` of the time.
    As many as ever explain nothing, however few steps they are spread over: arrivals go on while something else slows
    the steps, and each then holds more. And fewer than are usually decoded take little: one token of a prompt takes no
    longer than one that is decoded.
    """
    flow, before, again = evidence.prompt_flow, evidence.prompt_before, evidence.recomputed_flow
    times = step_times(evidence)
    if again is None and (evidence.preemptions == 0.0 or evidence.engine in NEVER_PREEMPT):
        again = 0.0
    if flow is None or not before or times is None or again is None:
        return None
    pace, came = times[0] / times[1], flow + again
    if pace >= 1.0:
        return True
    more = came / before
    return came >= (evidence.decode_before or 0.0) and more > pace and (1.0 - pace) / (more - pace) <= MOST
