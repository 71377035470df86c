"""The fast driver's numbers are those that the real parser and mapping make of the server's own text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.loads import Burst
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.vllm.v1.metrics.loggers import PrometheusStatLogger
from gaptop.lab.fast.counters import VllmCounters
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.slots import LlamaCounters
from gaptop.lab.fast.view import Dialect, Refresh, View
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Batch
from gaptop_collectors.engines import vllm_names as names
from gaptop_collectors.engines.exposition import ExpositionReader
from gaptop_collectors.engines.llamacpp_slots import Booked, Counted, Progress, Slot, parse_slots

from .lab_fast import batches, column, made, sources


@pytest.mark.parametrize("dialect", ["vllm", "vllm-0.8"])
@pytest.mark.parametrize("name", ["cache_pressure", "remote_kv"])
def test_they_equal_the_exposition_through_the_real_parser(dialect: Dialect, name: str) -> None:
    """Prefixes from the cache, preemptions and deferred requests occur in these two."""
    scenario = SCENARIOS[name]
    registry = CollectorRegistry()
    logger = PrometheusStatLogger(registry, "m", scenario.engine, old=dialect == "vllm-0.8")
    counters = VllmCounters(scenario.engine, dialect)
    reader = ExpositionReader(names.WANTED)
    seen = 0
    for event in Simulation(scenario, 3).events(14.0):
        if not isinstance(event, StepDone):
            continue
        logger.record(event)
        counters.book(event)
        if event.number % 40 == 0:
            read = names.values(names.group(reader.read(generate_latest(registry).decode())))
            assert counters.values() == pytest.approx(read)
            assert list(counters.values()) == list(read)
            seen += 1
    assert seen > 5
    final = counters.values()
    if name == "cache_pressure":
        assert final["sched.preemptions"]
        assert final["kv.hits"]
    elif dialect == "vllm":
        assert any(step.deferred for step in Simulation(scenario, 3).events(14.0) if isinstance(step, StepDone))


def test_the_capacity_is_that_of_the_cache_config() -> None:
    config = SCENARIOS["steady"].engine
    registry = CollectorRegistry()
    PrometheusStatLogger(registry, "m", config)
    present = names.group(ExpositionReader(names.WANTED).read(generate_latest(registry).decode()))
    assert VllmCounters(config, "vllm").limits["kv.capacity"] == names.kv_capacity(present)


def test_llama_tokens_equal_what_the_real_reader_makes_of_slots() -> None:
    """Each request has a slot of its own; ``/metrics`` books its tokens when it ends."""
    scenario = SCENARIOS["prefill_interference"]
    counters, progress = LlamaCounters(scenario.engine), Progress()
    slots: dict[int, dict[str, Any]] = {number: _slot(number) for number in range(scenario.engine.max_num_seqs)}
    held: dict[int, int] = {}
    ended = 0.0
    none = Counted(Booked(0.0))
    cleared = Slot(999, 0, False, 0, 0, 0, 0)  # so that new tasks' tokens are told from the last ones' at once
    progress.feed([*parse_slots(json.dumps(list(slots.values())).encode()), cleared], none, none)
    for event in Simulation(scenario, 2).events(12.0):
        if isinstance(event, DeviceSpan):
            counters.launched(event)
        if not isinstance(event, StepDone):
            continue
        counters.book(event)
        for output in event.outputs:
            number = held.setdefault(output.request, next(n for n in slots if n not in held.values()))
            before = slots[number]["next_token"][0]["n_decoded"] if slots[number]["is_processing"] else 0
            slots[number] = _slot(number, output.request, before + 1)
            if output.finished is not None:
                ended += before + 1
                slots[held.pop(output.request)] = _slot(number)
        progress.feed(parse_slots(json.dumps(list(slots.values())).encode()), Counted(Booked(ended)))
        values = counters.from_slots()
        assert values["tokens.decode"] == progress.decode
        assert values["sched.running"] == event.running
        assert values["slots.prefilling"] == event.running - len(held)
    assert ended > 100


def test_llama_prompts_count_as_their_batches_end() -> None:
    """Not only with the last one, as vLLM's do."""
    lines = made("prefill_interference", 8.0, View(dialect="llamacpp", scrape_s=0.125))
    prompt = column(batches(lines, "metrics/"), "tokens.prompt")
    grown = [after - before for before, after in zip(prompt, prompt[1:], strict=False)]
    assert sum(1 for value in grown if 1500 <= value <= 2500) >= 2
    assert max(grown) < 5000


def _slot(number: int, task: int = -1, decoded: int = 0) -> dict[str, Any]:
    body = {"id": number, "n_ctx": 8192, "is_processing": task >= 0, "next_token": [{"n_decoded": decoded}]}
    return {**body, "id_task": task} if task >= 0 else body


@pytest.mark.parametrize(
    ("refresh", "says", "fits"),
    [
        ("step", "step", lambda moved: moved > 100),
        (("steps", 40), "40 steps", lambda moved: 15 < moved < 50),
        (("seconds", 10.0), "10 s", lambda moved: 1 <= moved <= 3),
    ],
)
def test_metrics_move_by_their_refresh_rule(refresh: Refresh, says: str, fits: Callable[[int], bool]) -> None:
    lines = made("steady", 30.0, View(refresh=refresh, scrape_s=0.125))
    counts = column(batches(lines, "metrics/"), "step.count")
    moved = sum(after != before for before, after in zip(counts, counts[1:], strict=False))
    assert fits(moved), moved
    assert counts == sorted(counts)
    assert sources(lines)["metrics/http://127.0.0.1:8000"].refresh == says


def test_gauges_are_zero_in_the_first_step_after_silence() -> None:
    """They move with messages only: the device works on the first prompt for over a second, and nothing says so."""
    prompt = Burst(at=2.0, count=1, prompt=(6700, 6700), output=(24, 24))
    engine = EngineConfig(chunked=False, max_num_batched_tokens=8192)
    scenario = Scenario("first", "", (), 20.0, (prompt,), engine=engine)
    lines = tuple(Fast(scenario, 1, 5.0, View(scrape_s=0.125)).lines())
    running = {batch.t[0]: batch.values["sched.running"][0] for batch in batches(lines, "metrics/")}
    busy = {
        t: share
        for batch in batches(lines, "nvml/")
        for t, share in zip(batch.t, batch.values.get("device.busy", ()), strict=False)
    }
    assert all(share == 1.0 for t, share in busy.items() if 2.3 < t < 3.1)
    assert {value for t, value in running.items() if 2.05 < t < 3.1} == {0.0}
    assert 1.0 in {value for t, value in running.items() if t > 3.1}


def test_what_no_verdict_needs_is_asked_for_each_five_seconds() -> None:
    found = batches(made("steady", 21.0), "metrics/")
    asked: list[Batch] = [batch for batch in found if "latency.itl_sum" in batch.values]
    assert 4 <= len(asked) <= 5
    assert all("kv.used" in batch.values and "sched.limit" in batch.values for batch in found)


def test_eight_scrapes_a_second_ask_for_little() -> None:
    found = batches(made("steady", 21.0, View(scrape_s=0.125)), "metrics/")
    little = [batch for batch in found if set(batch.values) == {*names.FAST, "latency.scrape"}]
    assert 0.7 < len(little) / len(found) < 0.8
    assert all("sched.limit" in batch.values for batch in found if batch not in little)


def test_a_front_end_at_work_answers_late() -> None:
    """The event loop detokenises for 2.8 s: a scrape that meets it comes back when that is over."""
    found = batches(made("host_detokenize", 10.0), "metrics/")
    latencies = column(found, "latency.scrape")
    assert max(latencies) > 1.0
    assert sorted(latencies)[len(latencies) // 2] < 0.01
