"""Opening NVML's session, and the sentences for one that cannot be opened."""

from __future__ import annotations

import contextlib
from types import ModuleType

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.devices.nvml_calls import CallFailed, Calls
from gaptop_collectors.devices.nvml_machine import look


def load() -> ModuleType:
    """The official binding; CollectorError when something else, or nothing, is called pynvml."""
    try:
        import pynvml
    except ImportError:
        raise CollectorError(
            "The Python package nvidia-ml-py is missing, so no GPU can be seen: pip install nvidia-ml-py.",
            state="absent",
            retry=False,
        ) from None
    module: ModuleType = pynvml
    if not hasattr(module, "nvmlDeviceGetFieldValues") or not hasattr(module, "NVMLLibraryMismatchError"):
        raise CollectorError(
            "Another package than nvidia-ml-py (or a very old one) is installed as 'pynvml', so no GPU can be seen: "
            "pip uninstall nvidia-ml-py3 py3nvml pynvml, then pip install --force-reinstall nvidia-ml-py.",
            retry=False,
        )
    return module


def start(nvml: ModuleType) -> int:
    """Open the session; the number of devices. Raises CollectorError with the remedy."""
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError) as error:
        raise _start_error(nvml, error) from None
    try:
        count = int(nvml.nvmlDeviceGetCount())
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError) as error:
        stop(nvml)
        raise _start_error(nvml, error) from None
    if count == 0:
        stop(nvml)
        raise CollectorError(
            "The NVIDIA driver is loaded but shows no GPU here, so no device lane can be drawn: in a container start "
            "it with --gpus all, else check nvidia-smi -L.",
            state="absent",
        )
    return count


def stop(nvml: ModuleType) -> None:
    """Close the session, as far as the driver lets us."""
    with contextlib.suppress(nvml.NVMLError, nvml.NVMLLibraryMismatchError):
        nvml.nvmlShutdown()


def driver(calls: Calls) -> str:
    """The driver's version; "" where it is not told."""
    try:
        return str(calls(calls.nvml.nvmlSystemGetDriverVersion))
    except CallFailed:
        return ""


def _start_error(nvml: ModuleType, error: Exception) -> CollectorError:
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND and look().wsl:
        return CollectorError(
            "No NVIDIA driver library (libnvidia-ml.so.1) in this WSL2 system, so no GPU can be seen: update the "
            "driver in Windows (none is to be installed here) and see that /usr/lib/wsl/lib is in the library path.",
            state="absent",
            retry=False,
        )
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return CollectorError(
            "No NVIDIA driver library (libnvidia-ml.so.1) on this machine, so no GPU can be seen: install the driver, "
            "or in a container start it with --gpus all.",
            state="absent",
            retry=False,
        )
    if code == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return CollectorError(
            "The NVIDIA kernel driver is not loaded, so no GPU can be seen: sudo modprobe nvidia (or start the machine "
            "again after installing the driver).",
            state="absent",
        )
    if code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return CollectorError(
            "The NVIDIA library and the loaded kernel driver have different versions (the driver was upgraded), so no "
            "GPU can be seen: reboot, or unload and load the nvidia modules, then start gaptop again.",
            retry=False,
        )
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return CollectorError(
            "This user may not open the NVIDIA devices, so no GPU can be seen: check the rights of /dev/nvidia* (often "
            "the group 'video' or 'render'), or run gaptop with sudo.",
            state="refused",
        )
    if code == nvml.NVML_ERROR_FUNCTION_NOT_FOUND or isinstance(error, nvml.NVMLLibraryMismatchError):
        return CollectorError(
            "The NVIDIA driver is too old for its Python binding, so no GPU can be seen: update the driver.",
            retry=False,
        )
    return CollectorError(
        f"NVML does not start ({error}), so no GPU can be seen: check that nvidia-smi works, and in a container "
        "restart it (a systemctl daemon-reload on the host takes its devices away)."
    )
