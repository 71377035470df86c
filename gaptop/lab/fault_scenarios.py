"""One scenario for each fault of the lab, and some with several causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Arrivals, Burst, Bursts, Clients
from gaptop.lab.core.model import A10, EngineConfig
from gaptop.lab.core.scenario import Scenario
from gaptop.valleys.model import Cause

FOREVER: Final = 1e9
CHATS: Final = Clients(count=20, start=0.0, until=FOREVER, prompt=(60, 100), output=(40, 70), once=True)
PERIOD: Final = 10.0

TENSOR_PARALLEL: Final = EngineConfig(tensor_parallel_size=2)


def _one(name: str, says: str, cause: Cause, *faults: Fault, **more: Any) -> Scenario:
    return Scenario(name, says, (cause,), PERIOD, more.pop("loads", (CHATS,)), faults, **more)


def _host() -> Iterator[Scenario]:
    host: Cause = "host_starvation"
    yield _one(
        "host_images",
        "large images are resized one after the other: new requests do not reach the scheduler",
        host,
        loads=(
            replace(CHATS, count=12, output=(10, 30)),
            Burst(at=4.0, count=1, prompt=(300, 300), output=(20, 20), images=18),
        ),
    )
    yield _one("host_gc", "garbage collection of 0.9 s on the engine's thread", host, Fault("gc", 4.0, 0.9))
    yield _one(
        "host_gc_often",
        "garbage collections of 0.2 s every 1.5 s",
        host,
        Fault("gc", 1.0, 0.2, every=1.5),
    )
    yield _one(
        "host_gil",
        "the detokeniser holds the interpreter that the engine's thread needs",
        host,
        Fault("gil", 3.0, 4.0, strength=0.06),
        engine=EngineConfig(single_process=True),
    )
    yield _one("host_grammar", "a grammar is compiled on the engine's thread", host, Fault("grammar", 4.0, 1.1))
    yield _one(
        "host_throttled",
        "the CPU quota lets the server run for 20 ms of each 100 ms",
        host,
        Fault("throttle", 3.0, 4.0),
        live=False,  # a real quota needs a cgroup of its own, which few users may make
    )
    yield _one(
        "host_oversubscribed",
        "twenty threads for each core: every wake-up waits for its turn",
        host,
        Fault("oversubscription", 3.0, 4.0),
    )
    yield _one("host_logging", "the engine's thread writes a log for 1 s", host, Fault("log", 4.0, 1.0))
    yield _one("host_stopped", "the front end is stopped for 2.5 s", host, Fault("stop", 4.0, 2.5))


def _waiting() -> Iterator[Scenario]:
    yield _one(
        "blocking_copy",
        "each step begins with a blocking copy of 30 ms",
        "synchronisation",
        Fault("copy", 3.0, 4.0),
    )
    yield _one(
        "straggler",
        "one rank of two is late by 1.2 s, the other spins",
        "synchronisation",
        Fault("straggler", 4.0, 1.2, rank=1),
        engine=TENSOR_PARALLEL,
    )
    yield _one(
        "straggler_idle",
        "one rank of two is late by 1.2 s, the other stays idle",
        "synchronisation",
        Fault("straggler", 4.0, 1.2, rank=1, spins=False),
        engine=TENSOR_PARALLEL,
    )
    yield _one(
        "slow_collective",
        "a collective takes 1.5 s: both ranks spin",
        "synchronisation",
        Fault("collective", 4.0, 1.5),
        engine=TENSOR_PARALLEL,
    )
    yield _one(
        "remote_kv", "new requests wait for KV blocks from elsewhere", "external_wait", Fault("remote_kv", 4.0, 3.0)
    )
    yield _one("adapter_load", "an adapter is read from disk for 1.3 s", "external_wait", Fault("adapter", 4.0, 1.3))
    yield _one(
        "paging",
        "the engine's memory is paged in for 1.2 s",
        "external_wait",
        Fault("paging", 4.0, 1.2),
        live=False,  # faults that read storage need a folder on a disk, and /tmp is often memory
    )
    yield _one("jit", "kernels are compiled for 3 s", "compiling", Fault("compile", 4.0, 3.0))
    yield _one("graph_capture", "graphs are captured for 1.5 s", "compiling", Fault("graph_capture", 4.0, 1.5))
    yield _one(
        "kv_swap",
        "two long urgent requests push the chats out to host memory",
        "cache_pressure",
        loads=(
            CHATS,
            Burst(at=5.0, count=2, prompt=(5900, 5900), output=(110, 110), cached=2800, priority=-1),
        ),
        engine=EngineConfig(policy="priority", preemption="swap"),
    )


def _device() -> Iterator[Scenario]:
    yield _one(
        "power_cap", "a power cap holds the clock at 30 %", "device_limit", Fault("power", 4.0, 3.0, strength=0.3)
    )
    yield _one(
        "thermal", "a hot device holds its clock at 25 %", "device_limit", Fault("thermal", 4.0, 3.0, strength=0.25)
    )
    yield _one(
        "co_tenant",
        "another process takes 70 % of the device",
        "device_limit",
        Fault("cotenant", 4.0, 3.0, strength=0.7),
    )
    yield _one("wedge", "a step is busy for 4 s and gives nothing", "stalled_busy", Fault("wedge", 4.0, 4.0))
    yield _one(
        "stale_gauge",
        "all clients hang up at once and the gauges stay as they were",
        "artefact",
        Fault("abort", 4.0, 3.0),
    )
    yield _one(
        "phantom_busy",
        "the driver calls the device busy while nothing runs",
        "artefact",
        Fault("phantom", 5.0, 2.5),
        loads=(replace(CHATS, until=5.0, once=False),),
    )


def _mixed() -> Iterator[Scenario]:
    yield Scenario(
        "gc_and_prefill",
        "garbage collections under long documents",
        ("prefill_interference", "host_starvation"),
        12.0,
        (CHATS, Burst(at=3.0, count=1, prompt=(6700, 6700), output=(24, 24))),
        (Fault("gc", 8.0, 0.7),),
    )
    yield Scenario(
        "quiet_and_throttled",
        "bursts of chats with silence between them, under a CPU quota",
        ("no_demand", "host_starvation"),
        12.0,
        (replace(CHATS, until=8.0, once=False),),
        (Fault("throttle", 3.0, 3.0),),
        live=False,  # as host_throttled
    )
    yield Scenario(
        "compile_and_straggler",
        "a kernel is compiled, and later one rank is late",
        ("compiling", "synchronisation"),
        12.0,
        (CHATS,),
        (Fault("compile", 3.0, 1.2), Fault("straggler", 8.0, 0.9, rank=1)),
        engine=TENSOR_PARALLEL,
    )
    yield Scenario(
        "shared_prefixes",
        "bursts of requests that share long prefixes, more of them than the cache holds",
        ("no_demand",),
        20.0,
        (Bursts(16, 2.5, 0.3, 0.0, 16.0, (900, 1200), (20, 60), prefix=800, groups=8),),
    )
    yield Scenario(
        "disaggregated",
        "prefill and decode on two devices, the KV cache crosses a slow link",
        ("prefill_interference",),
        10.0,
        (Arrivals(1.0, 0.0, 10.0, (1000, 3000), (10, 40)),),
        engine=EngineConfig(disaggregated=True, kv_transfer_bandwidth=1.25e9),
    )
    yield Scenario(
        "reference",
        "sixteen chats on a device that decodes in 30 ms: what the lab's speed is measured on",
        (),
        60.0,
        (replace(CHATS, count=16),),
        device=A10,
    )


_GROUPS: Final[tuple[Callable[[], Iterator[Scenario]], ...]] = (_host, _waiting, _device, _mixed)
FAULT_SCENARIOS: Final = tuple(scenario for group in _GROUPS for scenario in group())
