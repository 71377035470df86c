"""Public cases about demand: an empty queue, a front end that holds requests, polling cores, old gauges."""

from __future__ import annotations

from typing import Final

from .case_streams import Case, Thread, does, idle, level, rate
from .valley_server import LOW, server, stopped_progress
from .valley_streams import API, ENGINE, WORKER, stairs, total

SHORT: Final = (LOW, LOW + 0.8)
ON: Final = {"running": stairs((0, 1.0))}
"""A thread that is on its core all the time, whether it works or polls."""

DEMAND: Final = (
    Case(
        "13: images resized on the front end's loop, 6.7 requests a second on an H200, no error",
        ("host_starvation",),
        server(
            sched__running=level(40, 1),
            tokens__decode=rate(4000, 100),
            step__count=rate(100, 20),
            sched__finished=rate(20, 6.7),
        ),
        detail="front end (images)",
        excluded=("no_demand", "cache_pressure", "admission_stall"),
        never=("no_demand",),
        busy=(level(0.9, 0.15),),
        threads=(
            Thread(API, "api", does("multimodal", "idle"), {"running": level(0.2, 1.0)}),
            Thread(ENGINE, "engine", does("await_requests"), {"running": level(0.6, 0.1)}),
        ),
        host={"host.connections": stairs((0, 48))},
    ),
    Case(
        "14: a prompt of 256K tokens holds the tokeniser for hundreds of ms, the server does not answer",
        ("host_starvation",),
        server(
            sched__running=level(8, 0, SHORT),
            latency__scrape=level(0.005, 0.6, SHORT),
            tokens__decode=rate(800, 0, SHORT),
            step__count=rate(100, 0, SHORT),
        ),
        detail="front end (tokenise)",
        excluded=("no_demand",),
        never=("no_demand",),
        span=SHORT,
        busy=(level(1.0, 0.0, SHORT),),
        threads=(
            Thread(API, "api", does("tokenize", "idle", SHORT), {"running": level(0.2, 1.0, SHORT)}),
            Thread(ENGINE, "engine", does("await_requests", span=SHORT)),
        ),
        scrape=0.25,
    ),
    Case(
        "15: 50 Python clients are the bottleneck: the device falls to 5 %, five times slower",
        ("no_demand",),
        server(sched__running=level(50, 10), tokens__decode=rate(5000, 1000), sched__finished=rate(10, 2)),
        detail="client-limited",
        excluded=("host_starvation", "admission_stall", "cache_pressure", "synchronisation"),
        never=("host_starvation", "synchronisation"),
        busy=(level(1.0, 0.05),),
        threads=(
            idle(),
            Thread(ENGINE, "engine", lambda t: "await_requests" if t % 0.5 < 0.3 else "worker_wait"),
        ),
    ),
    Case(
        "42: an idle vLLM, two processes at 100 %, 54 % of it in sched_yield",
        ("no_demand",),
        server(sched__running=level(8, 0), **stopped_progress()),
        detail="queue empty",
        excluded=("host_starvation", "synchronisation"),
        never=("host_starvation", "synchronisation"),
        busy=(level(1.0, 0.0),),
        power=level(300, 60),
        threads=(
            idle(),
            Thread(ENGINE, "engine", does("await_requests", "worker_wait"), ON),
            Thread(WORKER, "worker", does("poll"), ON),
        ),
    ),
    Case(
        "42: an idle SGLang, its scheduler at 97 % with 11 778 polls a second",
        ("no_demand",),
        server(sched__running=level(8, 0), **stopped_progress()),
        detail="queue empty",
        excluded=("host_starvation", "synchronisation"),
        never=("host_starvation", "synchronisation"),
        engine="sglang",
        busy=(level(1.0, 0.0),),
        threads=(idle(), Thread(ENGINE, "engine", does("poll"), {"running": stairs((0, 0.97))})),
    ),
    Case(
        "44: KV use stays at 99 % after a mass abort, until the next step",
        ("no_demand", "artefact"),
        server(sched__running=stairs((0, 35)), kv__used=level(0.9, 0.99), **stopped_progress()),
        detail="queue empty",
        excluded=("cache_pressure", "stalled_busy"),
        never=("cache_pressure", "stalled_busy", "admission_stall"),
        busy=(level(1.0, 0.0),),
        power=level(300, 60),
        threads=(idle(), Thread(ENGINE, "engine", does("await_requests"), {"running": level(0.5, 0.01)})),
        host={"host.connections": level(35, 0)},
    ),
    Case(
        "44: the same with requests that were still waiting",
        ("no_demand", "artefact"),
        server(
            sched__running=stairs((0, 35)),
            sched__waiting=level(0, 4),
            kv__used=level(0.9, 0.99),
            **stopped_progress(),
        ),
        detail="queue empty",
        excluded=("cache_pressure",),
        never=("cache_pressure", "admission_stall"),
        busy=(level(1.0, 0.0),),
        threads=(idle(), Thread(ENGINE, "engine", does("await_requests"))),
        host={"host.connections": level(35, 0)},
    ),
    Case(
        "44: statistics off with several API servers",
        ("no_demand",),
        {"latency.scrape": stairs((0, 0.005)), "sched.http_requests": total((0, 10), (LOW, 0), (15, 10))},
        detail="queue empty",
        never=("host_starvation", "cache_pressure", "admission_stall"),
        busy=(level(1.0, 0.0),),
        threads=(idle(), Thread(ENGINE, "engine", does("await_requests"))),
    ),
    Case(
        "43: aborted, yet resident: 100 % busy at 44 W, and the gauges stand as the last step left them",
        ("artefact", "no_demand"),
        server(sched__running=stairs((0, 8)), **stopped_progress()),
        detail="phantom busy",
        excluded=("stalled_busy", "host_starvation", "synchronisation"),
        never=("host_starvation", "synchronisation", "cache_pressure"),
        kind="progress",
        busy=(stairs((0, 1.0)),),
        power=level(300, 44),
        threads=(idle(), Thread(ENGINE, "engine", does("await_requests"), {"running": level(0.5, 0.01)})),
        host={"host.connections": level(8, 0)},
    ),
)
