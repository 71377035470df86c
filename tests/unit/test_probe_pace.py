"""The runner's own pacing over the GPUs' collector, in time that is moved by hand: what reading costs is given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gaptop.probe import runner as runner_module
from gaptop.probe.assembly import plans
from gaptop.probe.config import parse
from gaptop.probe.pace import Budget
from gaptop.probe.runner import Plan, Runner
from gaptop.recording.lines import Health, Line
from gaptop_collectors.collector import Batch, Collector, Hole, Message, SourceInfo
from gaptop_collectors.devices import nvml_start
from tests.unit.nvml_scripted import START, Binding, Gpu


@dataclass
class Moving(Gpu):
    """A GPU whose utilisation is another in each of its windows."""

    window_s: float = 0.2


class Driver(Binding):
    """No GPU has a ring; one without ``rates`` has its utilisation from GPM.

    ``late_s``: what each wait of the runner is longer than asked for, in turn.
    """

    late_s: Sequence[float] = (0.0,)

    def _rates(self, gpu: Gpu) -> Any:
        if not isinstance(gpu, Moving):
            return super()._rates(gpu)
        window = int((self.now - START) / 1e9 / gpu.window_s + 0.37)
        return SimpleNamespace(gpu=window * 37 % 101, memory=0)


class Told:
    """Where the runner sends what is said."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.messages: list[Message] = []
        self.health: list[Health] = []

    def accept(self, runner: Runner, messages: Sequence[Message]) -> None:
        self.messages += messages

    def write(self, lines: Iterable[Line]) -> None:
        self.health += [line for line in lines if isinstance(line, Health)]

    def seconds(self) -> float:
        return (self.driver.now - START) / 1e9

    def log_hint(self) -> str:
        return ""

    @property
    def states(self) -> set[str]:
        return {line.state for line in self.health if line.t > 1}

    @property
    def holes(self) -> list[Hole]:
        return [one for one in self.messages if isinstance(one, Hole)]

    def last(self) -> SourceInfo:
        return [one for one in self.messages if isinstance(one, SourceInfo)][-1]

    def stamps(self, signal: str) -> list[int]:
        return [at for one in self.messages if isinstance(one, Batch) and signal in one.values for at in one.times_ns]


def run(monkeypatch: pytest.MonkeyPatch, driver: Driver, seconds: float, round_s: float, gpu_s: float) -> Told:
    """The plan that the probe makes for the GPUs, run for so long; each sample costs ``round_s`` of CPU, and ``gpu_s``
    for every GPU."""
    spent, waits = [0.0], [0]
    cost = round_s + gpu_s * len(driver.gpus)
    clock = {"monotonic": lambda: driver.now / 1e9, "monotonic_ns": lambda: driver.now, "thread_time": lambda: spent[0]}
    monkeypatch.setattr(runner_module, "time", SimpleNamespace(**clock))
    monkeypatch.setattr(nvml_start, "load", lambda: driver.library)
    plan = plans(parse(json.dumps({"host": False})))[0]
    told = Told(driver)

    def make() -> Collector:
        made = plan.make()
        sample = made.sample

        def sampled() -> Sequence[Message]:
            spent[0] += cost
            driver.now += int(cost * 1e9)
            return sample()

        cast(Any, made).sample = sampled
        return made

    runner = Runner(replace(plan, make=make), told)

    def wait(left: float) -> None:
        waits[0] += 1
        driver.now += int((left + driver.late_s[waits[0] % len(driver.late_s)]) * 1e9) + 1
        told.write(runner._health())
        if told.seconds() >= seconds:
            runner._stopping = True

    monkeypatch.setattr(runner, "_wake", SimpleNamespace(wait=wait))
    runner._run()
    return told


@pytest.mark.parametrize("gpus", [1, 4, 8, 16])
def test_many_gpus_are_read_at_their_own_period_and_what_that_costs_is_shown(
    monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    """0.6 ms a round and 0.6 ms a GPU, where 8 H100s were measured to take 6.9 ms in the probe."""
    driver = Driver(monkeypatch, *(Gpu(f"GPU-{number}", rates=None) for number in range(gpus)))
    told = run(monkeypatch, driver, 30, 0.0006, 0.0006)
    assert told.states == {"ok"}
    assert {line.period for line in told.health if line.t > 1} == {0.2}
    assert told.health[-1].cost == pytest.approx((0.0006 + 0.0006 * gpus) / 0.2, rel=0.05)
    assert len(told.stamps("device.sm_active")) >= gpus * 145


def test_gpus_that_cost_far_more_than_usual_are_read_half_as_often_and_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, *(Gpu(f"GPU-{number}", rates=None) for number in range(8)))
    told = run(monkeypatch, driver, 30, 0.0, 0.006)
    assert told.health[-1].state == "backoff"
    assert told.health[-1].period == 0.4
    assert "over its budget of 9 %" in told.health[-1].says


@pytest.mark.parametrize("window_s", [0.167, 0.2])
@pytest.mark.parametrize("late_s", [(0.0,), (0.0, 0.004, 0.001, 0.012, 0.002), (0.001,) * 9 + (0.06,)])
def test_a_gpu_without_a_ring_has_its_window_learnt_without_holes_or_back_off(
    monkeypatch: pytest.MonkeyPatch, window_s: float, late_s: Sequence[float]
) -> None:
    """0.7 ms a round, as was measured."""
    driver = Driver(monkeypatch, Moving("GPU-0", gpm=False, window_s=window_s))
    driver.late_s = late_s
    told = run(monkeypatch, driver, 40, 0.0007, 0.0)
    assert told.states == {"ok"}
    assert told.last().refresh == "polled"
    assert told.last().window_measured
    assert told.last().window == pytest.approx(window_s, abs=0.004)
    assert told.holes == []
    assert len(told.stamps("device.busy")) == pytest.approx(40 / window_s, rel=0.03)


def test_polls_that_the_runner_thins_out_are_less_exact_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, Moving("GPU-0", gpm=False))
    told = run(monkeypatch, driver, 58, 0.008, 0.0)
    assert told.health[-1].state == "backoff"
    assert told.health[-1].period == pytest.approx(0.2, abs=0.003)
    assert told.last().error == pytest.approx(0.2, abs=0.01)
    assert told.holes == []


def test_what_a_collector_may_take_counts_for_as_long_as_it_may() -> None:
    """A second at 6 % in each window of two, where it may take 8 % in just that second, is within the budget."""
    shares, now = [0.02], 0.0
    budget = Budget(lambda: shares[0])
    for step in range(400):
        closely = step % 40 < 20
        shares[0] = 0.08 if closely else 0.01
        budget.spend((0.06 if closely else 0.002) * 0.05, now, 0.05)
        assert budget.stretch == 1
        now += 0.05
    assert budget.cost == pytest.approx(0.031, abs=0.003)
    assert budget.share == pytest.approx(0.045, abs=0.003)
    shares[0] = 0.02
    for _ in range(50):
        budget.spend(0.03 * 0.05, now, 0.05)
        now += 0.05
    assert budget.stretch == 2


def test_other_collectors_keep_their_budget() -> None:
    plan = Plan("other", lambda: cast(Collector, None))
    assert (plan.share(), plan.most_stretch) == (0.02, 16)
