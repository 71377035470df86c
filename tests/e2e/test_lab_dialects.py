"""The live lab in other dialects, found and read by the real collectors."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gaptop.lab.launch import Lab, LabInfo
from gaptop_collectors.collector import Batch, Collector, Message, SourceInfo
from gaptop_collectors.engines.llamacpp import LlamaCppEngine
from gaptop_collectors.engines.registry import make_engine
from gaptop_collectors.engines.vllm import VllmEngine
from gaptop_collectors.target import HttpOptions, Server


@pytest.fixture(scope="module")
def old_vllm() -> Iterator[LabInfo]:
    with Lab() as lab:
        yield lab.start("steady", dialect="vllm-0.8")


@pytest.fixture(scope="module")
def llama() -> Iterator[LabInfo]:
    with Lab() as lab:
        yield lab.start("steady", dialect="llamacpp")


def unknown(info: LabInfo) -> Collector:
    """A collector that has to find out whose metrics these are."""
    return make_engine(Server(info.url, "unknown"), HttpOptions())


def values(messages: Sequence[Message]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for message in messages:
        if isinstance(message, Batch):
            found |= {key: column[-1] for key, column in message.values.items()}
    return found


def described(messages: Sequence[Message]) -> SourceInfo:
    return next(message for message in messages if isinstance(message, SourceInfo))


def settled(collector: Collector) -> dict[str, float | None]:
    """Values once the chats run."""
    found = values(collector.open())
    deadline = time.monotonic() + 10.0
    while (found.get("sched.running") or 0.0) < 15:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
        found = values(collector.sample())
    return found


def rate(collector: Collector, signal_name: str) -> float:
    """Of a counter, over a second."""
    before, begun = values(collector.sample())[signal_name] or 0.0, time.monotonic()
    time.sleep(1.0)
    after = values(collector.sample())[signal_name] or 0.0
    return (after - before) / (time.monotonic() - begun)


def test_a_vllm_of_0_8_is_read_by_its_older_names(old_vllm: LabInfo) -> None:
    assert (old_vllm.engine, old_vllm.version) == ("vllm", "0.8.5+lab")
    collector = VllmEngine(Server(old_vllm.url, "vllm"), HttpOptions())
    found = settled(collector)
    text = urllib.request.urlopen(old_vllm.url + "/metrics", timeout=5).read().decode()
    assert "vllm:gpu_cache_usage_perc" in text
    assert "vllm:kv_cache_usage_perc" not in text
    assert 0.1 < (found["kv.used"] or 0.0) < 0.5
    assert not any(key.startswith("sched.waiting_by_reason") for key in found)
    assert 500 < rate(collector, "tokens.decode") < 1500
    collector.close()


def test_a_llama_server_is_found_by_its_metrics_and_read_from_both_paths(llama: LabInfo) -> None:
    assert (llama.engine, llama.version) == ("llamacpp", "b6500-lab")
    collector = unknown(llama)
    found = settled(collector)
    assert found["sched.limit"] == 32
    assert found["sched.waiting"] == 0
    assert "kv.used" not in found  # nothing that it says tells whether its slots share one cache
    assert 500 < rate(collector, "tokens.decode") < 1500
    assert 25 < rate(collector, "step.count") < 70
    info = described(LlamaCppEngine(Server(llama.url, "llamacpp"), HttpOptions()).open())
    assert (info.entity["version"], info.entity["model"]) == ("b6500-lab", "simulated-8b (lab)")
    assert json.loads(urllib.request.urlopen(llama.url + "/health", timeout=5).read()) == {"status": "ok"}
    collector.close()


def test_a_llama_server_is_one_process_and_ends_as_one() -> None:
    with Lab() as running:
        info = running.start("steady", dialect="llamacpp")
        [process] = info.processes
        assert process.role == "server"
        assert Path(f"/proc/{process.pid}/comm").read_text().strip() == process.name
        os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 5.0
        while Path(info.feed).parent.exists():
            assert time.monotonic() < deadline, "the folder is still there"
            time.sleep(0.05)


def test_each_rank_is_a_process_with_a_device_and_ends_with_the_server() -> None:
    with Lab() as running:
        info = running.start("straggler")
        workers = [process for process in info.processes if process.role == "worker"]
        assert [process.name for process in workers] == ["LAB::Worker_TP0", "LAB::Worker_TP1"]
        for process in workers:
            assert Path(f"/proc/{process.pid}/comm").read_text().strip() == process.name
        deadline = time.monotonic() + 10.0
        lines: list[dict[str, object]] = []
        while len(lines) < 12:
            assert time.monotonic() < deadline, "no windows came"
            time.sleep(0.1)
            lines = [json.loads(line) for line in Path(info.feed).read_text().splitlines()[:-1]]
        owners = {str(line["uuid"]): line["pids"] for line in lines}
        assert [owners[uuid] for uuid in sorted(owners)] == [[process.pid] for process in workers]
        os.kill(info.processes[0].pid, signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while any(Path(f"/proc/{process.pid}/cmdline").exists() and _lives(process.pid) for process in workers):
            assert time.monotonic() < deadline, "a worker is still there"
            time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
