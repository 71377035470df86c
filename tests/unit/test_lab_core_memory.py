"""The lab's prefix cache, swapping, front-end pool, overlap and the two devices of disaggregated prefill."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gaptop.lab.core.blocks import BlockPool
from gaptop.lab.core.events import DeviceSpan, Event, HostSpan, Idle, Stall, StepDone
from gaptop.lab.core.loads import Arrivals, Burst, Bursts, Load
from gaptop.lab.core.model import A10, H100, RTX_4090, DeviceModel, EngineConfig
from gaptop.lab.core.requests import Request, Wish
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.scheduler import Scheduler
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.scenarios import SCENARIOS


def play(*loads: Load, engine: EngineConfig | None = None, seconds: float = 10.0) -> list[Event]:
    scenario = Scenario("x", "", (), 60.0, loads, engine=engine or EngineConfig())
    return list(Simulation(scenario, 1).events(seconds))


def request(number: int, prompt: int, prefix: int, group: int) -> Request:
    return Request(number, Wish(0.0, prompt, 10, prefix=prefix, group=group), 0, 0.0)


def admit(pool: BlockPool, one: Request) -> int:
    """As the scheduler does it; returns the tokens found in the cache."""
    found = pool.found(one)
    pool.share(one)
    assert pool.grow(one, one.wish.prompt)
    if one.wish.prompt >= one.keeps:
        pool.keep(one)
    return found


def test_a_prefix_is_shared_kept_and_evicted_when_its_blocks_are_needed() -> None:
    pool = BlockPool(20, 16)
    first, second = request(1, 100, 64, 0), request(2, 80, 64, 0)
    assert admit(pool, first) == 0
    assert pool.used == 7
    assert admit(pool, second) == 64
    assert pool.used == 7 + 1
    pool.free(first)
    assert (pool.used, pool.cached) == (5, 0)
    pool.free(second)
    assert (pool.used, pool.cached) == (0, 4)
    other = request(3, 16 * 18, 0, -1)
    assert admit(pool, other) == 0
    assert (pool.used, pool.cached) == (18, 2)
    pool.free(other)
    third = request(4, 100, 64, 0)
    assert admit(pool, third) == 32
    assert (pool.used, pool.cached) == (7, 0)
    pool.free(third)
    assert pool.cached == 4


def test_the_prefix_unused_for_longest_goes_first() -> None:
    pool = BlockPool(8, 16)
    for group in (0, 1):
        one = request(group, 48, 48, group)
        admit(pool, one)
        pool.free(one)
    again = request(2, 48, 48, 0)
    assert admit(pool, again) == 32  # one token of a prompt is always computed
    pool.free(again)
    admit(pool, request(3, 64, 0, -1))
    assert pool.found(request(4, 64, 48, 0)) == 48
    assert pool.found(request(5, 64, 48, 1)) == 16


def test_shared_prefixes_are_hit_and_not_computed_again() -> None:
    load = Bursts(6, 2.0, 0.2, 0.0, 8.0, (500, 600), (10, 30), prefix=480, groups=2)
    steps = [each for each in play(load) if isinstance(each, StepDone)]
    firsts = [output.first for step in steps for output in step.outputs if output.first is not None]
    hits = [each.cached_tokens for each in firsts]
    assert len(hits) == 24
    assert {0, 480} == set(hits)
    assert sum(step.hit_tokens for step in steps) == sum(hits)
    computed = sum(each.prefill_tokens for each in play(load) if isinstance(each, DeviceSpan))
    assert computed == sum(each.prompt_tokens - each.cached_tokens for each in firsts)


def test_swapping_moves_blocks_instead_of_computing_them_again() -> None:
    def recomputed(events: list[Event]) -> int:
        return sum(each.recomputed_tokens for each in events if isinstance(each, DeviceSpan))

    swap = list(Simulation(SCENARIOS["kv_swap"], 1).events(12.0))
    again = list(Simulation(SCENARIOS["cache_pressure"], 1).events(12.0))
    assert recomputed(again) > 1000
    assert recomputed(swap) == 0
    assert [each for each in swap if isinstance(each, HostSpan) and each.phase == "copy"]
    told = sum(output.preemptions for each in swap if isinstance(each, StepDone) for output in each.outputs)
    assert told >= 15


def test_a_pool_of_tokenisers_works_side_by_side() -> None:
    """One of two clients sends images: with two workers the other one does not wait."""
    images = Burst(at=1.0, count=1, prompt=(100, 100), output=(5, 5), images=12)
    text = Burst(at=1.05, count=1, prompt=(100, 100), output=(5, 5))
    waits = {}
    for workers in (1, 2):
        events = play(images, text, engine=EngineConfig(tokenizer_workers=workers), seconds=4.0)
        outputs = [output for each in events if isinstance(each, StepDone) for output in each.outputs]
        waits[workers] = sorted(output.first.ttft for output in outputs if output.first is not None)
        threads = {each.thread for each in events if isinstance(each, HostSpan) and each.phase == "tokenize"}
        assert threads == ({"tokenizer"} if workers == 1 else {"tokenizer", "tokenizer/1"})
    assert waits[1][0] > 0.8
    assert waits[2][0] < 0.1
    assert waits[2][1] > 0.8


def test_without_overlap_each_step_leaves_the_device_idle_while_the_host_works() -> None:
    load = Arrivals(3.0, 0.0, 9.0, (60, 100), (100, 200))
    shares = {}
    for flights in (1, 2):
        events = play(load, engine=EngineConfig(steps_in_flight=flights))
        waits = [each for each in events if isinstance(each, Idle) and each.cause == "host_starvation"]
        shares[flights] = sum(each.end - each.start for each in waits if 2.0 < each.start < 9.0) / 7.0
    assert 0.02 < shares[1] < 0.1
    assert shares[2] < 0.005


def test_waiting_threads_that_poll_keep_their_cores() -> None:
    quiet = Burst(at=1.0, count=1, prompt=(60, 60), output=(5, 5))
    for polling in (True, False):
        config = EngineConfig(tensor_parallel_size=2, busy_poll=polling)
        spans = [each for each in play(quiet, engine=config) if isinstance(each, HostSpan) and each.start < 0.5]
        assert {(each.phase, each.blocked) for each in spans} == {("poll", False) if polling else ("idle", True)}
        assert {each.thread for each in spans} == {"engine", "worker/0", "worker/1"}


def test_prefill_and_decode_run_on_devices_of_their_own() -> None:
    config = EngineConfig(disaggregated=True, kv_transfer_bandwidth=1e9)
    load = Burst(at=1.0, count=1, prompt=(2000, 2000), output=(50, 50))
    events = play(load, engine=config)
    spans = [each for each in events if isinstance(each, DeviceSpan)]
    assert {(each.device, bool(each.prefill_tokens), bool(each.decode_tokens)) for each in spans} == {
        (0, True, False),
        (1, False, True),
    }
    transfer = [each for each in events if isinstance(each, Idle) and each.waited_for == "kv_transfer"]
    assert {each.device for each in transfer} == {1}
    prefill = sum(each.end - each.start for each in spans if each.device == 0)
    waited = [each for each in events if isinstance(each, Idle) and each.waited_for == "prefill"]
    assert sum(each.end - each.start for each in waited) == pytest.approx(prefill, abs=0.01)
    # 2000 tokens of 128 KiB over 1 GB/s.
    assert sum(each.end - each.start for each in transfer) == pytest.approx(0.262, abs=0.01)
    outputs = [output for each in events if isinstance(each, StepDone) for output in each.outputs]
    assert len(outputs) == 50
    assert [each.since_last for each in outputs if each.since_last is not None][0] > 0.262


@pytest.mark.parametrize(
    ("device", "low", "high"), [(H100, 0.005, 0.0065), (RTX_4090, 0.018, 0.02), (A10, 0.029, 0.031)]
)
def test_a_decode_step_takes_what_its_memory_allows(device: DeviceModel, low: float, high: float) -> None:
    assert low < device.step(16, 0.0, 16 * 150)[0] < high


def test_a_stall_that_spans_several_launches_is_still_told_in_order() -> None:
    loads = [Burst(at=at, count=1, prompt=(3000, 3000), output=(40, 40)) for at in (0.5, 3.0, 3.2)]
    events = play(*loads, engine=EngineConfig(steps_in_flight=4, max_num_batched_tokens=256), seconds=6.0)
    assert all(before.start <= after.start for before, after in pairwise(events))
    assert [each for each in events if isinstance(each, Stall)]


@pytest.mark.parametrize(
    ("budget", "cap", "blocks", "why"),
    [(64, 8, 200, "prefill"), (4096, 2, 200, "admission"), (4096, 8, 20, "blocks")],
)
def test_who_waits_knows_whether_prompts_the_cap_or_memory_keep_it_out(
    budget: int, cap: int, blocks: int, why: str
) -> None:
    scheduler = Scheduler(EngineConfig(max_num_batched_tokens=budget, max_num_seqs=cap, num_blocks=blocks))
    for number in range(4):
        scheduler.add(request(number, 100, 0, -1))
    scheduler.schedule(0.0, held=False)
    assert scheduler.kept_waiting_by(False) == why
