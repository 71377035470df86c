"""Named machines and GPUs for the stand-in: what each offers, and where that is known from.

``{"devices": [{"profile": "a100", "series": [...]}]}``: the device's own keys come on top of the profile's, and its
``unsupported`` is added to the profile's. A profile may also say something of the whole machine (its driver). "facts"
are the sections of the project's notes on NVML; the issues are public. What is marked as expected was never measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Profile:
    """Keys of the device, and of the whole configuration; C functions that the driver has not got."""

    device: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


UTILISATION: Final = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetSamples")
PROCESSES: Final = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
)
POWER: Final = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "field:83",
    "field:185",
    "field:186",
    "field:191",
)
MEMORY: Final = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
CLOCKS: Final = ("nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo")
REASONS: Final = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetSupportedClocksEventReasons",
    *(f"field:{number}" for number in (74, 75, 76, 77, 78, 79, 269, 270, 271)),
)
PCIE: Final = ("nvmlDeviceGetPcieThroughput", "field:197", "field:198")
POWER_LIMIT: Final = "nvmlDeviceGetEnforcedPowerLimit"
TEMPERATURE: Final = "nvmlDeviceGetTemperature"
MIG_MODE: Final = "nvmlDeviceGetMigMode"
SAMPLED_QUARTER: Final = (100, 25)
"""Instant power of A100 and H100: taken anew each 100 ms, from 25 ms of it (facts 1.4)."""

_GEFORCE: Final = {"unsupported": [MIG_MODE], "power_ms": (100, 100), "usage_average": True}  # facts 1.1, 1.4
_HOPPER: Final = {"arch": 9, "compute": "9.0", "gpm": True, "power_ms": SAMPLED_QUARTER, "usage_average": True}

PROFILES: Final[Mapping[str, Profile]] = {
    # Windows of 200 ms, 5 ms late: facts 1.2, measured. GetPowerUsage a one-second mean: facts 1.1. No GPM: facts 1.5.
    "rtx_3090": Profile(
        {**_GEFORCE, "name": "NVIDIA GeForce RTX 3090", "arch": 7, "compute": "8.6", "delay_ms": 5, "watts": (25, 350)}
        | {"memory_total": 24 << 30, "power_limit": 350}
    ),
    # About 200 ms: facts 1.2, measured. GPM is not in the hardware: NVIDIA/dcgm-exporter#294 and #404.
    "rtx_4090": Profile(
        {**_GEFORCE, "name": "NVIDIA GeForce RTX 4090", "arch": 8, "compute": "8.9", "watts": (20, 450)}
        | {"memory_total": 24 << 30, "power_limit": 450}
    ),
    # GPM on GeForce begins with Blackwell: NVIDIA/DCGM#234. 200 ms are expected (facts 1.2).
    "rtx_5090": Profile(
        {**_GEFORCE, "name": "NVIDIA GeForce RTX 5090", "arch": 10, "compute": "12.0", "watts": (30, 575), "gpm": True}
        | {"memory_total": 32 << 30, "power_limit": 575}
    ),
    # Windows of a sixth of a second: facts 1.2, measured. Power of 10 ms each 20 ms: facts 1.4.
    "v100": Profile(
        {"name": "Tesla V100-SXM2-16GB", "arch": 5, "compute": "7.0", "window_ms": 1000 / 6, "power_ms": (20, 10)}
        | {"watts": (40, 300), "memory_total": 16 << 30, "power_limit": 300, "unsupported": [MIG_MODE]}
    ),
    # 202 ms, 10 ms late: facts 1.2, measured. GA100's GetPowerUsage is instant: facts 1.1. No GPM: facts 1.5.
    "a100": Profile(
        {"name": "NVIDIA A100-SXM4-40GB", "arch": 7, "compute": "8.0", "window_ms": 202, "power_ms": SAMPLED_QUARTER}
        | {"watts": (60, 400), "memory_total": 40 << 30, "power_limit": 400}
    ),
    # GPM: facts 1.5; 200 ms are expected (facts 1.2). NVLink 4 counts in fields 138 and 139: facts 1.1.
    "h100": Profile(
        {**_HOPPER, "name": "NVIDIA H100 80GB HBM3", "watts": (70, 700)} | {"nvlink_links": 18, "nvlink_rate": 1e9}
    ),
    # Utilisation is not supported under MIG, GPM is: facts 1.5 and 1.7 (Syllo/nvtop#256). One index has no slice.
    "h100_mig": Profile(
        {**_HOPPER, "name": "NVIDIA H100 80GB HBM3", "watts": (70, 700), "mig": True}
        | {
            "mig_slices": [
                {"uuid": "MIG-h100-0", "profile": "1g.10gb", "gpu_instance": 9, "share": 1.0},
                None,
                {"uuid": "MIG-h100-2", "profile": "3g.40gb", "gpu_instance": 2, "share": 0.5, "memory_total": 40 << 30},
            ]
        }
    ),
    # Neither utilisation (facts 1.7) nor GPM (facts 1.5) for slices before Hopper.
    "a100_mig": Profile(
        {"name": "NVIDIA A100-SXM4-40GB", "arch": 7, "compute": "8.0", "window_ms": 202, "mig": True}
        | {
            "mig_slices": [
                {"uuid": "MIG-a100-0", "profile": "1g.5gb", "memory_total": 5 << 30},
                {"uuid": "MIG-a100-1", "profile": "2g.10gb", "memory_total": 10 << 30},
            ]
        }
    ),
    # JetPack 6 and 7: the session opens, then nearly nothing is supported: facts 1.7 (rbonghi/jetson_stats#698).
    "jetson_orin": Profile(
        {"name": "Orin (nvgpu)", "uuid": "GPU-orin", "arch": 7, "compute": "8.7"}
        | {
            "unsupported": [
                *(*UTILISATION, *PROCESSES, *POWER, *MEMORY, *CLOCKS, *REASONS, *PCIE),
                *(POWER_LIMIT, TEMPERATURE, MIG_MODE, "nvmlDeviceGetPersistenceMode"),
            ]
        }
    ),
    # Utilisation works; memory, clocks and power do not: facts 1.7 (rbonghi/jetson_stats#867 and #889).
    "jetson_thor": Profile(
        {"name": "NVIDIA Thor", "uuid": "GPU-thor", "arch": 10, "compute": "11.0"}
        | {"unsupported": [*MEMORY, *CLOCKS, *POWER, POWER_LIMIT, MIG_MODE]}
    ),
    # No memory of its own, no power limit, a ring that is dry for minutes while idle: facts 1.3 and 1.7
    # (polarsignals/gpu-metrics-agent#37, Syllo/nvtop#449). After how long it runs dry is assumed.
    "gb10": Profile(
        {"name": "NVIDIA GB10", "uuid": "GPU-gb10", "arch": 10, "compute": "12.1", "dry_idle": 5}
        | {"unsupported": [*MEMORY, POWER_LIMIT, MIG_MODE]}
    ),
    # The same machine where the size of its memory is answered as 0: facts 1.7 (XuehaiPan/nvitop PR#208 shows both).
    "gb10_zero": Profile(
        {"name": "NVIDIA GB10", "uuid": "GPU-gb10", "arch": 10, "compute": "12.1", "dry_idle": 5}
        | {"memory_total": 0, "memory_used": 0, "unsupported": [POWER_LIMIT, MIG_MODE]}
    ),
    # NVML in part, nothing of processes: facts 1.7 (microsoft/WSL#11277, Syllo/nvtop#382). That the rings are missing
    # is assumed.
    "wsl2": Profile(
        {"name": "NVIDIA GeForce RTX 4090", "arch": 8, "compute": "8.9", "memory_total": 24 << 30}
        | {"unsupported": [*PROCESSES, "nvmlDeviceGetSamples", "nvmlDeviceGetPersistenceMode", *PCIE, MIG_MODE]}
    ),
    # A time-sliced guest: utilisation works, no GPM (facts 1.5), no PCIe (facts 1.1). Mode 2 is a vGPU's: nvml.h.
    "vgpu": Profile(
        {"name": "NVIDIA A40-12Q", "arch": 7, "compute": "8.6", "virtualization": 2, "memory_total": 12 << 30}
        | {"unsupported": [*PCIE, MIG_MODE]}
    ),
    # A MIG-backed guest with the whole frame buffer: GPM, but no utilisation: facts 1.5 and 1.7.
    "vgpu_mig": Profile(
        {"name": "NVIDIA H100-1-10C", "arch": 9, "compute": "9.0", "virtualization": 2, "memory_total": 10 << 30}
        | {"gpm": True, "unsupported": [*PCIE, *UTILISATION, MIG_MODE]}
    ),
    # Without a client the GPU goes down, and each session makes it ready again in 1.47 s: pop-os/system76-power#492.
    "persistence_off": Profile({"persistence": 0}, {"init_ms": 1470}),
    # Clock event reasons came with driver 535, process utilisation as a structure with 550 (facts 1.1), GPM with
    # Hopper's first.
    "old_driver": Profile(
        {"arch": 7, "compute": "8.6"},
        {"driver": "470.256.02"},
        (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetSupportedClocksEventReasons",
            "nvmlDeviceGetProcessesUtilizationInfo",
            *(f"nvmlGpm{name}" for name in ("QueryDeviceSupport", "SampleAlloc", "SampleFree", "SampleGet")),
            *(f"nvmlGpm{name}" for name in ("MigSampleGet", "MetricsGet")),
        ),
    ),
    # The package was upgraded, the loaded module is the old one: XuehaiPan/nvitop#41, Syllo/nvtop#95.
    "driver_replaced": Profile({}, {"init_error": 18}),
    # systemctl daemon-reload on the host takes a container's devices away: NVIDIA/nvidia-container-toolkit#48.
    "container_reload": Profile({"fail": (999, 5.0, 0)}),
}


def applied(device: Mapping[str, Any]) -> tuple[Profile, dict[str, Any]]:
    """The device's profile, and the device with what that says. Raises KeyError for a profile that is none."""
    profile = PROFILES[device["profile"]] if "profile" in device else Profile()
    own = {key: value for key, value in device.items() if key != "profile"}
    together = {**profile.device, **own}
    if "series" in own and "watts" not in own:
        together.pop("watts", None)  # a series has its own
    if "unsupported" in own:
        together["unsupported"] = [*profile.device.get("unsupported", ()), *_listed(own["unsupported"])]
    return profile, together


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
