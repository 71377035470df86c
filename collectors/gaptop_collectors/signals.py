"""The vocabulary: every signal that a collector may deliver, with its unit, its kind and its meaning.

A *kind* says what one reading describes:

* ``window``: the mean over an interval that ends at the reading's time (the source states the window and the lag);
* ``gauge``: the state at one instant, valid until the next reading;
* ``counter``: a cumulative count; two readings give an increment over the interval between them, a fall is a restart.

Units are base units (seconds, bytes, watts, hertz); a ratio lies in 0..1.

One source may deliver a signal several times, told apart by labels. The *key* of such a series is
``name{label=value,label=value}`` with labels sorted by name, or just ``name`` without labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["window", "gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Signal:
    """One entry of the vocabulary."""

    name: str
    unit: str
    kind: Kind
    meaning: str


_TABLE: Final = (
    # The device, as its driver (or, for a CPU server, the kernel) reports it.
    Signal("device.busy", "ratio", "window", "share of the window in which at least one kernel ran (duty cycle)"),
    Signal("device.graphics_active", "ratio", "window", "share of time the compute engine was busy (GPM or DCGM)"),
    Signal("device.sm_active", "ratio", "window", "share of SM cycles with work (GPM or DCGM)"),
    Signal("device.tensor_active", "ratio", "window", "share of cycles a tensor pipe was active (GPM or DCGM)"),
    Signal("device.dram_active", "ratio", "window", "share of cycles device memory was read or written (GPM or DCGM)"),
    Signal("device.memory_busy", "ratio", "window", "share of the window in which device memory was read or written"),
    Signal("device.spinning", "ratio", "window", "share of a CPU device's window shown to be busy-waiting"),
    Signal("device.power", "watts", "gauge", "board power, as instantaneous as the driver offers"),
    Signal("device.power_average", "watts", "gauge", "board power averaged by the driver over about one second"),
    Signal("device.power_limit", "watts", "gauge", "enforced power limit"),
    Signal("device.energy", "joules", "counter", "energy since the driver was loaded"),
    Signal("device.clock_sm", "hertz", "gauge", "SM clock"),
    Signal("device.clock_memory", "hertz", "gauge", "memory clock"),
    Signal("device.temperature", "celsius", "gauge", "GPU temperature"),
    Signal("device.limit_reasons", "bitmask", "gauge", "NVML clocks-event reasons that are active now"),
    Signal("device.limit_seconds", "seconds", "counter", "time a clocks-event reason was active; label reason"),
    Signal("device.pcie_rx", "bytes", "counter", "bytes received over PCIe"),
    Signal("device.pcie_tx", "bytes", "counter", "bytes sent over PCIe"),
    Signal("device.nvlink_rx", "bytes", "counter", "bytes received over all NVLinks"),
    Signal("device.nvlink_tx", "bytes", "counter", "bytes sent over all NVLinks"),
    Signal("device.memory_used", "bytes", "gauge", "device memory in use"),
    Signal("device.memory_total", "bytes", "gauge", "device memory"),
    Signal(
        "device.foreign_processes", "processes", "gauge", "processes on the device that are not the watched server's"
    ),
    Signal("device.own_calls", "seconds", "counter", "time that gaptop's own calls to this device's driver took"),
    Signal("device.own_latency", "seconds", "gauge", "time the driver says one asked field took to update"),
    # The engine's scheduler.
    Signal("sched.running", "requests", "gauge", "requests in the running batch"),
    Signal("sched.waiting", "requests", "gauge", "requests the scheduler knows of and does not run"),
    Signal("sched.waiting_by_reason", "requests", "gauge", "waiting requests; label reason"),
    Signal("sched.limit", "requests", "gauge", "most requests that may run at once (sequence cap or slots)"),
    Signal("sched.token_budget", "tokens", "gauge", "most tokens that one step may schedule"),
    Signal("sched.preemptions", "preemptions", "counter", "running requests thrown back to the queue"),
    Signal("sched.finished", "requests", "counter", "requests that ended, whatever the reason"),
    Signal("sched.http_requests", "requests", "counter", "HTTP requests that the front end has answered"),
    Signal("sched.in_flight", "requests", "gauge", "HTTP requests open in the front end"),
    Signal("sched.sleeping", "ratio", "gauge", "1 while the engine is put to sleep or paused on purpose"),
    # Progress.
    Signal("tokens.prompt", "tokens", "counter", "prompt tokens processed"),
    Signal("tokens.decode", "tokens", "counter", "tokens generated"),
    Signal("tokens.per_step", "tokens", "counter", "tokens of all steps; divide by the increment of step.count"),
    Signal("step.count", "steps", "counter", "engine iterations with output"),
    Signal("slots.prefilling", "requests", "gauge", "running requests that have not produced a token yet"),
    # KV cache.
    Signal("kv.used", "ratio", "gauge", "share of KV blocks that hold live requests"),
    Signal("kv.capacity", "tokens", "gauge", "tokens that the KV cache can hold"),
    Signal("kv.queries", "tokens", "counter", "tokens looked up in the prefix cache"),
    Signal("kv.hits", "tokens", "counter", "tokens found in the prefix cache"),
    # Latency: pairs of counters, so that any interval has its own mean.
    Signal("latency.ttft_sum", "seconds", "counter", "sum of times to first token"),
    Signal("latency.ttft_count", "requests", "counter", "number of times to first token"),
    Signal("latency.itl_sum", "seconds", "counter", "sum of inter-token latencies"),
    Signal("latency.itl_count", "tokens", "counter", "number of inter-token latencies"),
    Signal("latency.queue_sum", "seconds", "counter", "sum of queue times (usually booked when a request finishes)"),
    Signal("latency.queue_count", "requests", "counter", "number of queue times"),
    Signal("latency.scrape", "seconds", "gauge", "how long the metrics endpoint took to answer us"),
    # The host. Labels: pid, tid.
    Signal("host.oncpu", "ratio", "window", "share of the window that a thread ran on a core; label tid"),
    Signal("host.runqueue_wait", "ratio", "window", "share of the window that a thread waited for a core; label tid"),
    Signal("host.blocked", "ratio", "window", "share of the window that a thread slept; labels tid, on"),
    Signal("host.gil", "ratio", "window", "share of the window that a thread held Python's GIL; label tid"),
    Signal("host.cpu_seconds", "seconds", "counter", "CPU time of a process; label pid"),
    Signal(
        "host.children_seconds", "seconds", "counter", "CPU time of a process's children that have ended; label pid"
    ),
    Signal("host.threads", "threads", "gauge", "threads of a process; label pid"),
    Signal(
        "host.runnable_threads", "threads", "window", "mean number of threads that ran or waited for a core; label pid"
    ),
    Signal("host.allowed_cores", "cores", "gauge", "cores that a process's main thread may run on; label pid"),
    Signal(
        "host.core_frequency", "hertz", "gauge", "clock of the core that a process's main thread runs on; label pid"
    ),
    Signal("host.core_frequency_max", "hertz", "gauge", "highest clock of that core; label pid"),
    Signal("host.memory", "bytes", "gauge", "resident memory of a process; label pid"),
    Signal("host.stopped", "ratio", "gauge", "1 while a process is stopped (SIGSTOP or a debugger); label pid"),
    Signal(
        "host.compilers", "processes", "gauge", "compilers running under the server (nvcc, ptxas, cc1plus, ninja ...)"
    ),
    Signal("host.major_faults", "faults", "counter", "page faults that had to read from storage; label pid"),
    Signal("host.read_bytes", "bytes", "counter", "bytes read from storage; label pid"),
    Signal("host.connections", "connections", "gauge", "established TCP connections to the server's port"),
    Signal("host.unaccepted", "connections", "gauge", "established connections that the server has not accepted yet"),
    Signal(
        "host.unread", "connections", "gauge", "accepted connections with received bytes that the server has not read"
    ),
    Signal("host.throttled", "seconds", "counter", "time the cgroup was held back by its CPU quota, summed over cores"),
    Signal("host.quota_cores", "cores", "gauge", "cores' worth of time that the cgroup's tightest CPU quota allows"),
    Signal("host.quota_periods", "periods", "counter", "quota periods in which that cgroup had something to run"),
    Signal("host.throttled_periods", "periods", "counter", "those of them in which it was held back"),
    Signal(
        "host.group_pressure",
        "seconds",
        "counter",
        "time some task of the cgroup stalled for want of it; label resource",
    ),
    Signal("host.pressure", "seconds", "counter", "time some task of the host stalled for want of it; label resource"),
    Signal("host.busy", "ratio", "window", "share of all cores that did work"),
    Signal("host.steal", "ratio", "window", "share of all cores' time that a hypervisor gave to other machines"),
)

SIGNALS: Final[dict[str, Signal]] = {signal.name: signal for signal in _TABLE}

ACTIVITIES: Final = (
    "schedule",
    "prepare_batch",
    "launch",
    "sample",
    "detokenize",
    "tokenize",
    "grammar",
    "multimodal",
    "serialize",
    "http",
    "gc",
    "log",
    "compile",
    "load",
    "kv_transfer",
    "copy",
    "device_sync",
    "collective",
    "worker_wait",
    "poll",
    "await_requests",
    "idle",
    "other",
)
"""What a thread does, from its stack. ``poll`` is a busy-wait: a core at 100 % that does no work. ``worker_wait`` is an
engine that has handed its step to a worker process; ``await_requests`` one that holds no request at all."""

WAITING_ON: Final = ("futex", "pipe", "poll", "disk", "sleep", "other", "unknown")
"""Values of the label ``on`` of ``host.blocked``: what a sleeping thread waits for, from its kernel wait channel.
``other`` has a channel that is none of these (a driver, a kernel lock), ``unknown`` one that may not be seen."""


def series_key(name: str, **labels: str | int) -> str:
    """The key of one labelled series, e.g. ``series_key("host.oncpu", tid=7) == "host.oncpu{tid=7}"``."""
    if not labels:
        return name
    inner = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return f"{name}{{{inner}}}"


def split_key(key: str) -> tuple[str, dict[str, str]]:
    """The inverse of :func:`series_key`: signal name and labels."""
    name, brace, rest = key.partition("{")
    if not brace:
        return name, {}
    labels = {}
    for item in rest.rstrip("}").split(","):
        label, _, value = item.partition("=")
        labels[label] = value
    return name, labels
