"""A real probe process whose collectors are made up: ``feeds`` of its configuration names them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from gaptop.probe.config import ProbeConfig
from gaptop.probe.process import main
from gaptop.probe.runner import Plan
from gaptop_collectors.collector import Batch, Collector, CollectorError, Delivered, Json, Message, SourceInfo


class Steady:
    """A device that is read ten times a second, and counts its boosts."""

    deadline = 0.5

    def __init__(self, name: str) -> None:
        self.name = name
        self.period = 0.1
        self._source = f"fake/{name}"
        self._boosts = 0

    def open(self) -> Sequence[Message]:
        entity: dict[str, Json] = {
            "uuid": self._source,
            "name": "http://me:hunter2@gpu",
            "kind2": "gpu",
            "index": 0,
            "pids": None,
        }
        return [SourceInfo(self._source, self.name, "device", entity, ["device.busy"], self.period)]

    def sample(self) -> Sequence[Message]:
        now = time.monotonic_ns()
        values = {"device.busy": [0.9], "device.power": [float(self._boosts)]}
        return [Batch(self._source, [now], values), Delivered(self._source, now)]

    def boost(self, seconds: float) -> None:
        self._boosts += 1

    def close(self) -> None:
        print(f"{self.name} closed", file=sys.stderr, flush=True)


class Hangs(Steady):
    """Answers for a second, then hangs for three, once."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._samples = 0

    def sample(self) -> Sequence[Message]:
        self._samples += 1
        if self._samples == 10:
            time.sleep(3.0)
        return super().sample()


class HangsForEver(Steady):
    def sample(self) -> Sequence[Message]:
        time.sleep(3600)
        return ()


class Raises(Steady):
    def sample(self) -> Sequence[Message]:
        raise ZeroDivisionError("a bug in this collector")


class Refused(Steady):
    def open(self) -> Sequence[Message]:
        raise CollectorError("no right to read it; run it with sudo.", state="refused", retry=False)


class Aborts(Steady):
    """Takes the process with it after a second, as a crash inside a driver's library does."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._until = time.monotonic() + 1.0

    def sample(self) -> Sequence[Message]:
        if time.monotonic() > self._until:
            os.abort()
        return super().sample()


class Records(Steady):
    """Delivers nothing while it is sampled, and all at the end."""

    def sample(self) -> Sequence[Message]:
        return ()

    def finish(self) -> Sequence[Message]:
        time.sleep(0.9)
        return super().sample()


class NeverFinishes(Records):
    def finish(self) -> Sequence[Message]:
        time.sleep(3600)
        return ()


class FailsToFinish(Records):
    def finish(self) -> Sequence[Message]:
        raise ZeroDivisionError("a bug in this collector")


class Prints(Steady):
    """Prints on standard output, as some libraries do."""

    def sample(self) -> Sequence[Message]:
        print("hello from a library", flush=True)
        return super().sample()


RECORDERS = (Records, NeverFinishes, FailsToFinish)
OTHERS = (Steady, Hangs, HangsForEver, Raises, Refused, Aborts, Prints)
KINDS: dict[str, type[Steady]] = {kind.__name__.lower(): kind for kind in (*OTHERS, *RECORDERS)}


def make_plans(config: ProbeConfig) -> Sequence[Plan]:
    def plan(name: str) -> Plan:
        def make() -> Collector:
            if name == "unimportable":
                import a_package_that_is_not_there  # type: ignore[import-not-found]  # noqa: F401
            return KINDS[name](name)

        return Plan(name, make, recorder=KINDS.get(name) in RECORDERS)

    return [plan(name) for name in config.feeds]


if __name__ == "__main__":
    sys.exit(main(make_plans))
