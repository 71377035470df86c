"""Which collectors a configuration gives, and that a missing module is only a health line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from gaptop.probe.assembly import plans
from gaptop.probe.config import parse
from gaptop.probe.tellers import Tellers
from gaptop_collectors.collector import SourceInfo
from gaptop_collectors.devices.cpu import CpuDevice
from gaptop_collectors.devices.dcgm import DcgmExporter
from gaptop_collectors.devices.dcgm_device import DcgmDevice
from gaptop_collectors.devices.dcgm_fields import Key
from gaptop_collectors.devices.nvml import NvmlDevices
from gaptop_collectors.target import HttpOptions

SERVER = {"url": "http://127.0.0.1:8000", "engine": "vllm", "pids": [1]}


def names(**config: Any) -> list[str]:
    return [plan.name for plan in plans(parse(json.dumps(config)))]


def test_without_a_server_there_are_the_devices() -> None:
    assert names() == ["devices.nvml"]
    assert names(gpu=False) == []


def test_a_server() -> None:
    assert names(servers=[SERVER]) == [
        "devices.nvml",
        "engines.vllm",
        "devices.cpu",
        "host.threads_pyspy",
        "host.threads_proc",
        "host.process",
        "host.cgroup",
    ]


def test_what_was_turned_off_is_not_there() -> None:
    assert names(servers=[SERVER], host=False, gpu=False) == ["engines.vllm"]
    assert "host.threads_pyspy" not in names(servers=[SERVER], threads="off")
    assert "host.threads_proc" in names(servers=[SERVER], threads="off")


def test_a_device_feed_stands_in_for_the_devices() -> None:
    found = names(servers=[SERVER], feeds=["/run/feed"], gpu=False, simulated=True)
    assert found[0] == "devices.feed"
    assert "devices.cpu" not in found


def test_the_cpu_device_learns_from_nvml_who_is_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {plan.name: plan for plan in plans(parse(json.dumps({"servers": [SERVER]})))}
    cpu, nvml = made["devices.cpu"].make(), made["devices.nvml"].make()
    assert isinstance(cpu, CpuDevice)
    assert isinstance(nvml, NvmlDevices)
    assert not cpu._on_gpu(7)
    monkeypatch.setattr(nvml, "have", lambda pid: pid == 7)
    assert cpu._on_gpu(7)
    assert not cpu._on_gpu(8)


def test_exporters_are_devices_of_their_own() -> None:
    assert names(dcgm=["gpu-a", "gpu-b"]) == ["devices.nvml", "devices.dcgm", "devices.dcgm:2"]
    assert names(dcgm=["gpu-a"], gpu=False) == ["devices.dcgm"]


def test_an_exporter_gets_none_of_the_servers_headers() -> None:
    (plan,) = plans(parse(json.dumps({"dcgm": ["gpu-a"], "gpu": False, "headers": {"Authorization": "Bearer abc"}})))
    exporter = plan.make()
    assert isinstance(exporter, DcgmExporter)
    assert exporter._endpoint._options.headers == {}


def test_nvml_is_believed_before_an_exporter_and_an_exporter_before_later_ones() -> None:
    def told(uuid: str, signals: Sequence[str], **entity: str) -> SourceInfo:
        return SourceInfo(f"nvml/{uuid}", "devices.nvml", "device", {"uuid": uuid, **entity}, signals, 0.25)

    tellers = Tellers()
    tellers.hear([told("GPU-1", ["device.busy"]), told("GPU-2", []), told("MIG-a", ["device.busy"], parent="GPU-2")])
    tellers.hear([told("GPU-3", []), told("MIG-b", ["device.memory_used"], parent="GPU-3")])
    assert [tellers.told_by("a", f"GPU-{n}", "") for n in range(1, 5)] == ["NVML on this host"] * 3 + [""]
    assert tellers.told_by("a", "", "GPU-2") == "NVML on this host"
    assert tellers.told_by("a", "", "GPU-3") == "", "NVML has no utilisation of its slices"
    for address, key in (("a", Key("GPU-4", "")), ("b", Key("GPU-5", "1"))):
        tellers.exporters[address] = DcgmExporter(address, HttpOptions())
        tellers.exporters[address]._devices[key] = DcgmDevice(address, key, 0)
    assert tellers.told_by("a", "GPU-4", "") == ""
    assert tellers.told_by("b", "GPU-4", "") == "the dcgm-exporter at http://a:9400"
    assert tellers.told_by("c", "", "GPU-5") == "the dcgm-exporter at http://b:9400"
    assert tellers.told_by("a", "", "GPU-5") == "", "the first one is believed"


def test_making_the_plans_imports_no_collector() -> None:
    code = (
        "import sys; from gaptop.probe.assembly import plans; from gaptop.probe.config import parse\n"
        f"plans(parse({json.dumps(json.dumps({'servers': [SERVER]}))}))\n"
        "heavy = {'aiohttp', 'asyncio', 'psutil', 'pynvml', 'numpy', 'textual'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
