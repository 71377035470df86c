"""A random case from its seed: a server, an ordinary load, one to four conditions of different causes, and how it is
seen. The same seed is the same case for ever, whatever else is scored with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.view import View
from gaptop.lab.score.conditions import KINDS, Added, Condition
from gaptop.lab.score.server import Server, server
from gaptop.valleys.model import Cause
from gaptop_collectors.host.pyspy_budget import Load, make_plan

SHORTEST, LONGEST = 40.0, 90.0
"""Seconds of a case."""
START: Final = 4.0
"""Seconds that the server has run when the stream begins: it is watched while it serves."""
WARM_UP: Final = 7.0
"""Seconds of ordinary load first: a server that was never seen at work has no usual rate."""
APART: Final = (4.0, 9.0)
"""Seconds of ordinary load between two conditions."""
AFTER: Final = 6.0

TICK: Final = (27e-6, 140e-6)
"""CPU seconds of py-spy for one thread and sample: on a quiet host, in a crowded virtual machine (as measured)."""


@dataclass(frozen=True, slots=True)
class Case:
    """``says`` lists the conditions and when they begin (seconds of the stream); ``step``: seconds of a usual step."""

    seed: int
    scenario: Scenario
    seconds: float
    step: float
    view: View
    says: str


def case(seed: int) -> Case:
    """The case of that seed, with full evidence: vLLM's dialect, 2 to 8 scrapes a second, NVML's ring, threads at the
    default budget's rate."""
    rng = Random(f"gaptop lab score {seed}")
    made = server(rng)
    drawn = [(cause, rng.choice(KINDS[cause])) for cause in rng.sample(sorted(KINDS), rng.choice((1, 2, 3, 4)))]
    # Twice: what a later condition needs of the server changes how long an earlier one lasts.
    _place(seed, made, drawn)
    placed = _place(seed, made, drawn)
    seconds = float(round(min(LONGEST, max(SHORTEST, placed[-1].at + placed[-1].added.seconds + AFTER - START))))
    seen = view(rng, made)
    return Case(seed, _scenario(made, placed, START + seconds), seconds, made.step, seen, _says(made, placed))


class Placed(NamedTuple):
    """A condition in its case; ``at`` in seconds of the simulation."""

    cause: Cause
    at: float
    added: Added


def _place(seed: int, made: Server, drawn: Sequence[tuple[Cause, Condition]]) -> list[Placed]:
    """As many of the conditions as there is time for, one after the other."""
    found: list[Placed] = []
    at = START + WARM_UP
    for index, (cause, condition) in enumerate(drawn):
        rng = Random(f"gaptop lab score {seed}/{index}")
        at = round(at + rng.uniform(0.0, 3.0), 3)
        added = condition(rng, made, at)
        if found and at + added.seconds + AFTER > START + LONGEST:
            continue
        found.append(Placed(cause, at, added))
        at += added.seconds + rng.uniform(*APART)
    return found


def _scenario(made: Server, placed: Sequence[Placed], until: float) -> Scenario:
    pauses = [pause for item in placed for pause in item.added.pauses]
    loads = [*made.ordinary(pauses, until + 10.0), *(load for item in placed for load in item.added.loads)]
    return Scenario(
        name="score",
        says="a random case",
        causes=tuple(item.cause for item in placed),
        period=until + 30.0,
        loads=tuple(loads),
        faults=tuple(fault for item in placed for fault in item.added.faults),
        engine=made.engine(),
        device=made.model,
    )


def _says(made: Server, placed: Sequence[Placed]) -> str:
    load = "arrivals at random" if made.open_loop else f"{made.count} clients"
    said = "; ".join(f"{item.added.says} at {item.at - START:.1f}" for item in placed)
    settings = ", ".join(f"{name} {value}" for name, value in made.settings.items())
    return f"{made.hardware} x{made.ranks}, {load}, {made.blocks} blocks, {settings}: {said}"


def view(rng: Random, made: Server) -> View:
    """Full evidence, through one of the NVML personalities."""
    return View(
        window_s=rng.choice((1 / 6, 0.2, 0.2, 0.2, 0.5)),
        rounding=rng.choice(("nearest", "down")),
        ring_lag_s=rng.uniform(0.005, 0.010),
        drain_s=0.25,
        gpm=made.hardware == "h100" and rng.random() < 0.5,
        power=rng.random() < 0.95,
        dialect="vllm",
        scrape_s=rng.choice((0.125, 0.2, 0.25, 0.5)),
        stacks_hz=stacks_hz(rng, made.ranks),
        gc_callbacks=rng.random() < 0.5,
        start_s=START,
    )


def stacks_hz(rng: Random, ranks: int) -> float:
    """What the default budget leaves for the critical processes: fewer where samples are dear or threads many."""
    tick = rng.uniform(*TICK)
    critical = [Load(f"worker {rank}", True, 2 * tick) for rank in range(ranks if ranks > 1 else 0)]
    plan = make_plan([Load("front end", False, 4 * tick), Load("engine", True, 3 * tick), *critical])
    return float(plan.rates["engine"])


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
