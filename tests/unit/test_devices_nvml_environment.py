"""Odd machines: how they are told, and what is said; and the sentence on how a GPU's utilisation is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gaptop_collectors.devices.nvml_calls import Calls
from gaptop_collectors.devices.nvml_environment import Traits, lost, remarks, shares_memory, traits
from gaptop_collectors.devices.nvml_machine import Machine, look
from gaptop_collectors.devices.nvml_ring import Period
from gaptop_collectors.devices.nvml_says import apart, from_polls, from_ring, resolution

pynvml = pytest.importorskip("pynvml")
HOST = "pid:[4026531836]"


def unreadable(path: str) -> str:
    raise OSError


@pytest.mark.parametrize(
    ("there", "release", "link", "found"),
    [
        ([], "6.8.0-51-generic", lambda path: HOST, Machine()),
        ([], "6.8.0-51-generic", lambda path: "pid:[4026532511]", Machine(container=True)),
        ([], "6.8.0-51-generic", unreadable, Machine()),
        (["/dev/dxg"], "6.8.0", lambda path: HOST, Machine(wsl=True)),
        ([], "5.15.167.4-microsoft-standard-WSL2", lambda path: "pid:[4026532201]", Machine(wsl=True)),
    ],
)
def test_machines(there: list[str], release: str, link: Callable[[str], str], found: Machine) -> None:
    assert look(there.__contains__, lambda: release, link) == found
    assert found.away == (found != Machine())


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("Orin (nvgpu)", True),
        ("NVIDIA Thor", True),
        ("NVIDIA GB10", True),
        ("NVIDIA GB200", False),
        ("NVIDIA H100 80GB HBM3", False),
        ("NVIDIA GeForce RTX 5090", False),
    ],
)
def test_gpus_without_memory_of_their_own(name: str, shared: bool) -> None:
    assert shares_memory(name) == shared


@pytest.mark.parametrize(
    ("name", "machine", "seen", "utilisation", "words"),
    [
        ("NVIDIA H100", Machine(), Traits(False, True), True, []),
        ("NVIDIA H100", Machine(container=True), Traits(False, None), True, []),
        ("Orin (nvgpu)", Machine(), Traits(), False, ["tegrastats"]),
        ("NVIDIA Thor", Machine(), Traits(), True, []),
        ("NVIDIA A100", Machine(), Traits(), False, []),
        ("NVIDIA GeForce RTX 4090", Machine(wsl=True), Traits(False, False), True, ["WSL2"]),
        ("GRID A100D-40C", Machine(), Traits(True, True), True, ["vGPU"]),
        ("NVIDIA GeForce RTX 3090", Machine(), Traits(False, False), True, ["sudo nvidia-smi -pm 1"]),
    ],
)
def test_what_is_odd_is_said_and_nothing_else(
    name: str, machine: Machine, seen: Traits, utilisation: bool, words: list[str]
) -> None:
    told = remarks(name, machine, seen, utilisation)
    assert len(told) == len(words)
    assert all(word in text for word, text in zip(words, told, strict=True))


@pytest.mark.parametrize(
    ("code", "machine", "remedy"),
    [
        (pynvml.NVML_ERROR_GPU_IS_LOST, Machine(), "off the bus"),
        (pynvml.NVML_ERROR_RESET_REQUIRED, Machine(), "--gpu-reset -i 3"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, Machine(), "driver was replaced"),
        (pynvml.NVML_ERROR_OPERATING_SYSTEM, Machine(), "restart the container"),
        (pynvml.NVML_ERROR_UNKNOWN, Machine(container=True), "restart the container"),
        (pynvml.NVML_ERROR_UNKNOWN, Machine(), "dmesg"),
    ],
)
def test_a_lost_gpu_has_its_remedy(code: int, machine: Machine, remedy: str) -> None:
    text = lost("GPU 3 (H100)", 3, "its words", code, machine)
    assert remedy in text
    assert "its words" in text
    assert "hole" in text


def test_traits_that_cannot_be_asked_are_not_told() -> None:
    class Library:
        def __getattr__(self, name: str) -> object:
            return getattr(pynvml, name)

        def nvmlDeviceGetVirtualizationMode(self, handle: object) -> int:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

        def nvmlDeviceGetPersistenceMode(self, handle: object) -> int:
            raise pynvml.NVMLLibraryMismatchError("unversioned")

    assert traits(Calls(Library()), None) == Traits(False, None)  # type: ignore[arg-type]


def test_the_sentence_of_a_healthy_gpu_is_short_and_whole() -> None:
    how = resolution(0.2, Period(0.2, 0.003, 20), False)
    assert from_ring(how, "boot", "percent", None, 0.2) == (
        "Resolution 200 ms (measured), jitter 3 ms, every window from the driver's ring, stamps of the boot clock, "
        "whole per cents."
    )
    assert "rounded down" in from_ring(how, "epoch", "down", None, 0.2)


def test_what_is_not_measured_now_is_not_said_to_be() -> None:
    assert "measured on an earlier run" in resolution(0.167, Period(0.167, 0.0, 0), True)
    assert "assumed" in resolution(0.2, None, False)
    assert "measured" not in resolution(0.2, None, False)
    assert "polled (there is none)" in from_polls(resolution(0.2, None, False), "there is none", "percent")


def test_a_polled_value_that_changes_otherwise_than_the_ring_is_said() -> None:
    how = resolution(0.2, Period(0.2, 0.003, 20), False)
    text = from_ring(how, "boot", "percent", Period(0.5, 0.01, 20), 0.2)
    assert "500 ms" in text
    assert "ring is trusted" in text
    assert "Resolution 200 ms" in text
    assert not apart(Period(0.204, 0.01, 20), 0.2)
    assert not apart(None, 0.2)
