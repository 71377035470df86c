"""Fast runs of the lab for the tests: kept, for several tests look at the same one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.view import View
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Batch, Line, Source


@cache
def ran(name: str, seconds: float, view: View | None = None, seed: int = 1) -> tuple[Fast, tuple[Line, ...]]:
    """The run and its lines."""
    run = Fast(SCENARIOS[name], seed, seconds, view)
    return run, tuple(run.lines())


def made(name: str, seconds: float, view: View | None = None, seed: int = 1) -> tuple[Line, ...]:
    return ran(name, seconds, view, seed)[1]


def batches(lines: tuple[Line, ...], source: str) -> list[Batch]:
    """Of the sources whose ids begin so."""
    return [line for line in lines if isinstance(line, Batch) and line.src.startswith(source)]


def sources(lines: tuple[Line, ...]) -> dict[str, Source]:
    """Each as last told."""
    return {line.id: line for line in lines if isinstance(line, Source)}


def column(found: Iterable[Batch], key: str) -> list[float]:
    """Every reading of one series."""
    return [value for batch in found for value in batch.values.get(key, ()) if value is not None]
