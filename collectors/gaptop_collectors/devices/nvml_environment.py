"""Odd machines: what NVML cannot tell there, as sentences.

Sources for what is missing where: public issue threads (Jetson, DGX Spark, WSL2, containers) and NVIDIA's nvml.h.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gaptop_collectors.devices.nvml_calls import CallFailed, Calls
from gaptop_collectors.devices.nvml_machine import Machine

_INTEGRATED: Final = re.compile(r"\b(GB10|Orin|Thor|Xavier|Tegra)\b|nvgpu", re.IGNORECASE)
_JETSON: Final = re.compile(r"\b(Orin|Thor|Xavier|Tegra)\b|nvgpu", re.IGNORECASE)
_OPERATING_SYSTEM: Final = 17
_GPU_IS_LOST: Final = 15
_RESET_REQUIRED: Final = 16
_VERSION_MISMATCH: Final = 18


@dataclass(frozen=True, slots=True)
class Traits:
    """What a GPU says of itself. None: it does not tell."""

    virtual: bool = False
    persistent: bool | None = None


def traits(calls: Calls, handle: Any) -> Traits:
    """Never raises: a call that fails leaves its answer out, and whether the GPU is lost other calls tell."""
    nvml = calls.nvml
    mode, persistent = (
        _asked(calls, function, handle)
        for function in (nvml.nvmlDeviceGetVirtualizationMode, nvml.nvmlDeviceGetPersistenceMode)
    )
    return Traits(mode == nvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU, None if persistent is None else persistent == 1)


def _asked(calls: Calls, function: Callable[..., Any], handle: Any) -> int | None:
    try:
        return int(calls(function, handle))
    except CallFailed:
        return None


def shares_memory(name: str) -> bool:
    """A GPU on the same chip as the CPU, with the host's memory."""
    return _INTEGRATED.search(name) is not None


def remarks(name: str, machine: Machine, seen: Traits, utilisation: bool) -> list[str]:
    """Sentences on what is odd about this GPU here; none for an ordinary one. ``utilisation``: whether it tells any."""
    told: list[str] = []
    if not utilisation and _JETSON.search(name):
        told.append(
            "A Jetson's NVML tells little: tegrastats shows its load (GR3D_FREQ); gaptop still finds stalls from the "
            "server's own tokens."
        )
    if machine.wsl:
        told.append(
            "Under WSL2 NVML is only part of itself (the driver is Windows' own, no processes are listed): for the "
            "rest run the server on Linux itself."
        )
    if seen.virtual:
        told.append(
            "A virtual GPU (vGPU guest): what other guests do on the same board cannot be seen, and can slow this one."
        )
    if seen.persistent is False and not machine.wsl:
        told.append(
            "Persistence mode is off, so the driver drops this GPU when its last user ends and the next one waits a "
            "second or more for it; gaptop's open session keeps it awake. To keep it so: sudo nvidia-smi -pm 1."
        )
    return told


def lost(label: str, index: int, words: str, code: int, machine: Machine) -> str:
    """A GPU that answered and does not any more: what it means, and the remedy as far as the code tells."""
    hole = f"{label} does not answer any more ({words}), so its lanes have a hole from here"
    if code == _GPU_IS_LOST:
        return f"{hole}: it has fallen off the bus; see dmesg for an Xid (79), and reboot the machine."
    if code == _RESET_REQUIRED:
        return f"{hole}: it must be reset; end what uses it, then sudo nvidia-smi --gpu-reset -i {index}."
    if code == _VERSION_MISMATCH:
        return (
            f"{hole}: the driver was replaced while gaptop ran; start gaptop again, and reboot (or unload and load the "
            "nvidia modules) if the server does not start either."
        )
    if code == _OPERATING_SYSTEM or machine.container:
        return (
            f"{hole}: the container has probably lost its devices (a systemctl daemon-reload on the host takes them "
            "away); restart the container."
        )
    return (
        f"{hole}: see dmesg for an Xid; after a driver upgrade start gaptop again; in a container restart it (a "
        "systemctl daemon-reload on the host takes devices away)."
    )
