"""Many cases at once, each in one of a few processes; the score does not depend on how many there are."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from gaptop.lab.live.prctl import die_with_parent
from gaptop.lab.score.cases import case, without
from gaptop.lab.score.run import run
from gaptop.lab.score.tally import CaseScore

FULL: Final = ""
"""The name of a case with all its sources."""

Done = dict[str, CaseScore]
"""One seed: the score with full evidence, and with each source taken away."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A case in which the simulation or the analysis failed: it has no score, and hides none of the others."""

    seed: int
    error: str


def work(task: tuple[int, Sequence[str]]) -> Done | Broken:
    """One seed, with full evidence and without each of the named sources."""
    seed, names = task
    try:
        whole = case(seed)
        found = {FULL: run(whole).score}
        for name in names:
            found[name] = run(whole, without(whole.view, name)).score
    except Exception as error:
        return Broken(seed, f"{type(error).__name__}: {error}")
    return found


def score_all(
    seeds: Sequence[int], names: Sequence[str], some: int, jobs: int, said: Callable[[int], None] = lambda done: None
) -> list[Done | Broken]:
    """Scores in the order of the seeds; the first ``some`` of them also without each of the named sources. ``said`` is
    told how many are done."""
    tasks = [(seed, tuple(names) if index < some else ()) for index, seed in enumerate(seeds)]
    results: list[Done | Broken] = []
    if jobs <= 1:
        for task in tasks:
            results.append(work(task))
            said(len(results))
        return results
    # Spawned: a forked child would inherit whatever threads and locks the caller has.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, die_with_parent, (os.getpid(), signal.SIGKILL)) as pool:
        try:
            for done in pool.map(work, tasks):
                results.append(done)
                said(len(results))
        except BaseException:
            # Interrupted: neither what waits nor what is being worked on is wanted any more.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise
    return results
