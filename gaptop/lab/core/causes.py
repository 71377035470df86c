"""What a device (or a running request) can wait for, and the verdict that is right for it. One table."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.model import Cause

CAUSES: Final[dict[str, Cause]] = {
    # Host work on the critical path, whichever thread does it.
    "schedule": "host_starvation",
    "prepare_batch": "host_starvation",
    "launch": "host_starvation",
    "sample": "host_starvation",
    "detokenize": "host_starvation",  # also where the output thread holds the interpreter that the engine wants
    "tokenize": "host_starvation",
    "multimodal": "host_starvation",
    "grammar": "host_starvation",
    "gc": "host_starvation",
    "log": "host_starvation",
    # The critical thread had work and no core, or was stopped.
    "core_quota": "host_starvation",
    "run_queue": "host_starvation",
    "stopped": "host_starvation",
    # The host waits for the device, for a copy, or ranks for one another.
    "device_sync": "synchronisation",
    "copy": "synchronisation",
    "straggler": "synchronisation",
    "collective": "synchronisation",
    # Outside the engine.
    "remote_kv": "external_wait",
    "deferred": "external_wait",  # for what, nothing tells
    "load": "external_wait",
    "paging": "external_wait",
    "compile": "compiling",
    "graph_capture": "compiling",
    # Scheduling and memory.
    "admission": "admission_stall",
    "prefill": "prefill_interference",
    "kv_transfer": "prefill_interference",  # between a prefill and a decode device
    "blocks": "cache_pressure",
    "recompute": "cache_pressure",
    "swap": "cache_pressure",
    "demand": "no_demand",
    # The device works, but not at its speed, or not for us.
    "power": "device_limit",
    "thermal": "device_limit",
    "co_tenant": "device_limit",
    "wedge": "stalled_busy",
    # Nothing waits: what the sources say is not so.
    "stale_gauge": "artefact",
    "phantom": "artefact",
}
"""``Idle.waited_for`` and ``Stall.waited_for`` to the right verdict."""
