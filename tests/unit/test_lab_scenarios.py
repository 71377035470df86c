"""The named scenarios: what the live driver is offered is only what it can play."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from gaptop.cli.demo import demo
from gaptop.lab.core.events import DeviceSpan, HostSpan
from gaptop.lab.core.simulation import Simulation
from gaptop.lab.live.plan import FrontPlan
from gaptop.lab.scenarios import SCENARIOS

RUNNER = {"prepare_batch", "launch", "sample", "device_sync", "compile", "copy", "collective"}
PLAYED = {
    "engine": RUNNER | {"schedule", "grammar", "gc", "log", "load", "kv_transfer", "worker_wait", "idle"},
    "tokenizer": {"tokenize", "multimodal"},
    "output": {"detokenize"},
    "worker": RUNNER | {"idle"},
}
"""Phases that the live driver's threads have functions for; test_lab_dialect.py looks at each."""
SLEPT = {"device_sync", "idle", "copy", "load", "kv_transfer", "worker_wait", "collective"}


@pytest.mark.parametrize("name", sorted(name for name, each in SCENARIOS.items() if each.live))
def test_the_live_driver_has_a_function_for_all_that_its_scenarios_ask_for(name: str) -> None:
    engine = SCENARIOS[name].engine
    crowded = any(fault.place == "oversubscription" for fault in SCENARIOS[name].faults)
    for event in Simulation(SCENARIOS[name], 1).events(15.0):
        if isinstance(event, HostSpan):
            assert event.phase in PLAYED[event.thread.split("/")[0]]
            assert crowded or not event.waits_core
            # Where threads share an interpreter, who schedules may wait for it.
            assert event.blocked is (event.phase in SLEPT) or (event.phase == "schedule" and engine.single_process)
        elif isinstance(event, DeviceSpan):
            assert event.device < (2 if engine.disaggregated else engine.tensor_parallel_size)


def test_the_demo_lists_what_can_be_played_and_says_what_cannot() -> None:
    listed, _, others = CliRunner().invoke(demo, ["--list"]).output.partition("not in real time")
    lines = [line.split(maxsplit=1) for line in listed.splitlines() if line.startswith("  ")]
    playable = {name: each.says for name, each in SCENARIOS.items() if each.live}
    assert {name: says.strip() for name, says in lines} == playable
    assert lines[0][0] == "tour"
    assert "gaptop lab run NAME -o FILE" in others
    assert [name for name, each in SCENARIOS.items() if not each.live] == others.splitlines()[1].strip().split(", ")
    refused = CliRunner().invoke(demo, ["paging"])
    assert refused.exit_code == 2
    assert "gaptop lab run paging" in refused.output


def test_the_demo_lists_each_scenario_under_its_cause() -> None:
    title = ""
    for line in CliRunner().invoke(demo, ["--list"]).output.splitlines():
        if not line.startswith("  "):
            title = line.rstrip(":")
        elif (scenario := SCENARIOS.get(line.split()[0])) is not None and scenario.live:
            one = scenario.causes[0].replace("_", " ") if scenario.causes else "nothing wrong"
            assert title == ("several causes" if len(scenario.causes) > 1 else one)


@pytest.mark.parametrize("name", ["straggler", "host_stopped", "host_oversubscribed", "disaggregated"])
def test_what_is_about_several_processes_is_not_played_as_llama_server(name: str) -> None:
    refused = CliRunner().invoke(demo, [name, "--dialect", "llamacpp", "--for", "1s"])
    assert refused.exit_code == 2
    assert "leave --dialect out" in refused.output


def test_a_front_end_that_was_stopped_has_no_work_of_that_time_to_catch_up_with() -> None:
    plan = FrontPlan(Simulation(SCENARIOS["host_stopped"], 1))
    free, longest = 0.0, 0.0
    while free < 9.0:
        step = plan.step()
        longest = max(longest, step.end - max(step.start, free))
        free = step.end
    assert 0.0 < longest < 0.01
