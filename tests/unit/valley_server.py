"""A server that decodes steadily, and what changes while something holds it up: the material of the causes' tests."""

from __future__ import annotations

from collections.abc import Callable

from .valley_streams import Curve, stairs, total

LOW, BACK, END = 12.0, 15.0, 22.0


def quiet_between(value: float, low: float = 0.0) -> Curve:
    """A value that falls between LOW and BACK."""
    return stairs((0, value), (LOW, low), (BACK, value))


def server(**changes: Curve) -> dict[str, Curve]:
    """A server that decodes steadily with 8 running requests; ``changes`` replace signals (``_`` stands for a dot)."""
    curves: dict[str, Curve] = {
        "sched.running": stairs((0, 8)),
        "sched.waiting": stairs((0, 0)),
        "sched.limit": stairs((0, 64)),
        "kv.used": stairs((0, 0.3)),
        "sched.preemptions": total((0, 0)),
        "sched.finished": total((0, 1)),
        "tokens.decode": total((0, 800)),
        "tokens.prompt": total((0, 100)),
        "step.count": total((0, 100)),
        "latency.scrape": stairs((0, 0.005)),
    }
    for name, curve in changes.items():
        curves[name.replace("__", ".")] = curve
    return curves


def stopped_progress() -> dict[str, Curve]:
    """Tokens, prompts and steps that stand still between LOW and BACK."""
    return {
        "tokens__decode": total((0, 800), (LOW, 0), (BACK, 800)),
        "tokens__prompt": total((0, 100), (LOW, 0), (BACK, 100)),
        "step__count": total((0, 100), (LOW, 0), (BACK, 100)),
        "sched__finished": total((0, 1), (LOW, 0), (BACK, 1)),
    }


def engine(activity: str, otherwise: str = "device_sync") -> Callable[[float], str]:
    """What the engine's thread does: ``activity`` during the valley."""
    return lambda t: activity if LOW <= t < BACK else otherwise
