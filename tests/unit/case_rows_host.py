"""Public cases in which the host kept the device waiting."""

from __future__ import annotations

from typing import Final

from .case_streams import Case, Thread, does, idle, level, rate
from .valley_server import LOW, server
from .valley_streams import API, ENGINE, Curve, stairs, total

THROTTLED: Final = (LOW, LOW + 20.0)
SECONDS: Final = 40.0


def collecting(every: float, took: float) -> tuple[Curve, Curve]:
    """Whether the collector runs (from the sixth second on), and for how long it has not run until a time."""

    def off(t: float) -> float:
        return 1.0 if t >= 6.0 and (t - 6.0) % every < took else 0.0

    def ran(t: float) -> float:
        if t <= 6.0:
            return t
        whole, rest = divmod(t - 6.0, every)
        return 6.0 + whole * (every - took) + max(0.0, rest - took)

    return off, ran


OFTEN, RAN_OFTEN = collecting(1.5, 0.3)
FULLY, RAN_FULLY = collecting(2.0, 0.42)


def garbage(name: str, off: Curve, ran: Curve) -> Case:
    return Case(
        name,
        ("host_starvation",),
        server(tokens__decode=lambda t: 4000 * (ran(t) or 0.0), step__count=lambda t: 80 * (ran(t) or 0.0)),
        detail="GC",
        excluded=("no_demand", "cache_pressure", "synchronisation"),
        never=("no_demand", "cache_pressure", "synchronisation", "stalled_busy"),
        span=(6.0, 20.0),
        engine="sglang",
        busy=(lambda t: 1.0 - (off(t) or 0.0),),
        threads=(
            idle(),
            Thread(
                ENGINE,
                "engine",
                lambda t: "gc" if off(t) else "device_sync",
                {"running": lambda t: 1.0 if off(t) else 0.6},
            ),
        ),
        scrape=0.125,
    )


HOST: Final = (
    Case(
        "1: 6 cores of 172, a compile pool of 86 threads, throttled in every period, 8 -> 80 ms a token, SM 7-12 %",
        ("host_starvation",),
        server(
            sched__running=stairs((0, 32)),
            tokens__decode=rate(4000, 400, THROTTLED),
            step__count=rate(125, 12.5, THROTTLED),
        ),
        detail="cgroup throttling",
        excluded=("no_demand", "cache_pressure", "admission_stall", "artefact", "device_limit"),
        never=("no_demand", "cache_pressure", "synchronisation"),
        span=THROTTLED,
        seconds=SECONDS,
        busy=(level(0.9, 0.1, THROTTLED),),
        device={
            "device.sm_active": level(0.6, 0.095, THROTTLED),
            "device.limit_seconds{reason=sw_power_cap}": total((0, 0)),
        },
        threads=(
            Thread(
                ENGINE,
                "engine",
                does("prepare_batch", span=THROTTLED),
                {"running": level(0.6, 0.1, THROTTLED), "wants": level(0.0, 0.9, THROTTLED)},
                runnable=level(2, 86, THROTTLED),
            ),
            Thread(API, "api", does("http", "idle", THROTTLED), {"running": level(0.1, 0.1, THROTTLED)}),
        ),
        host={
            "host.quota_periods": total((0, 10)),
            "host.throttled_periods": rate(0, 10, THROTTLED),
            "host.quota_cores": stairs((0, 6)),
            "host.throttled": rate(0, 80, THROTTLED),
        },
    ),
    garbage("31: a generation-2 collection of 100-300 ms every 1.5 s", OFTEN, RAN_OFTEN),
    garbage("31: full collections of 400-430 ms in bursts of 2 s, a third of the throughput lost", FULLY, RAN_FULLY),
)
