"""What goes over the links between the simulated GPUs: each step's reductions, much in a slow collective, else none."""

from __future__ import annotations

import pytest

from gaptop.lab.core.events import DeviceSpan, DeviceWork
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Clients
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.links import Link
from gaptop.lab.fast.nvml import uuid
from gaptop.lab.fast.view import View

from .lab_fast import batches

SOURCE = f"nvml/{uuid(0)}"


def span(start: float, end: float, tokens: int, kind: DeviceWork = "step") -> DeviceSpan:
    return DeviceSpan(start, end, 1, 0, 0, tokens, 0.0, 0, kind)


def test_each_token_of_a_step_is_reduced_twice_a_layer() -> None:
    link = Link(2, 10e9)
    link.add(span(0.0, 0.1, 8))
    assert link.read(0.05) == pytest.approx(4 * 64 * 8192)
    assert link.read(1.0) == pytest.approx(8 * 64 * 8192)


def test_more_ranks_send_each_byte_more_often_and_one_sends_none() -> None:
    sent = []
    for ranks in (1, 2, 4):
        link = Link(ranks, 10e9)
        link.add(span(0.0, 0.1, 8))
        sent.append(link.read(1.0))
    assert sent == [0.0, pytest.approx(8 * 64 * 8192), pytest.approx(1.5 * 8 * 64 * 8192)]


@pytest.mark.parametrize(("kind", "sent"), [("transfer", 5e9), ("collective", 0.0), ("wedge", 0.0), ("foreign", 0.0)])
def test_only_a_transfer_sends_where_no_step_runs(kind: DeviceWork, sent: float) -> None:
    link = Link(2, 10e9)
    link.add(span(1.0, 2.0, 0, kind))
    assert link.read(1.5) == pytest.approx(sent)


def rate(fault: Fault | None, way: str, view: View, ranks: int = 2) -> float:
    """Bytes a second between 5.5 and 7 s, in which the fault holds."""
    clients = Clients(count=12, start=0.0, until=60.0, prompt=(60, 100), output=(40, 70))
    engine = EngineConfig(tensor_parallel_size=ranks)
    scenario = Scenario("links", "", (), 60.0, (clients,), () if fault is None else (fault,), engine=engine)
    read = [batch for batch in batches(tuple(Fast(scenario, 1, 9.0, view).lines()), SOURCE) if way in batch.values]
    inside = [(batch.t[0], batch.values[way][0] or 0.0) for batch in read if 5.5 <= batch.t[0] <= 7.0]
    (first, low), (last, high) = inside[0], inside[-1]
    return (high - low) / (last - first)


@pytest.mark.parametrize(("way", "view"), [("device.pcie_tx", View()), ("device.nvlink_tx", View(nvlink=True))])
def test_a_slow_collective_moves_bytes_and_a_hung_one_or_a_late_rank_none(way: str, view: View) -> None:
    usual = rate(None, way, view)
    assert usual > 40e6
    assert rate(Fault("collective", 5.0, 3.0), way, view) > 2 * usual
    assert rate(Fault("wedge", 5.0, 3.0), way, view) < 0.05 * usual
    assert rate(Fault("straggler", 5.0, 3.0), way, view) < 0.05 * usual


def test_one_device_moves_what_launching_takes() -> None:
    assert rate(None, "device.pcie_tx", View(), ranks=1) < 5e6
