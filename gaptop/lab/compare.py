"""Scheduling policies side by side, on the same arrivals: what clients get of each, and where device time goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from gaptop.lab.core.events import DeviceSpan, Event, Idle, StepDone
from gaptop.lab.core.loads import Arrivals, Bursts, Clients, Load, Range
from gaptop.lab.core.model import DeviceModel, EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.trace import read_trace

Policy = Literal["static", "continuous", "chunked", "disaggregated"]
POLICIES: Final[tuple[Policy, ...]] = ("static", "continuous", "chunked", "disaggregated")

TOKEN_BUDGET: Final = 512
"""Of a step with chunked prefill: a few decode steps long on all presets."""

FOREVER: Final = 1e9


@dataclass(frozen=True, slots=True)
class Kind:
    """``share`` of all requests have lengths like these (tokens)."""

    share: float
    prompt: Range
    output: Range


MIX: Final = (Kind(0.7, (60, 200), (10, 80)), Kind(0.2, (60, 200), (300, 600)), Kind(0.1, (2000, 4000), (20, 60)))
"""Chats, writers, and questions about long documents: answers' lengths vary by a factor of sixty."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy's result. Seconds; ``throughput`` is output tokens a second of all devices together, None stands for
    no token at all. ``busy`` and ``idle`` are shares of the devices' time, ``idle`` by true cause."""

    policy: Policy
    devices: int
    throughput: float
    ttft_p50: float | None
    ttft_p99: float | None
    itl_p50: float | None
    itl_p99: float | None
    busy: float
    idle: dict[str, float]


def config_of(policy: Policy, device: DeviceModel) -> EngineConfig:
    """The engine's settings: only what the policy is about differs."""
    base = EngineConfig(
        max_num_seqs=min(128, device.kv_blocks // 48),
        max_num_batched_tokens=8192,
        chunked=False,
        num_blocks=device.kv_blocks,
    )
    if policy == "static":
        return replace(base, membership="static")
    if policy == "chunked":
        return replace(base, chunked=True, max_num_batched_tokens=TOKEN_BUDGET)
    return replace(base, disaggregated=policy == "disaggregated")


def room_on(device: DeviceModel) -> int:
    """Tokens of the longest request that every policy can run on that device."""
    configs = [config_of(policy, device) for policy in POLICIES]
    return min(min(config.max_model_len, config.num_blocks * config.block_size) for config in configs)


def loads_of(
    arrivals: str, rate: float, seconds: float, mix: Sequence[Kind] = MIX, room: int | None = None
) -> tuple[Load, ...]:
    """``arrivals``: ``steady``, ``poisson``, ``bursts`` (of two seconds' requests), ``closed:N`` or a trace's path.

    ``rate``: requests a second of the open ones, which end after ``seconds``. Raises ValueError for a count that is no
    number of clients, TraceError for a trace that cannot be used, or asks for more than ``room`` tokens at once.
    """
    if arrivals in ("steady", "poisson"):
        return tuple(
            Arrivals(rate * kind.share, 0.0, seconds, kind.prompt, kind.output, arrivals == "poisson") for kind in mix
        )
    if arrivals == "bursts":
        return tuple(
            Bursts(max(round(2 * rate * kind.share), 1), 2.0, 0.2, 0.0, seconds, kind.prompt, kind.output)
            for kind in mix
        )
    if arrivals.startswith("closed:"):
        count = int(arrivals.removeprefix("closed:"))
        if count < 1:
            raise ValueError("a closed loop has at least one client")
        return tuple(
            Clients(each, 0.0, FOREVER, kind.prompt, kind.output)
            for kind, each in zip(mix, _split(count, mix), strict=True)
            if each
        )
    return (read_trace(Path(arrivals), room),)


def compare(
    policies: Iterable[Policy], loads: tuple[Load, ...], device: DeviceModel, seed: int, seconds: float
) -> list[Row]:
    """Run each policy for ``seconds`` of virtual time. Raises NeverFits where a request can never run."""
    rows = []
    for policy in policies:
        scenario = Scenario(policy, "", (), FOREVER, loads, engine=config_of(policy, device), device=device)
        rows.append(_row(policy, list(Simulation(scenario, seed).events(seconds)), seconds))
    return rows


def _split(count: int, mix: Sequence[Kind]) -> list[int]:
    """``count`` clients by the kinds' shares: at least one of the first, all together ``count``."""
    rest = [round(count * kind.share) for kind in mix[1:]]
    return [max(count - sum(rest), 1), *rest]


def _row(policy: Policy, events: list[Event], seconds: float) -> Row:
    tokens = 0
    ttft: list[float] = []
    itl: list[float] = []
    busy = 0.0
    idle: dict[str, float] = {}
    devices = 2 if policy == "disaggregated" else 1
    for event in events:
        if isinstance(event, DeviceSpan | Idle):
            share = max(min(event.end, seconds) - event.start, 0.0) / seconds / devices
            if isinstance(event, Idle):
                idle[event.cause] = idle.get(event.cause, 0.0) + share
            else:
                busy += share
        elif isinstance(event, StepDone) and event.start < seconds:
            tokens += len(event.outputs)
            ttft += [each.first.ttft for each in event.outputs if each.first is not None]
            itl += [each.since_last for each in event.outputs if each.since_last is not None]
    return Row(
        policy=policy,
        devices=devices,
        throughput=tokens / seconds,
        ttft_p50=quantile(ttft, 0.5),
        ttft_p99=quantile(ttft, 0.99),
        itl_p50=quantile(itl, 0.5),
        itl_p99=quantile(itl, 0.99),
        busy=busy,
        idle=dict(sorted(idle.items(), key=lambda item: -item[1])),
    )


def quantile(values: list[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of all are not above; None of nothing."""
    if not values:
        return None
    values.sort()
    return values[min(int(share * len(values)), len(values) - 1)]
