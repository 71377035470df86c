"""One case as a user would get it: its stream through Timeline and Analyst, as in ``gaptop report``, and the match."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.view import View
from gaptop.lab.score.booking import booked
from gaptop.lab.score.cases import Case
from gaptop.lab.score.match import IMPORTANT, Matched, Truth, match
from gaptop.lab.score.tally import CaseScore
from gaptop.lab.score.told import devices_of, sight_of, truth_of
from gaptop.recording.lines import Line
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop_collectors.host.activities import ActivityMap, load_activities


@dataclass(frozen=True, slots=True)
class Ran:
    """A case that was run: what the report would say, what is true, and how they match."""

    case: Case
    timeline: Timeline
    assessment: Assessment
    truth: Truth
    matched: Matched
    score: CaseScore


@cache
def _rules() -> ActivityMap:
    """gaptop's own rules: a score must not depend on whose machine it is made on."""
    return load_activities()


def analyse(lines: Iterable[Line]) -> tuple[Timeline, Assessment]:
    """What ``gaptop report`` does with a recording."""
    timeline = Timeline(_rules().classify)
    analyst = Analyst(timeline)
    for line in lines:
        timeline.apply(line)
        analyst.apply(line)
    return timeline, analyst.finish()


def simulated(case: Case) -> Fast:
    """The case's simulation, not begun."""
    return Fast(case.scenario, case.seed, case.seconds, case.view)


def run(case: Case, view: View | None = None) -> Ran:
    """Simulate, analyse and match one case; ``view`` instead of its own to take sources away."""
    began = time.perf_counter()
    case = case if view is None else replace(case, view=view)
    fast = simulated(case)
    timeline, assessment = analyse(fast.lines())
    devices = devices_of(timeline)
    truth = truth_of(fast.truth.idle, fast.truth.stalls, fast.truth.slow, sight_of(case.view, case.step, case.seconds))
    matched = match(assessment.valleys, truth, devices)
    score = CaseScore(
        seed=case.seed,
        judged=matched.judged,
        sure=tuple((item.cause, said) for item, said in matched.sure),
        excused=tuple(
            (item.cause, item.excuse)
            for item in truth.stretches
            if not item.sure and item.end - item.start >= IMPORTANT
        ),
        booked=booked(timeline, assessment, truth, devices),
        seconds=time.perf_counter() - began,
    )
    return Ran(case, timeline, assessment, truth, matched, score)
