"""A random case from its seed: a server, an ordinary load, one to four conditions of different causes, and how it is
seen. The same seed is the same case for ever, whatever else is scored with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random
from typing import Final, NamedTuple

from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.view import PySpyCosts, View
from gaptop.lab.score.conditions import KINDS, Added, Condition
from gaptop.lab.score.decoys import Beside, beside
from gaptop.lab.score.server import Server, server
from gaptop.valleys.model import Cause
from gaptop_collectors.host.pyspy_budget import READING, START_CPU

SHORTEST, LONGEST = 40.0, 90.0
"""Seconds of a case."""
START: Final = 4.0
"""Seconds that the server has run when the stream begins: it is watched while it serves."""
WARM_UP: Final = 7.0
"""Seconds of ordinary load first: a server that was never seen at work has no usual rate."""
APART: Final = (4.0, 9.0)
"""Seconds of ordinary load between two conditions..."""
OVERLAP: Final = 0.2
"""...but in this share of the cases with several the second begins inside the first: troubles come together."""
ATTACHED: Final = 0.05
"""Share of the cases whose stream begins inside the first condition: people look when something is wrong."""
AFTER: Final = 6.0

TICK: Final = (27e-6, 140e-6)
"""CPU seconds of py-spy for one thread and sample: on a quiet host, in a crowded virtual machine (as measured)."""
HAND_OVER: Final = (1.0, 2.0)
"""Times the first guess of what a recorder costs beside its samples (twice that was seen on a crowded host)."""
BUSY_POLL: Final = 0.25
"""Of the engines ask for work all the time and never sleep: SGLang's do, vLLM's do not."""
THREADS: Final = (7, 160)
"""Python threads of the whole server."""
RING_LATE: Final = 0.05
RING_LOST: Final = 0.005
"""Shares, at most: no frequency was published, only that such entries exist."""
STRANGE: Final = 0.1
"""Most of a thread's samples at work that no rule knows: custom models' code, kernels, plugins."""
FAILED: Final = 0.03
"""Most of the reads that fail."""
CLOCK_ERROR: Final = (0.001, 0.03)
"""Seconds by which a window of stacks may be off: py-spy's own log bounds it to 1 ms, unless it is starved."""


class Placed(NamedTuple):
    """A condition in its case; ``at`` in seconds of the simulation."""

    cause: Cause
    at: float
    added: Added


@dataclass(frozen=True, slots=True)
class Case:
    """``says`` lists the conditions and when they begin (seconds of the stream); ``step``: seconds of a usual step."""

    seed: int
    scenario: Scenario
    seconds: float
    step: float
    view: View
    says: str
    placed: tuple[Placed, ...]


def case(seed: int) -> Case:
    """The case of that seed, with full evidence: vLLM's dialect, 2 to 8 scrapes a second, NVML's ring, threads at the
    default budget's rate."""
    rng = Random(f"gaptop lab score {seed}")
    made = server(rng)
    made.settings["busy_poll"] = Random(f"gaptop lab score {seed}/polls").random() < BUSY_POLL
    drawn = [(cause, rng.choice(KINDS[cause])) for cause in rng.sample(sorted(KINDS), rng.choice((1, 2, 3, 4)))]
    # Twice: what a later condition needs of the server changes how long an earlier one lasts.
    _place(seed, made, drawn)
    placed = _place(seed, made, drawn)
    last = max(item.at + item.added.seconds for item in placed)
    seconds = float(round(min(LONGEST, max(SHORTEST, last + AFTER - START))))
    until = START + seconds
    faults = [fault for item in placed for fault in item.added.faults]
    around = beside(Random(f"gaptop lab score {seed}/beside"), made, START, until, faults)
    seen = replace(view(rng, made), own_calls=tuple(sorted(around.own_calls)))
    says = _says(made, placed, around)
    return Case(seed, _scenario(made, placed, around, until), seconds, made.step, seen, says, tuple(placed))


def _place(seed: int, made: Server, drawn: Sequence[tuple[Cause, Condition]]) -> list[Placed]:
    """As many of the conditions as there is time for: one after the other, or the second inside the first."""
    found: list[Placed] = []
    rng = Random(f"gaptop lab score {seed}/places")
    overlaps, attached = rng.random() < OVERLAP, rng.random() < ATTACHED
    free = START + WARM_UP
    for index, (cause, condition) in enumerate(drawn):
        at = free + rng.uniform(0.0, 3.0)
        if attached and not found:
            length = _added(seed, index, condition, made, START).seconds
            at = max(1.0, START - rng.uniform(0.2, 0.8) * length)
        elif overlaps and len(found) == 1:
            at = found[0].at + rng.uniform(0.1, 0.8) * found[0].added.seconds
        at = round(at, 3)
        added = _added(seed, index, condition, made, at)
        if found and at + added.seconds + AFTER > START + LONGEST:
            continue
        found.append(Placed(cause, at, added))
        free = max(free, at + added.seconds + rng.uniform(*APART))
    return found


def _added(seed: int, index: int, condition: Condition, made: Server, at: float) -> Added:
    """The same for the same seed, wherever it is placed."""
    return condition(Random(f"gaptop lab score {seed}/{index}"), made, at)


def _scenario(made: Server, placed: Sequence[Placed], around: Beside, until: float) -> Scenario:
    pauses = [pause for item in placed for pause in item.added.pauses]
    loads = [*made.ordinary(pauses, until + 10.0), *(load for item in placed for load in item.added.loads)]
    return Scenario(
        name="score",
        says="a random case",
        causes=tuple(item.cause for item in placed),
        period=until + 30.0,
        loads=tuple(loads),
        # In this order: of two faults of one place the condition's own counts.
        faults=(*(fault for item in placed for fault in item.added.faults), *around.faults),
        engine=made.engine(),
        device=made.model,
        beside=tuple(sorted(around.conditions)),
        quota=around.quota,
    )


def _says(made: Server, placed: Sequence[Placed], around: Beside) -> str:
    load = "arrivals at random" if made.open_loop else f"{made.count} clients"
    said = "; ".join(f"{item.added.says} at {item.at - START:.1f}" for item in placed)
    settings = ", ".join(f"{name} {value}" for name, value in made.settings.items())
    also = f"; beside: {', '.join(around.says)}" if around.says else ""
    return f"{made.hardware} x{made.ranks}, {load}, {made.blocks} blocks, {settings}: {said}{also}"


def view(rng: Random, made: Server) -> View:
    """Full evidence, through one of the NVML personalities."""
    return View(
        window_s=rng.choice((1 / 6, 0.2, 0.2, 0.2, 0.5)),
        rounding=rng.choice(("nearest", "down")),
        ring_lag_s=rng.uniform(0.005, 0.010),
        drain_s=0.25,
        ring_late=rng.uniform(0.0, RING_LATE),
        ring_lost=rng.uniform(0.0, RING_LOST),
        gpm=made.hardware == "h100" and rng.random() < 0.5,
        nvlink=made.hardware == "h100",
        power=rng.random() < 0.95,
        dialect="vllm",
        scrape_s=rng.choice((0.125, 0.2, 0.25, 0.5)),
        pyspy=pyspy(rng),
        gc_callbacks=rng.random() < 0.5,
        strange=rng.uniform(0.0, STRANGE),
        failed=rng.uniform(0.0, FAILED),
        clock_error_s=exp(rng.uniform(*map(log, CLOCK_ERROR))),
        sync_spins=rng.random() < 0.5,
        start_s=START,
    )


def pyspy(rng: Random) -> PySpyCosts:
    """What sampling costs there: engines have from a handful of Python threads to those of many libraries' pools."""
    threads = round(exp(rng.uniform(*map(log, THREADS))))
    dear = rng.uniform(*HAND_OVER)
    return PySpyCosts(rng.uniform(*TICK), dear * START_CPU, dear * READING, max(0, threads - THREADS[0]))


def _threads(full: View) -> View:
    return replace(full, stacks_hz=None, states=False)


MISSING: Final[Mapping[str, Callable[[View], View]]] = {
    "stacks": lambda full: replace(full, stacks_hz=None),
    "threads": _threads,
    "threads_and_host": lambda full: replace(_threads(full), host=False),
    "nvml": lambda full: replace(full, nvml=False, power=False, gpm=False),
    "power": lambda full: replace(full, power=False, gpm=False),
    "fast_metrics": lambda full: replace(full, scrape_s=1.0),
    "gauges_each_step": lambda full: replace(full, refresh=("steps", 40)),
    "gauges_each_second": lambda full: replace(full, refresh=("seconds", 10.0)),
    "vllm_0_8": lambda full: replace(full, dialect="vllm-0.8"),
    "llamacpp": lambda full: replace(full, dialect="llamacpp"),
}
"""How a view looks with one source taken away, or with another server's metrics."""


def without(full: View, name: str) -> View:
    """The view less one source of MISSING."""
    return MISSING[name](full)
