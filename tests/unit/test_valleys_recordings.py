"""Recorded /metrics of a real vLLM, judged without device and threads: what metrics alone can tell."""

from __future__ import annotations

import pytest

from gaptop.recording.lines import Frames, Line, Source, Spans, Watermark
from gaptop.valleys.model import Valley

from .valley_recordings import recorded
from .valley_streams import analyse


def valleys(lines: list[Line]) -> tuple[Valley, ...]:
    return analyse(lines)[1].valleys


@pytest.mark.parametrize(("name", "silences"), [("bursty", 2), ("combined_bursty", 2)])
def test_silences_between_bursts_are_no_demand(name: str, silences: int) -> None:
    found = valleys(recorded(name))
    assert [item.verdict.cause for item in found] == ["no_demand"] * silences
    assert all(item.tokens_lost == 0.0 for item in found)
    assert all("front end not seen" in item.verdict.unseen[0] for item in found)


def test_kv_exhaustion_is_cache_pressure() -> None:
    found = valleys(recorded("kvpressure"))
    assert found
    assert {item.kind for item in found} == {"progress"}
    assert {item.verdict.cause for item in found} == {"cache_pressure"}
    assert found[0].start_s < 4.0


def test_requests_above_the_cap_are_never_no_demand() -> None:
    found = valleys(recorded("maxseqs"))
    assert all(item.verdict.cause != "no_demand" for item in found)


def test_frozen_engine_is_a_progress_valley_of_twelve_seconds_without_a_proved_cause() -> None:
    stall, silence = valleys(recorded("jit_stall"))
    assert (stall.kind, stall.verdict.cause) == ("progress", "unknown")
    assert (stall.end_s or 0.0) - stall.start_s == pytest.approx(12.0, abs=1.0)
    assert "threads not seen" in stall.verdict.unseen
    assert "no_demand" in {item.cause for item in stall.verdict.excluded}
    assert silence.verdict.cause == "no_demand"


def test_frozen_engine_with_compile_frames_is_compiling() -> None:
    source = "threads/3"
    entity = {"pid": 3, "role": "worker", "name": "Worker", "critical_tid": 3, "threads": []}
    lines: list[Line] = []
    for line in recorded("jit_stall"):
        lines.append(line)
        if isinstance(line, Source):
            signals = ["host.thread_activity"]
            lines.append(Source(0.0, source, "host.threads_pyspy", "process", entity, signals, 0.02))
            lines.append(Frames(source, {"1": [["compile", "compile_fx.py", 1]], "2": [["poll", "shm.py", 1]]}))
            spans = [(0.0, 5.4, 2), (5.4, 17.0, 1), (17.0, 28.0, 2)]
            lines += [Spans(source, (a, b), [3], [a], [b], [stack]) for a, b, stack in spans]
            lines.append(Watermark(source, 30.0))
    stall = valleys(lines)[0]
    assert (stall.verdict.cause, stall.verdict.detail) == ("compiling", "JIT")
    assert stall.confirmed


def test_long_prompts_beside_decoders_are_never_no_demand_or_cache_pressure() -> None:
    for name in ("prefill_truth", "combined_prefill"):
        for item in valleys(recorded(name)):
            assert item.verdict.cause in ("prefill_interference", "unknown")
