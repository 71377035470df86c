"""Who asks for what, and when. A load is data; the random numbers come from a generator seeded per cycle and load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from gaptop.lab.core.requests import Wish

Range = tuple[int, int]


class Load(Protocol):
    """``base`` is the virtual time at which the load's cycle began; all other times are relative to it."""

    def first(self, rng: Random, base: float) -> Iterable[Wish]:
        """What is asked for whatever the server does. Wishes before time 0 are left out by the simulation."""
        ...

    def then(self, rng: Random, base: float, answered: float) -> Wish | None:
        """What the client of a request asks for next, when it got its last token at ``answered``."""
        ...


@dataclass(frozen=True, slots=True)
class Clients:
    """Closed loop: ``count`` clients ask again ``think`` seconds after each answer, over [start, until).

    The last answers are cut to ``pace`` tokens a second of what is left, so that all clients stop nearly together.
    ``once`` starts them in the first cycle only: they go on while the faults repeat.
    """

    count: int
    start: float
    until: float
    prompt: Range
    output: Range
    think: float = 0.01
    ramp: float = 0.4
    pace: float = 38.0
    once: bool = False

    def first(self, rng: Random, base: float) -> Iterator[Wish]:
        if self.once and base > 0:
            return
        begin = max(self.start + base, 0.0)
        for index in range(self.count):
            wish = self._wish(rng, base, begin + self.ramp * index / self.count)
            if wish is not None:
                yield wish

    def then(self, rng: Random, base: float, answered: float) -> Wish | None:
        return self._wish(rng, base, answered + self.think * (0.5 + rng.random()))

    def _wish(self, rng: Random, base: float, time: float) -> Wish | None:
        prompt, output = rng.randint(*self.prompt), rng.randint(*self.output)
        left = int((base + self.until - time) * self.pace)
        return Wish(time, prompt, min(output, left)) if left > 0 else None


@dataclass(frozen=True, slots=True)
class Burst:
    """Open loop: ``count`` requests at once, each with so many ``images``."""

    at: float
    count: int
    prompt: Range
    output: Range
    cached: int = 0
    priority: int = 0
    images: int = 0

    def first(self, rng: Random, base: float) -> Iterator[Wish]:
        for _ in range(self.count):
            prompt, output = rng.randint(*self.prompt), rng.randint(*self.output)
            cached = min(self.cached, prompt - 1)
            yield Wish(base + self.at, prompt, output, cached, self.priority, images=self.images)

    def then(self, rng: Random, base: float, answered: float) -> Wish | None:
        return None


@dataclass(frozen=True, slots=True)
class Bursts:
    """Open loop: ``size`` requests at once every ``every`` seconds over [start, until), each burst late or early by up
    to ``jitter``. With ``groups`` each request has the first ``prefix`` tokens of one of so many groups."""

    size: int
    every: float
    jitter: float
    start: float
    until: float
    prompt: Range
    output: Range
    prefix: int = 0
    groups: int = 0

    def first(self, rng: Random, base: float) -> Iterator[Wish]:
        time = self.start
        while time < self.until:
            at = max(time + self.jitter * rng.uniform(-1, 1), self.start)
            for _ in range(self.size):
                wish = Wish(base + at, rng.randint(*self.prompt), rng.randint(*self.output))
                yield shared(wish, rng, self.prefix, self.groups)
            time += self.every

    def then(self, rng: Random, base: float, answered: float) -> Wish | None:
        return None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Open loop: ``rate`` requests a second over [start, until), evenly spaced or (``poisson``) at random. ``prefix``
    and ``groups`` as in Bursts."""

    rate: float
    start: float
    until: float
    prompt: Range
    output: Range
    poisson: bool = True
    prefix: int = 0
    groups: int = 0

    def first(self, rng: Random, base: float) -> Iterator[Wish]:
        time = self.start
        while True:
            time += rng.expovariate(self.rate) if self.poisson else 1 / self.rate
            if time >= self.until:
                return
            wish = Wish(base + time, rng.randint(*self.prompt), rng.randint(*self.output))
            yield shared(wish, rng, self.prefix, self.groups)

    def then(self, rng: Random, base: float, answered: float) -> Wish | None:
        return None


def shared(wish: Wish, rng: Random, prefix: int, groups: int) -> Wish:
    """The wish with the prefix of one of ``groups`` groups; unchanged where there are none."""
    if not groups:
        return wish
    return wish._replace(prefix=min(prefix, wish.prompt), group=rng.randrange(groups))
