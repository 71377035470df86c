"""Turns recorded vLLM /metrics bodies with their times into a stream; skips where the recordings are not at hand."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gaptop.recording.lines import Batch, Header, Line, Source, Tick, Watermark

FOLDER = Path(os.environ.get("GAPTOP_RECORDINGS", Path(__file__).parents[3] / "shared" / "data"))
SIGNALS = {
    "vllm:num_requests_running": "sched.running",
    "vllm:num_requests_waiting": "sched.waiting",
    "vllm:kv_cache_usage_perc": "kv.used",
    "vllm:num_preemptions_total": "sched.preemptions",
    "vllm:generation_tokens_total": "tokens.decode",
    "vllm:prompt_tokens_total": "tokens.prompt",
    "vllm:iteration_tokens_total_count": "step.count",
    "vllm:request_success_total": "sched.finished",
}
SOURCE = "metrics/http://127.0.0.1:8001"
LATE = {"tokens.prompt": "prompt_end", "sched.preemptions": "late", "sched.finished": "finish"}


def _files(name: str) -> dict[str, bytes]:
    path = FOLDER / "vllm" / f"{name}.tar.xz"
    if not path.is_file():
        pytest.skip(f"the recording {name} is not at hand (set GAPTOP_RECORDINGS to its folder)")
    with tarfile.open(path) as archive:
        found = {}
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.endswith((".prom", "times.tsv")):
                found[Path(member.name).name] = content.read()
        return found


def _values(body: bytes) -> dict[str, float]:
    wanted = [line for line in body.decode().splitlines() if line.startswith(tuple(SIGNALS))]
    values: dict[str, float] = {}
    for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
        for sample in family.samples:
            signal = SIGNALS.get(sample.name)
            if signal is not None:
                values[signal] = values.get(signal, 0.0) + sample.value
    return values


def recorded(name: str) -> list[Line]:
    """The lines of one recording: the metrics source alone, with ticks."""
    files = _files(name)
    times = [line.split("\t") for line in io.StringIO(files["times.tsv"].decode()).read().splitlines()[1:]]
    origin = float(times[0][1]) - 0.25
    entity = {"url": "http://127.0.0.1:8001", "engine": "vllm", "version": "0.32", "model": "tiny", "pids": [1]}
    signals = [*sorted(SIGNALS.values()), "latency.scrape"]
    lines: list[Line] = [
        Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00+00:00", 1, {"name": "recorded"}),
        Source(0.0, SOURCE, "engines.vllm", "server", entity, signals, 0.5, refresh="step", refresh_by_signal=LATE),
    ]
    tick = 0.25
    for index, start, end, _ in times:
        t = float(end) - origin
        while tick < t:
            lines.append(Tick(tick))
            tick += 0.25
        values = {**_values(files[f"{index}.prom"]), "latency.scrape": float(end) - float(start)}
        lines.append(Batch(SOURCE, [t], {key: [value] for key, value in values.items()}))
        lines.append(Watermark(SOURCE, t))
    return [*lines, Tick(tick), Tick(tick + 0.25)]
