"""All ranks in a collective: a slow one moves bytes between the devices, a hung one does not."""

from __future__ import annotations

from typing import Any

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys.evidence import Evidence, Gauge, Traffic
from gaptop.valleys.gather_device import link
from gaptop.valleys.model import Finding
from gaptop.valleys.reference import Reference
from gaptop.valleys.verdict import judge, verdict

from .valley_server import server
from .valley_streams import ENGINE, Stream, classify, only, stairs, total, valleys_of

ASKED = Gauge(mean=8.0, low=8.0, high=8.0, first=8.0, last=8.0)
NVLINK = ("device.nvlink_tx", "from the device over NVLink")


def stalled(rate: float | None, before: float | None = 2e9, **more: Any) -> Evidence:
    """Two busy devices that draw a third of their power while nothing comes; the link's bytes a second now and then."""
    asked: dict[str, Any] = {"busy": 1.0, "busy_level": 1.0, "devices": 2, "decode_rate": 0.0, "step_rate": 0.0}
    asked |= {"decode_before": 800.0, "step_before": 100.0, "power_ratio": 0.33, "prompt_rate": 0.0, "prompt_flow": 0.0}
    asked |= {
        "prompt_settled": True,
        "in_flight": ASKED,
        "link": None if rate is None else Traffic(*NVLINK, rate, before),
        **more,
    }
    return Evidence("progress", "vllm", 0.0, 3.0, **asked)


def of(cause: str, seen: Evidence) -> Finding:
    (found,) = (item for item in judge(seen) if item.cause == cause)
    return found


@pytest.mark.parametrize(
    ("rate", "cause", "detail"),
    [
        (2e9, "synchronisation", "collective: all ranks are in it, bytes move"),
        (1.2e9, "synchronisation", "collective: all ranks are in it, bytes move"),
        (150e9, "synchronisation", "collective: all ranks are in it, bytes move"),
        (0.0, "stalled_busy", "spin or wedge: busy at low power"),
        (0.1e9, "stalled_busy", "spin or wedge: busy at low power"),
    ],
)
def test_bytes_between_the_devices_tell_a_slow_collective_from_a_hung_one(rate: float, cause: str, detail: str) -> None:
    said = verdict(stalled(rate), (), confirmed=True)
    assert (said.cause, said.detail, said.confidence) == (cause, detail, "high")
    assert any("GB/s from the device over NVLink (before: 2.00 GB/s)" in fact.says for fact in said.evidence)
    other = "stalled_busy" if cause == "synchronisation" else "synchronisation"
    assert of(other, stalled(rate)).score < 0.3


@pytest.mark.parametrize(
    ("seen", "unseen"),
    [
        (stalled(None), "link counters not seen"),
        (stalled(0.5e9), "some bytes moved"),
        # What launching moves says nothing of a way that was not counted.
        (stalled(0.0, 2.5e6), "link counters not seen"),
        (stalled(0.0, None), "link counters not seen"),
        (stalled(0.0, 0.0), "link counters not seen"),
    ],
)
def test_without_the_links_it_is_less_sure_and_the_other_comes_next(seen: Evidence, unseen: str) -> None:
    said = verdict(seen, (), confirmed=True)
    assert (said.cause, said.confidence) == ("stalled_busy", "medium")
    assert said.runner_up is not None
    assert said.runner_up[0] == "synchronisation"
    assert said.score <= 0.7
    assert any(text.startswith(unseen) for text in said.unseen)


def test_the_unseen_counters_come_with_their_remedy() -> None:
    assert any("DCGM" in text for text in verdict(stalled(None), (), confirmed=True).unseen)


def test_one_device_has_nobody_to_send_to() -> None:
    for rate in (None, 2e9, 0.0):
        said = verdict(stalled(rate, devices=1), (), confirmed=True)
        assert (said.cause, said.confidence) == ("stalled_busy", "high")
        assert not any("link" in text for text in said.unseen)


def test_what_ordinary_steps_at_the_edges_moved_is_no_slow_collective() -> None:
    # Read coarsely, a fifth of the usual steps lies inside of it, and with them their bytes.
    seen = stalled(0.24e9, decode_rate=160.0, step_rate=20.0, inner_progress=0.0, before=None)
    assert of("synchronisation", seen).score < 0.5
    edges = stalled(0.44e9, decode_rate=160.0, step_rate=20.0, inner_progress=0.0)
    said = verdict(edges, (), confirmed=True)
    assert (said.cause, said.confidence) == ("stalled_busy", "high")


@pytest.mark.parametrize(
    ("more", "cause", "most"),
    [
        # A long prefill moves bytes as well, and draws more than a collective.
        (
            {"power_ratio": 1.2, "prompt_rate": 100.0, "prompt_flow": 6000.0, "prompt_before": 100.0},
            "prefill_interference",
            0.4,
        ),
        ({"power_ratio": None, "prompt_flow": 6000.0, "prompt_before": 100.0}, "prefill_interference", 0.4),
        ({"power_ratio": None}, "synchronisation", 0.6),
        ({"power_ratio": 1.0, "prompt_late": True, "prompt_settled": False}, "prefill_interference", 0.4),
    ],
)
def test_a_prefill_moves_bytes_as_well(more: dict[str, Any], cause: str, most: float) -> None:
    seen = stalled(20e9, running=None, **more)
    assert of("synchronisation", seen).score <= most
    assert of("stalled_busy", seen).score <= 0.25


def test_steps_that_all_are_slow_beside_busy_devices_at_low_power_are_slow_collectives() -> None:
    seen = stalled(0.5e9, decode_rate=160.0, step_rate=20.0, power_ratio=0.4)
    said = verdict(seen, (), confirmed=True)
    assert (said.cause, said.detail, said.confidence) == ("synchronisation", "collective: slow in every step", "medium")
    assert "nvlink" in said.advice


@pytest.mark.parametrize(
    "more",
    [
        {"power_ratio": 0.9},
        {"decode_rate": 700.0, "step_rate": 90.0},
        {"devices": 1},
        {"busy": 0.6},
        {"limit_share": 0.9, "limit_share_before": 0.0, "limit_reason": "sw_power_cap"},
        {"foreign": 1.0},
        {"clock_ratio": 0.5},
    ],
)
def test_slow_steps_with_another_reason_are_no_slow_collectives(more: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"decode_rate": 160.0, "step_rate": 20.0, "power_ratio": 0.4, **more}
    assert judge(stalled(0.5e9, **asked))[0].cause != "synchronisation"


# What is gathered.


@pytest.mark.parametrize(("every", "told"), [(0.25, True), (1.0, True), (2.0, False)])
def test_a_link_is_read_often_enough_to_tell_of_the_time(every: float, told: bool) -> None:
    moved = {"device.nvlink_tx": total((0, 2e9), (12, 0)), "device.pcie_tx": total((0, 1e7))}
    timeline = Timeline(classify)
    for line in Stream(20).device(stairs((0, 1.0)), every=every, more=moved).metrics(server()).lines():
        timeline.apply(line)
    found = link(timeline, ("nvml/GPU-a",), 12.0, 15.0, Reference(timeline, ((4.0, 11.0),)))
    assert (found is not None) == told
    if found is not None:
        assert found.signal == "device.nvlink_tx"
        assert found.before == pytest.approx(2e9)
        assert found.rate <= 2e9 * every / 3.0 + 1.0


def busy_ranks(now: float | None) -> Stream:
    """Two devices that spin for 4 s while the ranks' tokens stand still."""
    stopped = {
        name: total((0, rate), (12, 0), (16, rate)) for name, rate in (("tokens__decode", 800), ("step__count", 100))
    }
    stream = Stream(24)
    for index in range(2):
        more = {} if now is None else {"device.pcie_tx": total((0, 0.5e9), (12, now), (16, 0.5e9))}
        stream.device(
            stairs((0, 1.0)), source=f"nvml/GPU-{index}", power=stairs((0, 300), (12, 100), (16, 300)), more=more
        )
    return stream.metrics(server(**stopped)).stacks(ENGINE, "engine", lambda t: "worker_wait")


@pytest.mark.parametrize(
    ("now", "cause", "sure"),
    [(10e9, "synchronisation", "high"), (0.0, "stalled_busy", "high"), (None, "stalled_busy", "medium")],
)
def test_whole_valleys_of_spinning_ranks(now: float | None, cause: str, sure: str) -> None:
    said = only(valleys_of(busy_ranks(now)), kind="progress").verdict
    assert (said.cause, said.confidence) == (cause, sure)
    assert {part.cause for part in said.segments} == {cause}
