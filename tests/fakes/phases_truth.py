"""What py-spy said of a process that logs its own phases, held against that log."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from gaptop_collectors.collector import StackSpan

NAMES: Final = ("schedule", "prepare_batch", "sample")
_SCRIPT: Final = Path(__file__).with_name("phases.py")


class Phase(NamedTuple):
    """It ran surely during [first, last] and surely not outside of [before, after]; monotonic ns."""

    name: str
    before: int
    first: int
    last: int
    after: int


class PhaseTarget:
    """The process. ``end`` closes it and gives its log."""

    def __init__(self, log: Path, threads: int = 0, native: int = 0, scale: float = 1.0) -> None:
        self._log = log
        command = [sys.executable, str(_SCRIPT), str(log), str(threads), str(native), str(scale)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> list[Phase]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        return [Phase(*item) for item in json.loads(self._log.read_text())]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def phase_of(span: StackSpan) -> str | None:
    """The phase that a stack of the main thread shows; None between two phases."""
    return next((frame.function for frame in span.stack if frame.function in NAMES), None)


def shares(spans: Iterable[StackSpan], start: int, end: int) -> dict[str, float]:
    """Share of [start, end) by phase, as sampled."""
    found = dict.fromkeys(NAMES, 0)
    for span in spans:
        name = phase_of(span)
        if name is not None:
            found[name] += max(0, min(span.end_ns, end) - max(span.start_ns, start))
    return {name: spent / (end - start) for name, spent in found.items()}


def true_shares(phases: Iterable[Phase], start: int, end: int) -> dict[str, float]:
    """Share of [start, end) by phase, as logged."""
    found = dict.fromkeys(NAMES, 0)
    for phase in phases:
        found[phase.name] += max(0, min(phase.last, end) - max(phase.first, start))
    return {name: spent / (end - start) for name, spent in found.items()}


def allowed(share: float, rate: float, seconds: float, worst_of: int = 1) -> float:
    """How far a sampled share may lie from the true one: 2.6 standard errors of so many samples, and one point. One of
    100 shares lies farther; so that one of 100 *worst* ones does, ``worst_of`` shares are allowed more.

    A stack is held until the next sample, and samples come at Poisson times: with n = rate T intervals of exponential
    length, whose mean square is 2 / rate², the variance is n p (1 - p) 2 / rate² / T² = 2 p (1 - p) / n, twice that of
    n samples that count alike. Those cannot be had: a chrometrace has changes of the stack only, not its ticks.
    """
    errors = statistics.NormalDist().inv_cdf(1 - 0.01 / worst_of / 2)
    return errors * math.sqrt(2 * share * (1 - share) / (rate * seconds)) + 0.01


def first_sight(spans: Iterable[StackSpan], phases: Sequence[Phase], delay_ns: int, since: int) -> int | None:
    """The time (ns) from the beginning of a phase to the sample that first showed it, of the quickest tenth of samples;
    None with fewer than ten.

    It is the offset between the sampler's clock and ours plus a little sampling luck: at rate r a tenth of all phases
    is seen within 0.1 / r. Not the very quickest: where py-spy was kept off its core between looking and stamping, a
    sample can be nearer to the next phase of that name. ``delay_ns`` is what was taken off the spans' times. Spans that
    begin before ``since`` are left out: where windows are joined no sample lies at the seam.
    """
    begins = [phase.before for phase in phases]
    seen: list[int] = []
    for span in spans:
        name, at = phase_of(span), span.start_ns + delay_ns
        near = bisect_right(begins, at)
        found = [phase for phase in phases[max(0, near - 3) : near + 2] if phase.name == name]
        if span.start_ns > since and found:
            phase = min(found, key=lambda item: max(item.before - at, at - item.after))
            seen.append(at - phase.before)
    seen.sort()
    return seen[len(seen) // 10] if len(seen) >= 10 else None
