"""What of the truth is seen, and how: one NVML, one dialect, one set of sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dialect = Literal["vllm", "vllm-0.8", "llamacpp"]
Refresh = Literal["step"] | tuple[Literal["steps"], int] | tuple[Literal["seconds"], float]
"""When the engine's metrics move: with each of its messages, with every n-th, or every so many seconds."""

Outage = tuple[str, float, float]
"""The beginning of sources' ids (``nvml/``, ``metrics/``, ``threads/`` …), and from when to when they are silent."""


@dataclass(frozen=True, slots=True)
class View:
    """Defaults are full evidence: a ring of 200 ms windows, two scrapes a second, threads at the default budget's rate.

    ``window_s``: NVML's boxcar (1/6, 0.2 or 0.5 s); a reading appears ``ring_lag_s`` after it, whole per cents are made
    by ``rounding``, and the ring is drained each ``drain_s``. ``stacks_hz`` is the engine's rate, the front end gets a
    third of it; None: py-spy may not attach. ``states``: run states from /proc; ``host``: processes, cgroup, whole
    host. ``gpm``: the GPU has activity counters. ``gc_callbacks``: the server was started so that a garbage collection
    shows as a frame of its own, and not as whatever allocated. ``outages``, and
    ``own_calls`` (from when to when a call of gaptop's own holds the driver), are in seconds of the stream.
    ``start_s``: how long the server has run at the stream's time 0.
    """

    window_s: float = 0.2
    rounding: Literal["nearest", "down"] = "nearest"
    ring_lag_s: float = 0.007
    drain_s: float = 0.25
    nvml: bool = True
    power: bool = True
    gpm: bool = False
    dialect: Dialect = "vllm"
    scrape_s: float = 0.5
    refresh: Refresh = "step"
    stacks_hz: float | None = 50.0
    states: bool = True
    host: bool = True
    gc_callbacks: bool = False
    outages: tuple[Outage, ...] = ()
    own_calls: tuple[tuple[float, float], ...] = ()
    start_s: float = 0.0
