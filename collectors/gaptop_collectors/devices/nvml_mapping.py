"""The sentence for a device of which it is not known whether the watched server runs on it. Pure."""

from __future__ import annotations

from gaptop_collectors.devices.nvml_gauges import Gauges
from gaptop_collectors.devices.nvml_processes import UNKNOWN


def mapping(gauges: Gauges) -> str:
    """To be put behind other sentences; "" where the server's processes on the device are known."""
    if gauges.occupants.pids is not None:
        return ""
    why = gauges.occupants.why or gauges.unsupported.get("device.foreign_processes", "nobody was listed yet")
    return f" The server's processes on it: {why if UNKNOWN in why else f'{UNKNOWN}, {why}'}."
