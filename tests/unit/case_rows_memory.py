"""Public cases about prompts, memory and admission."""

from __future__ import annotations

from typing import Final

from .case_streams import Case, Thread, does, idle, level, rate
from .valley_server import LOW, server, stopped_progress
from .valley_streams import ENGINE, stairs, total

LONG: Final = (LOW, 28.5)
FREEZE: Final = (LOW, LOW + 0.8)
FROZEN: Final = (LOW, LOW + 7.6)
STUCK: Final = (LOW, LOW + 560.0)
SYNCS: Final = Thread(ENGINE, "engine", does("device_sync"), {"running": stairs((0, 0.6))})

MEMORY: Final = (
    Case(
        "17: preemption near a full cache: 1065 in a run, inter-token p99 18.8 -> 40.6 ms",
        ("cache_pressure",),
        server(
            sched__running=stairs((0, 200)),
            sched__waiting=level(0, 30),
            kv__used=level(0.9, 0.985),
            sched__preemptions=total((0, 0), (LOW + 1.5, 10.65), (16.5, 0)),
            tokens__decode=rate(12134, 12134 * 18.8 / 40.6),
            step__count=rate(53, 53 * 18.8 / 40.6),
        ),
        detail="preemption thrash",
        excluded=("no_demand", "admission_stall", "stalled_busy"),
        kind="progress",
        busy=(stairs((0, 1.0)),),
        power=stairs((0, 300)),
        threads=(idle(), SYNCS),
    ),
    Case(
        "18: 0.5B on an H800 at 20 %, running 247 -> 219 and pending 740 -> 768 at KV 99.7-100 %",
        ("cache_pressure",),
        server(
            sched__running=stairs((0, 247), (LOW, 240), (12.5, 233), (13, 226), (13.5, 219), (15, 247)),
            sched__waiting=stairs((0, 740), (LOW, 747), (12.5, 754), (13, 761), (13.5, 768), (15, 740)),
            sched__limit=stairs((0, 256)),
            kv__used=stairs((0, 0.95), (LOW, 0.997), (13, 1.0), (15, 0.95)),
            sched__preemptions=total((0, 0), (16.6, 28), (17.6, 0)),
            tokens__decode=rate(20000, 5000),
            step__count=rate(80, 22),
        ),
        excluded=("no_demand", "admission_stall", "host_starvation"),
        never=("no_demand", "admission_stall"),
        busy=(level(0.75, 0.2),),
        threads=(idle(),),
    ),
    Case(
        "21: running 35, pending 115, KV 99.0 %, then no token at all; health and metrics answer",
        ("unknown",),
        server(
            sched__running=stairs((0, 35)),
            sched__waiting=stairs((0, 115)),
            kv__used=stairs((0, 0.99)),
            **{name: total((0, 500 if "token" in name else 15), (LOW, 0)) for name in stopped_progress()},
        ),
        excluded=("no_demand", "prefill_interference"),
        never=("no_demand", "host_starvation", "synchronisation"),
        confidence=("low",),
        span=(LOW, 40.0),
        seconds=40.0,
        busy=(stairs((0, 0.9), (LOW, 0.0)),),
    ),
    Case(
        "22: decode 272.6 -> 6.62 tok/s while 65 535 prompt tokens prefill for 16.5 s",
        ("prefill_interference",),
        server(
            tokens__decode=rate(272.6, 6.62, LONG),
            step__count=rate(34, 0.8, LONG),
            tokens__prompt=total((0, 0), (28.4, 655350), (28.5, 0)),
            sched__running=level(8, 9, LONG),
        ),
        detail="long prefill blocks decode",
        excluded=("stalled_busy", "no_demand", "cache_pressure", "device_limit"),
        never=("cache_pressure", "no_demand", "host_starvation"),
        kind="progress",
        span=LONG,
        seconds=36.0,
        busy=(stairs((0, 1.0)),),
        power=stairs((0, 300)),
        device={"device.limit_seconds{reason=sw_power_cap}": total((0, 0))},
        threads=(idle(), SYNCS),
    ),
    Case(
        "24: a prompt of 9.1k freezes the streams for 0.80 s",
        ("prefill_interference",),
        server(
            tokens__decode=rate(480, 0, FREEZE),
            step__count=rate(60, 0, FREEZE),
            tokens__prompt=total((0, 0), (12.75, 91000), (12.85, 0)),
        ),
        detail="long prefill blocks decode",
        excluded=("no_demand", "cache_pressure"),
        never=("cache_pressure", "no_demand", "stalled_busy"),
        kind="progress",
        span=FREEZE,
        busy=(stairs((0, 1.0)),),
        threads=(idle(), SYNCS),
        scrape=0.25,
    ),
    Case(
        "24: a prompt of 52.9k freezes the streams for 7.6 s, told by its slot",
        ("prefill_interference",),
        {
            "tokens.decode": rate(59.4, 0, FROZEN),
            "step.count": rate(20, 0, FROZEN),
            "slots.prefilling": level(0, 1, FROZEN),
            "tokens.prompt": rate(0, 52900 / 7.6, FROZEN),
            "sched.running": level(3, 4, FROZEN),
            "sched.limit": stairs((0, 8)),
        },
        detail="long prefill blocks decode",
        advises="--batch-size",
        excluded=("stalled_busy", "no_demand"),
        never=("no_demand", "host_starvation", "synchronisation"),
        kind="progress",
        span=FROZEN,
        seconds=30.0,
        engine="llamacpp",
        busy=(stairs((0, 1.0)),),
    ),
    Case(
        "25: nobody is admitted once running and deferred make the cap; KV mostly free",
        ("admission_stall",),
        server(
            sched__running=level(40, 2),
            sched__waiting=level(0, 90),
            **{"sched__waiting_by_reason{reason=deferred}": level(0, 62)},
            kv__used=stairs((0, 0.12)),
            tokens__decode=rate(4000, 60),
            step__count=rate(100, 30),
        ),
        detail="deferred",
        excluded=("no_demand", "cache_pressure"),
        never=("no_demand", "cache_pressure", "host_starvation"),
        busy=(level(1.0, 0.1),),
        threads=(idle(), Thread(ENGINE, "engine", does("worker_wait"))),
    ),
    Case(
        "26: running 0, waiting 5-6, KV 0.0 %, 0.0 tokens a second for nine minutes, probes answer",
        ("admission_stall",),
        server(
            sched__running=level(8, 0, STUCK),
            sched__waiting=stairs((0, 0), (LOW, 5), (200, 6), (STUCK[1], 0)),
            kv__used=level(0.3, 0.0, STUCK),
            tokens__decode=rate(800, 0, STUCK),
            tokens__prompt=rate(100, 0, STUCK),
            step__count=rate(100, 0, STUCK),
        ),
        detail="stuck",
        excluded=("no_demand", "cache_pressure", "prefill_interference"),
        never=("no_demand", "cache_pressure"),
        span=STUCK,
        seconds=STUCK[1] + 10.0,
        busy=(level(1.0, 0.0, STUCK),),
        threads=(idle(), Thread(ENGINE, "engine", does("poll", span=STUCK))),
        scrape=1.0,
    ),
)
