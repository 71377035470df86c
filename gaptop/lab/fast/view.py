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
class PySpyCosts:
    """What py-spy's budget is planned with: seconds of CPU of one sample for each Python thread, of a recorder's start,
    and of reading what it wrote. ``idle_threads``: how many the server has beside those that the simulation moves
    (libraries' pools, telemetry); they wait, and cost as much to look at.
    """

    thread: float
    start: float = 0.009
    reading: float = 0.009
    idle_threads: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """Defaults are full evidence: a ring of 200 ms windows, two scrapes a second, threads at the default budget's rate.

    ``window_s``: NVML's boxcar (1/6, 0.2 or 0.5 s); a reading appears ``ring_lag_s`` after it, whole per cents are made
    by ``rounding``, and the ring is drained each ``drain_s``. ``ring_late``: share of the time that it stands still
    and then brings all at once; ``ring_lost``: of its entries that are unusable. ``gpm``: the GPU has activity
    counters; ``nvlink``: ranks talk over NVLink instead of PCIe.

    ``stacks_hz`` is the engine's rate, the front end gets a third of it; None: py-spy may not attach. With ``pyspy``
    rates, windows and rests are those of the real plan instead. ``strange``: share of a working thread's samples whose
    stack no rule knows; ``failed``: of its reads that fail; ``clock_error_s``: how far the times of a window of stacks
    may be off, which the source says itself. ``gc_callbacks``: the server was started so that a garbage collection
    shows as a frame of its own, and not as whatever allocated.

    ``states``: run states from /proc; ``host``: processes, cgroup, whole host. ``sync_spins``: a thread that waits for
    the device keeps its core meanwhile, as where CUDA was not told to block. ``outages``, and ``own_calls`` (from when
    to when a call of gaptop's own holds the driver), are in seconds of the stream.
    ``start_s``: how long the server has run at the stream's time 0.
    """

    window_s: float = 0.2
    rounding: Literal["nearest", "down"] = "nearest"
    ring_lag_s: float = 0.007
    drain_s: float = 0.25
    ring_late: float = 0.0
    ring_lost: float = 0.0
    nvml: bool = True
    power: bool = True
    gpm: bool = False
    nvlink: bool = False
    dialect: Dialect = "vllm"
    scrape_s: float = 0.5
    refresh: Refresh = "step"
    stacks_hz: float | None = 50.0
    pyspy: PySpyCosts | None = None
    strange: float = 0.0
    failed: float = 0.0
    clock_error_s: float = 0.02
    sync_spins: bool = False
    states: bool = True
    host: bool = True
    gc_callbacks: bool = False
    outages: tuple[Outage, ...] = ()
    own_calls: tuple[tuple[float, float], ...] = ()
    start_s: float = 0.0
