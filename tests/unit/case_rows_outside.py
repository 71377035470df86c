"""Public cases about what lies outside the scheduler: remote KV, compilers, ranks, clocks, wedges."""

from __future__ import annotations

from typing import Final

from .case_streams import Case, Thread, does, idle, level, rate
from .valley_server import LOW, server
from .valley_streams import ENGINE, WORKER, stairs, total

STALL: Final = (LOW, LOW + 0.34999)
JIT: Final = (LOW, LOW + 20.0)
COLLECT: Final = (LOW, LOW + 7.0)
SILENCE: Final = (LOW, LOW + 20.0)
RANKS: Final = range(1, 8)


def flat(span: tuple[float, float], tokens: float = 800, prompts: float = 100, steps: float = 100) -> dict[str, object]:
    return {
        "tokens__decode": rate(tokens, 0, span),
        "tokens__prompt": rate(prompts, 0, span),
        "step__count": rate(steps, 0, span),
    }


OUTSIDE: Final = (
    Case(
        "29: the device idles 349.99 ms for the KV connector, 6 requests blocked",
        ("external_wait",),
        server(
            sched__running=level(6, 0, STALL),
            sched__waiting=level(0, 6, STALL),
            **{"sched__waiting_by_reason{reason=deferred}": level(0, 6, STALL), **flat(STALL)},  # type: ignore[arg-type]
        ),
        excluded=("no_demand", "cache_pressure"),
        never=("no_demand", "cache_pressure", "host_starvation"),
        span=STALL,
        busy=(level(1.0, 0.0, STALL),),
        threads=(idle(), Thread(ENGINE, "engine", does("schedule", span=STALL), {"running": level(0.5, 1.0, STALL)})),
        scrape=0.125,
    ),
    Case(
        "29: the same, its engine seen in the connector's frames",
        ("external_wait",),
        server(sched__running=stairs((0, 6)), **flat((LOW, 15))),  # type: ignore[arg-type]
        detail="remote KV",
        excluded=("no_demand", "host_starvation", "admission_stall"),
        never=("no_demand", "cache_pressure"),
        busy=(level(1.0, 0.0),),
        threads=(idle(), Thread(ENGINE, "engine", does("kv_transfer"), {"running": level(0.5, 0.05)})),
    ),
    Case(
        "34: a stall of 20 s with the CUDA compiler's children at work",
        ("compiling",),
        server(**flat(JIT)),  # type: ignore[arg-type]
        detail="JIT",
        excluded=("no_demand", "host_starvation", "synchronisation"),
        never=("no_demand", "cache_pressure", "admission_stall"),
        span=JIT,
        seconds=40.0,
        busy=(level(1.0, 0.0, JIT),),
        threads=(idle(), Thread(ENGINE, "engine", does("compile", span=JIT), {"running": level(0.5, 0.02, JIT)})),
        host={"host.compilers": level(0, 3, JIT)},
    ),
    Case(
        "34: one rank compiles while serving, and its peer waits for it past its watchdog",
        ("compiling", "synchronisation"),
        server(**flat(JIT)),  # type: ignore[arg-type]
        detail="JIT",
        confidence=("high", "medium", "low"),
        excluded=("no_demand",),
        never=("no_demand", "cache_pressure", "host_starvation"),
        span=JIT,
        seconds=40.0,
        busy=(level(1.0, 0.0, JIT), stairs((0, 1.0))),
        threads=(
            idle(),
            Thread(ENGINE, "engine", does("worker_wait")),
            Thread(WORKER, "worker", does("compile", span=JIT)),
            Thread(WORKER + 1, "worker", does("collective", span=JIT), {"running": stairs((0, 1.0))}),
        ),
        host={"host.compilers": level(0, 2, JIT)},
    ),
    Case(
        "32: one of eight ranks collects garbage for 7 s, the peers' devices spin at 100 %",
        ("synchronisation",),
        server(**flat(COLLECT)),  # type: ignore[arg-type]
        detail="straggler: the rank of pid 300 is late: GC",
        advises="Look at that rank, not at the network",
        excluded=("no_demand", "compiling", "host_starvation"),
        never=("no_demand", "cache_pressure", "stalled_busy", "host_starvation"),
        span=COLLECT,
        seconds=28.0,
        engine="sglang",
        busy=(level(1.0, 0.0, COLLECT), *(stairs((0, 1.0)) for _ in RANKS)),
        threads=(
            idle(),
            Thread(WORKER, "worker", does("gc", span=COLLECT), {"running": level(0.5, 1.0, COLLECT)}),
            *(Thread(WORKER + n, "worker", does("collective", span=COLLECT)) for n in RANKS),
        ),
        host={"host.compilers": stairs((0, 0))},
    ),
    Case(
        "37: the clock stuck at 1890 of 2625 MHz and 16 of 47 W, 70-80 % slower",
        ("device_limit",),
        server(tokens__decode=rate(60, 15), step__count=rate(60, 15), tokens__prompt=rate(40, 10)),
        detail="clocks",
        excluded=("no_demand", "stalled_busy", "host_starvation"),
        never=("no_demand", "stalled_busy", "cache_pressure"),
        kind="progress",
        engine="llamacpp",
        busy=(stairs((0, 1.0)),),
        power=level(47, 16),
        device={
            "device.clock_sm": level(2625e6, 1890e6),
            "device.limit_seconds{reason=sw_power_cap}": total((0, 0)),
        },
    ),
    Case(
        "37: SW Power Cap active at 77 C, never over 70 %",
        ("device_limit",),
        server(tokens__decode=rate(40, 15), step__count=rate(40, 15), tokens__prompt=rate(40, 15)),
        detail="sw power cap",
        excluded=("no_demand", "artefact"),
        never=("no_demand", "cache_pressure", "host_starvation"),
        kind="progress",
        busy=(level(1.0, 0.7),),
        device={
            "device.limit_seconds{reason=sw_power_cap}": rate(0, 1.0),
            "device.temperature": level(60, 77),
        },
    ),
    Case(
        "40: running 2, waiting 0, tokens frozen, the device at 96 %, all 130 threads asleep",
        ("stalled_busy",),
        server(sched__running=stairs((0, 2)), **flat(SILENCE, 60, 0, 30)),  # type: ignore[arg-type]
        detail="wedge",
        excluded=("no_demand", "host_starvation", "cache_pressure", "admission_stall", "prefill_interference"),
        never=("no_demand", "host_starvation", "cache_pressure", "admission_stall"),
        kind="progress",
        span=SILENCE,
        seconds=40.0,
        busy=(level(1.0, 0.96, SILENCE),),
        threads=(
            idle(),
            Thread(ENGINE, "engine", None, {"running": level(0.5, 0.0, SILENCE), "futex": level(0.4, 1.0, SILENCE)}),
        ),
    ),
    Case(
        "40: 96 % at 21 W",
        ("stalled_busy",),
        server(sched__running=stairs((0, 2)), **flat(SILENCE, 60, 0, 30)),  # type: ignore[arg-type]
        detail="low power",
        excluded=("no_demand", "host_starvation", "cache_pressure", "admission_stall"),
        never=("no_demand", "host_starvation", "cache_pressure", "prefill_interference"),
        kind="progress",
        span=SILENCE,
        seconds=40.0,
        busy=(level(1.0, 0.96, SILENCE),),
        power=level(90, 21, SILENCE),
        threads=(idle(), Thread(ENGINE, "engine", does("device_sync"), {"running": stairs((0, 0.05))})),
    ),
    Case(
        "40: eight devices at 100 % and low power",
        ("stalled_busy",),
        server(**flat(SILENCE)),  # type: ignore[arg-type]
        detail="low power",
        excluded=("no_demand", "host_starvation"),
        never=("no_demand", "host_starvation", "cache_pressure"),
        kind="progress",
        span=SILENCE,
        seconds=40.0,
        engine="sglang",
        busy=(*(stairs((0, 1.0)) for _ in range(8)),),
        power=level(600, 190, SILENCE),
        threads=(idle(), *(Thread(WORKER + n, "worker", does("collective", span=SILENCE)) for n in range(8))),
    ),
    Case(
        "40: silences of 20 s, the device at 100 % and 267 W, main thread in state R, py-spy not allowed",
        ("stalled_busy",),
        server(sched__running=stairs((0, 2)), **flat(SILENCE, 60, 0, 30)),  # type: ignore[arg-type]
        detail="wedge",
        excluded=("no_demand", "host_starvation"),
        never=("no_demand", "host_starvation", "cache_pressure", "admission_stall"),
        kind="progress",
        span=SILENCE,
        seconds=40.0,
        busy=(stairs((0, 1.0)),),
        power=level(290, 267, SILENCE),
        threads=(idle(), Thread(ENGINE, "engine", None, {"running": stairs((0, 1.0))})),
    ),
    Case(
        "43: three devices at 100 % while cool, waiting for a fourth",
        ("synchronisation", "artefact"),
        server(**flat((LOW, 15))),  # type: ignore[arg-type]
        detail="collective",
        excluded=("no_demand", "stalled_busy"),
        never=("no_demand", "stalled_busy", "cache_pressure"),
        busy=(level(1.0, 0.0), *(stairs((0, 1.0)) for _ in range(3))),
        power=level(300, 66),
    ),
)
