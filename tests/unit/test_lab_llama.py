"""The lab's llama-server: what it shows adds up, through the real collector's parts, to what was simulated."""

from __future__ import annotations

import json

import pytest

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.dialect.llamacpp.slots import Slots
from gaptop.lab.live.llama_http import LlamaEndpoints
from gaptop.lab.scenarios import SCENARIOS
from gaptop_collectors.engines.llamacpp_slots import Booked, Counted, Progress, Slot, parse_slots


@pytest.mark.parametrize("name", ["steady", "prefill_interference", "random", "shared_prefixes"])
def test_tokens_add_up_to_the_simulation(name: str) -> None:
    scenario = SCENARIOS[name]
    server = LlamaEndpoints(scenario.engine, "b1")
    slots: Slots = server._slots
    progress = Progress()
    none = Counted(Booked(0), Booked(0))
    cleared = Slot(999, 0, False, 0, 0, 0, 0)  # so that new tasks' tokens are told from the last ones' at once
    progress.feed([*parse_slots(shown(server)), cleared], none, none)
    decoded = computed = 0
    for event in Simulation(scenario, 1).events(11.0):
        if isinstance(event, DeviceSpan):
            server.launched(event)
        if not isinstance(event, StepDone):
            continue
        server.record(event)
        decoded += len(event.outputs)
        firsts = [each.first for each in event.outputs if each.first is not None]
        computed += sum(first.prompt_tokens - first.cached_tokens for first in firsts)
        found = parse_slots(shown(server))
        progress.feed(found, Counted(Booked(slots.predicted), Booked(slots.computed)))
        assert sum(slot.busy for slot in found) == slots.processing == event.running
        assert slots.deferred == event.waiting
        assert progress.decode == decoded
    assert progress.prompt == slots.computed
    assert decoded > 2000
    assert computed <= slots.computed < computed + 7000  # at most the prompts under way


def test_a_generated_token_is_booked_only_when_its_request_ends() -> None:
    scenario = SCENARIOS["steady"]
    slots = Slots(scenario.engine.max_num_seqs)
    before, ends = 0, 0
    for event in Simulation(scenario, 1).events(3.0):
        if isinstance(event, DeviceSpan):
            slots.launched(event)
        elif isinstance(event, StepDone):
            slots.record(event)
            finished = [each.finished for each in event.outputs if each.finished is not None]
            assert slots.predicted - before == sum(each.output_tokens for each in finished)
            before, ends = slots.predicted, ends + len(finished)
    assert ends > 20


def test_a_slot_that_was_never_used_shows_no_tokens() -> None:
    server = LlamaEndpoints(SCENARIOS["steady"].engine, "b1")
    first = json.loads(shown(server))[0]
    assert set(first) == {"id", "n_ctx", "speculative", "is_processing"}


def shown(server: LlamaEndpoints) -> bytes:
    return json.dumps([server._slot(index, slot) for index, slot in enumerate(server._slots.all)]).encode()
