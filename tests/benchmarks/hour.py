"""A made recording: lines as a probe writes them at the default rates, for as long as asked.

A device (5 windows a second, delivered four times a second), a vLLM-like server (2 scrapes a second), two processes
with four watched threads each (/proc windows 4 times a second, stacks in 4-second windows), ticks, health, watermarks.
Each minute holds one second without demand and one in which the host keeps the device waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gaptop.recording.lines import (
    FORMAT,
    VERSION,
    Batch,
    Frames,
    Header,
    Health,
    Line,
    Self,
    Source,
    Spans,
    Tick,
    Watermark,
)
from gaptop.recording.writer import StreamWriter

DEVICE, SERVER = "nvml/GPU-0", "metrics/http://127.0.0.1:8000"
_PIDS: Final = {100: "engine", 200: "api"}
_THREADS: Final = 4
_QUARTERS: Final = 4
_ROOT: Final = ["run_engine_core", "vllm/v1/engine/core.py", 1]
_STACKS: Final = {
    "0": [_ROOT, ["schedule", "vllm/v1/core/sched/scheduler.py", 10]],
    "1": [_ROOT, ["execute_model", "vllm/v1/worker/gpu_model_runner.py", 20]],
    "2": [_ROOT, ["synchronize", "torch/cuda/streams.py", 30]],
    "3": [["run", "threading.py", 1], ["wait", "threading.py", 5]],
}


def lines(seconds: int) -> Iterator[Line]:
    """The whole stream."""
    yield Header(FORMAT, VERSION, "0", "2025-03-14T14:02:20Z", 1, {"name": "bench", "kernel": "6.1", "cores": 8})
    yield from _sources()
    tokens = steps = prompt = 0.0
    for quarter in range(seconds * _QUARTERS):
        t = (quarter + 1) / _QUARTERS
        phase = t % 60
        asked, fed = not 20 <= phase < 21, not 40 <= phase < 41
        working = asked and fed
        tokens, steps, prompt = tokens + 500 * working, steps + 10 * working, prompt + 40 * working
        yield from _device(quarter, working)
        for pid in _PIDS:
            yield from _threads(pid, t, fed)
            if quarter % 16 == 15:
                yield from _stacks(pid, t)
        if quarter % 2:
            yield from _scrape(t, asked, tokens, steps, prompt)
        if quarter % 4 == 3:
            yield from _health(t)
        if quarter % 8 == 7:
            yield Self(t, 0.06 * t, 60_000_000, 0.03 * t)
        yield Tick(t)


def write(path: Path, seconds: int) -> int:
    """Into a recording; gives the number of lines."""
    writer, count = StreamWriter(path, compress=True, max_size=None), 0
    for line in lines(seconds):
        writer.write(line)
        count += 1
    writer.close()
    return count


def _sources() -> Iterator[Line]:
    device = {"uuid": "GPU-0", "name": "Bench GPU", "kind2": "gpu", "index": 0, "pids": [100]}
    shown = ["device.busy", "device.power", "device.clock_sm"]
    yield Source(0.0, DEVICE, "devices.nvml", "device", device, shown, 0.2, window=0.2, window_measured=True)
    server = {"url": "http://127.0.0.1:8000", "engine": "vllm", "version": "0.11.0", "model": "m", "pids": [*_PIDS]}
    told = ["sched.running", "sched.waiting", "kv.used", "tokens.decode", "tokens.prompt", "step.count"]
    yield Source(0.0, SERVER, "engines.vllm", "server", server, told, 0.5, refresh="step")
    for pid, role in _PIDS.items():
        threads = [{"tid": pid + n, "name": f"thread {n}"} for n in range(_THREADS)]
        entity = {"pid": pid, "role": role, "name": role, "critical_tid": pid, "threads": threads}
        signals = ["host.oncpu", "host.runqueue_wait", "host.blocked"]
        yield Source(0.0, f"proc/{pid}", "host.threads_proc", "process", entity, signals, 0.25, window=0.25)
        yield Source(0.0, f"threads/{pid}", "host.threads_pyspy", "process", entity, (), 4.0, error=0.05)
        yield Frames(f"threads/{pid}", {str(pid * 10 + int(number)): stack for number, stack in _STACKS.items()})


def _device(quarter: int, working: bool) -> Iterator[Line]:
    """Windows of 200 ms as a ring read each 250 ms gives them."""
    until = (quarter + 1) * 5 // 4
    times = [n / 5 for n in range(quarter * 5 // 4 + 1, until + 1)]
    busy = [0.97 + 0.01 * (n % 3) if working else 0.0 for n in range(len(times))]
    watts = [90.0 + 250 * each for each in busy]
    if times:
        clocks = [1.9e9] * len(times)
        yield Batch(DEVICE, times, {"device.busy": busy, "device.power": watts, "device.clock_sm": clocks})
        yield Watermark(DEVICE, times[-1])


def _threads(pid: int, t: float, fed: bool) -> Iterator[Line]:
    values: dict[str, list[float | None]] = {}
    for n in range(_THREADS):
        ran = (0.6 if fed else 0.99) if n == 0 else 0.02
        values[f"host.oncpu{{tid={pid + n}}}"] = [ran]
        values[f"host.runqueue_wait{{tid={pid + n}}}"] = [0.001]
        values[f"host.blocked{{on=futex,tid={pid + n}}}"] = [1 - ran - 0.001]
    yield Batch(f"proc/{pid}", [t], values)
    yield Watermark(f"proc/{pid}", t)


def _stacks(pid: int, t: float) -> Iterator[Line]:
    """Four seconds of 30 changes a second on the main thread, of few on the others."""
    begun = t - 4.0
    starts = [begun + n / 30 for n in range(120)]
    ends = [*starts[1:], t]
    tids = [pid] * 120 + [pid + n for n in range(1, _THREADS)]
    numbers = [pid * 10 + n % 3 for n in range(120)] + [pid * 10 + 3] * (_THREADS - 1)
    starts, ends = starts + [begun] * (_THREADS - 1), ends + [t] * (_THREADS - 1)
    yield Spans(f"threads/{pid}", (begun, t), tids, starts, ends, numbers)
    yield Watermark(f"threads/{pid}", t)


def _scrape(t: float, asked: bool, tokens: float, steps: float, prompt: float) -> Iterator[Line]:
    gauges = {"sched.running": 24.0 if asked else 0.0, "sched.waiting": 0.0, "kv.used": 0.4 + 0.001 * (t % 60)}
    counters = {"tokens.decode": tokens, "tokens.prompt": prompt, "step.count": steps}
    yield Batch(SERVER, [t - 0.005], {key: [value] for key, value in (gauges | counters).items()})
    yield Watermark(SERVER, t - 0.005)


def _health(t: float) -> Iterator[Line]:
    every = {DEVICE: "devices.nvml", SERVER: "engines.vllm"}
    every |= {f"proc/{pid}": "host.threads_proc" for pid in _PIDS}
    every |= {f"threads/{pid}": "host.threads_pyspy" for pid in _PIDS}
    for source, collector in every.items():
        yield Health(t, source, collector, "ok", t - 0.1, 0.25, 0.003)
