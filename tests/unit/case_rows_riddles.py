"""Open riddles: nobody found the cause, and nothing that their people could see proves one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .case_streams import Case, Thread, idle, level, rate
from .valley_server import LOW, server
from .valley_streams import ENGINE, Curve, stairs, total

HALF: Final = (LOW, LOW + 30.0)
HOUR: Final = (LOW, LOW + 45.0)
HANG: Final = (LOW, LOW + 20.0)
STEP: Final = (LOW, LOW + 1.6)


def swings(t: float) -> float:
    """0 to 100 and back, four seconds each."""
    return 0.0 if t >= 8.0 and t % 8.0 < 4.0 else 1.0


def swung(per_second: float) -> Curve:
    return lambda t: per_second * sum(swings((i + 0.5) / 10) for i in range(int(t * 10))) / 10


ALIKE: Final = {
    "host.quota_periods": total((0, 10)),
    "host.throttled_periods": total((0, 0)),
    "host.group_pressure{resource=cpu}": total((0, 0)),
    "host.compilers": stairs((0, 0)),
}
"""Every counter of the host as before."""

RIDDLES: Final = tuple(
    replace(case, confidence=("low",))
    for case in (
        Case(
            "vllm#13422: the device at 0 under concurrency, requests almost hang",
            ("unknown",),
            server(sched__running=level(20, 20), tokens__decode=rate(1000, 20), step__count=rate(50, 1)),
            excluded=("no_demand", "cache_pressure", "admission_stall", "artefact"),
            never=("no_demand", "cache_pressure", "admission_stall"),
            busy=(level(0.9, 0.0),),
            device={"device.limit_seconds{reason=sw_power_cap}": total((0, 0))},
        ),
        Case(
            "vllm#2491: swings between 0 and 100",
            ("unknown",),
            server(tokens__decode=swung(800), step__count=swung(100)),
            excluded=("no_demand", "cache_pressure", "admission_stall"),
            never=("no_demand", "cache_pressure", "admission_stall"),
            span=(8.0, 28.0),
            seconds=32.0,
            busy=(swings,),
        ),
        Case(
            "vllm#48229: frozen steps of 0.7-2.0 s among steps of 6 ms",
            ("unknown",),
            server(
                tokens__decode=rate(1300, 0, STEP),
                step__count=rate(166, 0, STEP),
                tokens__prompt=total((0, 0)),
            ),
            excluded=("no_demand", "cache_pressure", "admission_stall"),
            never=("no_demand", "cache_pressure", "host_starvation", "synchronisation"),
            span=STEP,
            busy=(level(1.0, 0.0, STEP),),
            threads=(idle(), Thread(ENGINE, "engine", lambda t: "worker_wait")),
            scrape=0.25,
        ),
        Case(
            "Tanguille/cluster#4879: decode at half until a restart, every counter of the host equal",
            ("unknown",),
            server(
                tokens__decode=rate(90, 40, HALF),
                step__count=rate(90, 40, HALF),
                tokens__prompt=total((0, 0)),
            ),
            excluded=("no_demand", "cache_pressure", "admission_stall", "device_limit", "stalled_busy", "compiling"),
            never=(
                "no_demand",
                "cache_pressure",
                "admission_stall",
                "device_limit",
                "host_starvation",
                "synchronisation",
            ),
            kind="progress",
            span=HALF,
            seconds=50.0,
            busy=(stairs((0, 1.0)),),
            power=stairs((0, 300)),
            device={"device.clock_sm": stairs((0, 1.9e9)), "device.limit_seconds{reason=sw_power_cap}": total((0, 0))},
            threads=(idle(),),
            host=ALIKE,
        ),
        Case(
            "text-generation-inference#2842: two very long prompts, and it hangs",
            ("stalled_busy", "unknown", "prefill_interference"),
            {
                "sched.running": stairs((0, 2)),
                "sched.waiting": stairs((0, 0)),
                "tokens.decode": rate(60, 0, HANG),
                "step.count": rate(30, 0, HANG),
            },
            excluded=("no_demand", "admission_stall"),
            never=("no_demand", "cache_pressure", "admission_stall", "host_starvation"),
            kind="progress",
            span=HANG,
            seconds=36.0,
            engine="tgi",
            busy=(stairs((0, 1.0)),),
        ),
        Case(
            "llama.cpp#27388: a wedge, /health answers and /slots hangs",
            ("unknown",),
            {
                "sched.running": stairs((0, 2)),
                "sched.limit": stairs((0, 4)),
                "tokens.decode": rate(60, 0, HANG),
                "step.count": rate(30, 0, HANG),
            },
            never=("no_demand", "cache_pressure", "admission_stall"),
            span=HANG,
            seconds=36.0,
            engine="llamacpp",
            busy=(level(0.9, 0.0, HANG),),
            outages=((LOW, HANG[1]),),
        ),
        Case(
            "llama.cpp#24265: the prompt's progress frozen, 10-15 thousand log lines a second",
            ("unknown",),
            {
                "sched.running": stairs((0, 1)),
                "sched.limit": stairs((0, 4)),
                "slots.prefilling": level(0, 1, HANG),
                "tokens.prompt": rate(60, 0, HANG),
                "tokens.decode": rate(60, 0, HANG),
                "step.count": rate(60, 0, HANG),
            },
            excluded=("no_demand", "prefill_interference"),
            never=("no_demand", "prefill_interference", "admission_stall"),
            span=HANG,
            seconds=36.0,
            engine="llamacpp",
            busy=(level(0.9, 0.0, HANG),),
        ),
        Case(
            "llm-scaler#391: running 1, waiting 14, KV 76.5 %, 5.4 tok/s for an hour",
            ("admission_stall", "unknown"),
            server(
                sched__running=level(8, 1, HOUR),
                sched__waiting=level(7, 14, HOUR),
                kv__used=stairs((0, 0.765)),
                tokens__decode=rate(160, 5.4, HOUR),
                step__count=rate(20, 5.4, HOUR),
                sched__limit=stairs((0, 64)),
            ),
            excluded=("no_demand", "cache_pressure"),
            never=("no_demand", "host_starvation", "synchronisation"),
            span=HOUR,
            seconds=64.0,
            busy=(level(0.9, 0.3, HOUR),),
        ),
    )
)
