"""Run states of a thread as /proc tells them, and who held the interpreter's lock: for the tests of host causes."""

from __future__ import annotations

from gaptop.recording.lines import Batch, Source, Watermark

from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import API, Curve, Stream

EVERY = 0.25


def run_states(stream: Stream, pid: int, role: str, **states: Curve) -> Stream:
    """Shares of each window: ``running``, ``wants`` (a core), and what it slept on (``futex``, ``pipe`` and so on)."""
    source = f"proc/{pid}"
    entity = {"pid": pid, "role": role, "name": role, "critical_tid": pid, "threads": [{"tid": pid, "name": role}]}
    named = {"running": f"host.oncpu{{tid={pid}}}", "wants": f"host.runqueue_wait{{tid={pid}}}"}
    keys = {name: named.get(name, f"host.blocked{{on={name},tid={pid}}}") for name in states}
    names = sorted({key.partition("{")[0] for key in keys.values()})
    stream.add(0.0, Source(0.0, source, "host.threads_proc", "process", entity, names, EVERY, window=EVERY))
    for count in range(1, round(stream.seconds / EVERY) + 1):
        t = count * EVERY
        # A window's mean, from its middle: the curves change on the windows' edges.
        stream.add(t, Batch(source, [t], {keys[name]: [curve(t - EVERY / 2)] for name, curve in states.items()}))
        stream.add(t, Watermark(source, t))
    return stream


def lock_holders(
    stream: Stream, pid: int, shares: dict[int, float], *, window: float = 1.0, late: float = 0.0
) -> Stream:
    """Who held the interpreter's lock of a process, by thread, all the time; without a word on what was delivered."""
    source = f"gil/{pid}"
    info = Source(0.0, source, "host.gil", "process", {"pid": pid}, ["host.gil"], window, window=window)
    stream.add(0.0, info)
    for count in range(1, round(stream.seconds / window) + 1):
        t = count * window
        stream.add(t + late, Batch(source, [t], {f"host.gil{{tid={tid}}}": [share] for tid, share in shares.items()}))
    return stream


def standstill(activity: str, **changes: Curve) -> Stream:
    """A server whose tokens stop between LOW and BACK: device and front end idle, its engine's stacks seen."""
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**{**stopped_progress(), **changes}))
    return stream.stacks(API, "api", lambda t: "idle").stacks(200, "engine", engine(activity))


def meanwhile(share: float, otherwise: float = 0.0) -> Curve:
    """A share that holds between LOW and BACK."""
    return lambda t: share if LOW <= t < BACK else otherwise
