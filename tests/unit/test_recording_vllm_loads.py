"""The recording of a real vLLM that README shows: what is said of it is what was done, and it tells of no machine.

It was made by ``python -m tests.real.record_vllm``: steady load, silence, long prompts, more clients than the sequence
cap, a full KV cache.
"""

from __future__ import annotations

import gzip
import re

import pytest

from gaptop.recording.lines import Frames, Header
from gaptop.recording.reader import open_stream
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop_collectors.host.activities import load_activities
from tests.screenshots.streams import VLLM

_MACHINE = re.compile(r"/(root|home|work|tmp|opt|mnt|srv)/|site-packages/gaptop|[\w.]+@[\w.]+")


@pytest.fixture(scope="module")
def said() -> Assessment:
    timeline = Timeline(load_activities().classify)
    analyst = Analyst(timeline)
    for line in open_stream(VLLM):
        timeline.apply(line)
        analyst.apply(line)
    return analyst.finish()


def test_it_is_small_and_says_nothing_of_the_machine_it_was_made_on() -> None:
    assert VLLM.stat().st_size <= 300_000
    assert not _MACHINE.search(gzip.decompress(VLLM.read_bytes()).decode())
    header, *lines = open_stream(VLLM)
    assert isinstance(header, Header)
    assert not header.simulated
    assert header.host == {"name": "host", "cores": 2}
    stacks = [stack for line in lines if isinstance(line, Frames) for stack in line.stacks.values()]
    files = {file for stack in stacks for _, file, _ in stack}
    assert len(files) > 20
    assert all(file.startswith("/lib/python") or file.count("/") <= 1 for file in files)


def test_each_condition_is_named_and_no_other_cost_anything(said: Assessment) -> None:
    causes = [valley.verdict.cause for valley in said.valleys]
    assert set(causes) == {"no_demand", "prefill_interference", "cache_pressure"}
    in_order = [cause for cause, before in zip(causes, [None, *causes], strict=False) if cause != before]
    assert in_order[:3] == ["no_demand", "prefill_interference", "no_demand"]
    [pressed] = [valley for valley in said.valleys if valley.verdict.cause == "cache_pressure"]
    assert pressed.verdict.detail == "preemption thrash"
