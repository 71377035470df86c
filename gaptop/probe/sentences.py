"""What a collector's health says: what is wrong, what that means for what people see, and what to do. Pure."""

from __future__ import annotations

from gaptop_collectors.collector import CollectorError, State


def said_by(error: Exception, name: str, log: str) -> tuple[State, str, bool]:
    """State, sentence, and whether trying again can help. ``log`` says where the traceback is."""
    if isinstance(error, CollectorError):
        return error.state, error.says, error.retry
    if isinstance(error, ModuleNotFoundError):
        says = (
            f"{name} needs the Python package {error.name}, which is not installed, so what it measures is missing "
            "here; reinstall gaptop with its dependencies (pip install --force-reinstall gaptop)."
        )
        return "absent", says, False
    says = (
        f"{name} failed unexpectedly ({type(error).__name__}: {error}), so what it measures is missing while it is "
        f"tried again; please report it with {log} (gaptop doctor --report)."
    )
    return "failing", says, True


def over_budget(before: float, cost: float, share: float, stretch: int, period: float) -> str:
    """Reading it each ``before`` seconds took ``cost`` (share of a core); now it is read ``stretch`` times more rarely
    than it would be, each ``period`` seconds (which also a boost may have made shorter)."""
    return (
        f"reading it every {round(before, 3):g} s took {100 * cost:.1f} % of a core, over its budget of "
        f"{100 * share:.0f} %, so it is read {stretch} times more rarely than it would be: now every "
        f"{round(period, 3):g} s."
    )


def not_answering(name: str, seconds: float) -> str:
    return (
        f"{name} has not answered for {seconds:.1f} s, so what it measures is missing until it does; everything else "
        "goes on."
    )


def slow_call(name: str, call: str, seconds: float) -> str:
    return f"{name} took {seconds:.1f} s to {call}: what it measures came late or is missing there."
