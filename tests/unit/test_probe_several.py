"""Several servers in one probe: devices and threads are read once for all, and every server is told of at once."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from gaptop.probe.announced import Announced
from gaptop.probe.assembly import plans
from gaptop.probe.config import parse
from gaptop_collectors.collector import Batch, CollectorError, Message, SourceInfo
from gaptop_collectors.devices.cpu import CpuDevice
from gaptop_collectors.devices.nvml import NvmlDevices
from gaptop_collectors.engines import registry
from gaptop_collectors.host.threads_proc import ProcThreads
from gaptop_collectors.host.threads_pyspy import PySpyThreads
from gaptop_collectors.target import HttpOptions, Server, ServerProcess

OWN = {"pid": os.getpid(), "role": "engine", "name": "a"}
PARENT = {"pid": os.getppid(), "role": "server", "name": "b"}
SERVERS = [
    {"url": "http://127.0.0.1:8000", "engine": "vllm", "processes": [OWN], "headers": {"Authorization": "Basic x"}},
    {"url": "http://127.0.0.1:8001", "engine": "llamacpp", "processes": [PARENT]},
]


def made(**config: Any) -> dict[str, Any]:
    """Collectors by the names of their plans."""
    found = plans(parse(json.dumps({"servers": SERVERS, "headers": {"X-A": "1"}, **config})))
    assert len({plan.name for plan in found}) == len(found), "a name tells one collector from all others"
    return {plan.name: plan.make() for plan in found}


def test_devices_and_threads_are_read_once_for_all_servers() -> None:
    found = made()
    assert set(found) == {
        "devices.nvml",
        *(
            f"{name}:127.0.0.1:{port}"
            for name in ("devices.cpu", "host.process", "host.cgroup")
            for port in (8000, 8001)
        ),
        *("engines.vllm:127.0.0.1:8000", "engines.llamacpp:127.0.0.1:8001"),
        *("host.threads_pyspy", "host.threads_proc"),
    }
    nvml, threads, states = found["devices.nvml"], found["host.threads_pyspy"], found["host.threads_proc"]
    assert isinstance(nvml, NvmlDevices)
    assert isinstance(threads, PySpyThreads)
    assert isinstance(states, ProcThreads)
    for collector in (nvml, threads, states):
        assert collector._processes is not None
        assert {one.pid for one in collector._processes.current()} == {os.getpid(), os.getppid()}


def test_cpu_devices_of_servers_of_one_name_have_names_of_their_own() -> None:
    found = [one for one in made(gpu=False).values() if isinstance(one, CpuDevice)]
    for one in found:
        one._servers = tuple(one._processes.current())
    assert [one._source for one in found] == ["cpu/127.0.0.1:8000", "cpu/127.0.0.1:8001"]


def test_only_one_speaks_for_the_host() -> None:
    found = made()
    assert [found[f"host.cgroup:127.0.0.1:{port}"]._host for port in (8000, 8001)] == [True, False]


def test_why_no_process_is_seen_is_asked_only_where_none_is() -> None:
    gone = [SERVERS[0], {"url": "http://elsewhere:1", "engine": "vllm"}]
    every = made(servers=gone)["host.threads_proc"]._processes
    assert [one.pid for one in every.current()] == [os.getpid()]
    assert every.why_empty() == ""
    assert "elsewhere" in made(servers=gone[1:])["host.threads_proc"]._processes.why_empty()


class Engine:
    """Counts what is done with it; opening it fails so many times."""

    name, period, deadline = "engines.vllm", 0.25, 0.9

    def __init__(self, failures: list[CollectorError]) -> None:
        self.failures = failures
        self.done: list[str] = []

    def open(self) -> Sequence[Message]:
        self.done.append("open")
        if self.failures:
            raise self.failures.pop()
        return [Batch("metrics/http://a:1", [1], {"sched.running": [1.0]})]

    def sample(self) -> Sequence[Message]:
        self.done.append("sample")
        return []

    def boost(self, seconds: float) -> None:
        self.done.append("boost")

    def close(self) -> None:
        self.done.append("close")


def test_a_server_is_told_of_before_it_answers_and_read_once_it_does() -> None:
    engine = Engine([CollectorError("nothing there yet")])
    server = Server("http://a:1", "vllm", model="m", processes=(ServerProcess(7, "api", "x", True, 1),))
    collector = Announced(server, lambda: engine)
    [info] = collector.open()
    assert isinstance(info, SourceInfo)
    assert (info.source, info.kind, info.signals) == ("metrics/http://a:1", "server", ())
    assert (info.entity["url"], info.entity["model"], info.entity["pids"]) == ("http://a:1", "m", [7])
    assert engine.done == [], "nothing is asked before that"
    collector.boost(1.0)
    with pytest.raises(CollectorError, match="nothing there yet"):
        collector.sample()
    assert engine.done == ["open", "close"]
    [batch] = collector.sample()
    assert isinstance(batch, Batch)
    assert (collector.period, collector.deadline) == (0.25, 0.9)
    collector.sample()
    collector.boost(1.0)
    collector.close()
    assert engine.done == ["open", "close", "open", "sample", "boost", "close"]


def test_each_server_gets_its_own_headers_and_those_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def make(server: Server, http: HttpOptions, processes: object) -> Engine:
        seen[server.url] = dict(http.headers)
        return Engine([])

    monkeypatch.setattr(registry, "make_engine", make)
    for name, collector in made(gpu=False).items():
        if name.startswith("engines."):
            collector.open()
            collector.sample()
    assert seen == {
        "http://127.0.0.1:8000": {"X-A": "1", "Authorization": "Basic x"},
        "http://127.0.0.1:8001": {"X-A": "1"},
    }
