"""From a simulated server to the report's last section: trends and periods where there are any, and none elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from gaptop.cli.main import cli
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Arrivals, Clients
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.file import write
from gaptop.lab.fast.view import View
from gaptop.lab.scenarios import ROOMY, SCENARIOS

pytestmark = pytest.mark.timeout(600)  # minutes of simulated time on a machine with other work

CHATS = Clients(count=6, start=0.0, until=1e9, prompt=(20, 60), output=(40, 90), once=True)


def recorded(tmp_path: Path, scenario: Scenario, seconds: float) -> Path:
    # Threads say what held a gap up, and nothing of when gaps come and how long they are.
    view = View(start_s=4.0, stacks_hz=None, states=False, power=False)
    path = tmp_path / "run.gaptop"
    write(Fast(scenario, 1, seconds, view), path)
    return path


def report(path: Path) -> dict[str, Any]:
    shown = CliRunner().invoke(cli, ["report", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_gaps_of_documents_grow_with_prompt_length(tmp_path: Path) -> None:
    path = recorded(tmp_path, SCENARIOS["documents"], 240.0)
    (trend,) = (item for item in report(path)["trends"] if item["sentence"])
    assert trend["sentence"].startswith("gap grows with prompt length (rho ")
    assert trend["sentence"].endswith(": prefill scheduling")
    assert "not with output length" in trend["sentence"]
    text = " ".join(CliRunner().invoke(cli, ["report", str(path)]).stdout.split())
    assert trend["sentence"] in text


def test_gaps_of_batches_grow_with_concurrency_and_have_a_period(tmp_path: Path) -> None:
    found = report(recorded(tmp_path, SCENARIOS["batch_work"], 165.0))
    (trend,) = (item for item in found["trends"] if item["sentence"])
    assert trend["sentence"].startswith("gap grows with concurrency (rho 0.9")
    assert trend["sentence"].endswith(": work that grows with the batch")
    (period,) = found["period"]
    assert period["period_s"] == pytest.approx(10.0, abs=0.1)


def test_gaps_at_random_among_documents_that_make_none_have_neither(tmp_path: Path) -> None:
    chance = Random(1)
    faults, at = [], 12.0
    while at < 150.0:
        seconds = chance.uniform(0.5, 4.0)
        faults.append(Fault(chance.choice(("schedule", "device_sync")), at, seconds))
        at += seconds + 2.0 + chance.expovariate(1 / 4.0)
    loads = (CHATS, Arrivals(0.3, 0.0, 200.0, (300, 1500), (8, 24)))
    found = report(recorded(tmp_path, Scenario("random", "", (), 1e4, loads, tuple(faults), engine=ROOMY), 160.0))
    (device,) = (item for item in found["trends"] if item["devices"])
    assert device["valleys"] >= 12
    assert [item["sentence"] for item in found["trends"]] == [None] * len(found["trends"])
    assert found["period"] == []


def test_a_fault_every_five_seconds_is_told_as_such(tmp_path: Path) -> None:
    often = replace(SCENARIOS["steady"], faults=(Fault("device_sync", 10.0, 0.5, every=5.0),), period=1e4)
    (period,) = report(recorded(tmp_path, replace(often, loads=(CHATS,)), 65.0))["period"]
    assert period["sentence"].startswith("every 5 s (±0.0")
    assert period["times"] >= 10
