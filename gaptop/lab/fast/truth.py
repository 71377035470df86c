"""The truth of one run, as lines beside its stream: what each idle interval and each stall waited for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from gaptop.lab.core.events import Idle, Slow, Stall
from gaptop.lab.fast.view import View

SUFFIX = ".truth.jsonl"


class Truth:
    """Idle intervals, stalls and slow times, in seconds of the stream; idle neighbours of one reason are one."""

    def __init__(self, zero: float) -> None:
        self._zero = zero
        self.idle: list[Idle] = []
        self.stalls: list[Stall] = []
        self.slow: list[Slow] = []
        self._last: dict[int, int] = {}

    def add(self, event: Idle | Stall | Slow) -> None:
        """In the order of their starts."""
        start, end = event.start - self._zero, event.end - self._zero
        if end <= 0:
            return
        start = max(start, 0.0)
        if isinstance(event, Idle):
            index = self._last.get(event.device)
            known = self.idle[index] if index is not None else None
            if (
                index is not None
                and known is not None
                and start - known.end < 1e-9
                and (known.waited_for, known.cause) == (event.waited_for, event.cause)
            ):
                self.idle[index] = known._replace(end=end)
            else:
                self._last[event.device] = len(self.idle)
                self.idle.append(event._replace(start=start, end=end))
        elif isinstance(event, Stall):
            self.stalls.append(event._replace(start=start, end=end))
        else:
            self.slow.append(event._replace(start=start, end=end))

    def lines(self, scenario: str, seed: int, seconds: float, view: View) -> Iterator[str]:
        """JSON lines: what was run, then each interval."""
        yield _line({"k": "truth", "scenario": scenario, "seed": seed, "seconds": seconds, "view": asdict(view)})
        for idle in self.idle:
            yield _line({"k": "idle", **_rounded(idle._asdict())})
        for stall in self.stalls:
            yield _line({"k": "stall", **_rounded(stall._asdict())})
        for slow in self.slow:
            yield _line({"k": "slow", **_rounded(slow._asdict())})


def beside(path: Path) -> Path:
    """Where the truth of the stream in ``path`` is written."""
    return path.with_name(path.name + SUFFIX)


def read(lines: Iterable[str]) -> tuple[list[Idle], list[Stall]]:
    """The intervals of a truth file."""
    idle, stalls = [], []
    for text in lines:
        body = json.loads(text)
        kind = body.pop("k")
        if kind == "idle":
            idle.append(Idle(**body))
        elif kind == "stall":
            stalls.append(Stall(**body))
    return idle, stalls


def _line(body: dict[str, object]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _rounded(body: dict[str, object]) -> dict[str, object]:
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in body.items()}
