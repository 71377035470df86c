"""The sentences that say what a CPU device's numbers are, what of them was waiting, and what cannot be told. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gaptop_collectors.devices.cpu_spin import Judged

_WORTH: Final = 0.01
"""Shares below this are not told."""
ENOUGH_NS: Final = 500_000_000
"""Shares of less CPU time than this are not told."""


@dataclass(slots=True)
class Account:
    """Nanoseconds over some seconds, of the compute threads together; ``yielding_ns``: main threads that may have been
    waiting in sched_yield."""

    work_ns: int = 0
    spun_ns: int = 0
    doubtful_ns: int = 0
    yielding_ns: int = 0

    def add(self, judged: Judged) -> None:
        self.work_ns += judged.work_ns
        self.spun_ns += judged.spun_ns
        self.doubtful_ns += judged.doubtful_ns

    @property
    def ran_ns(self) -> int:
        return self.work_ns + self.spun_ns


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the compute threads: how many, the cores they may use, and how they were told to wait."""

    threads: int
    cores: float
    coarse: bool
    full: bool
    elsewhere: bool
    settings: Sequence[str]


def sentence(facts: Facts, account: Account | None) -> str:
    """``account``: the last one with enough in it to tell shares of."""
    parts = [_what(facts)]
    if facts.coarse:
        parts.append("This kernel only counts in steps of 10 ms and not the waits, so busy-waiting counts as busy.")
    elif facts.threads == 1:
        parts.append("If it waits by spinning (as in sched_yield), that counts as busy.")
    else:
        parts.extend(_shares(account))
        parts.append("Waiting by spinning while the main thread runs cannot be told from work and counts as busy.")
    if account is not None and account.yielding_ns > _WORTH * account.ran_ns:
        share = _percent(account.yielding_ns, account.ran_ns)
        parts.append(
            f"For {share} of it the main thread was much in the kernel and had no page faults, as when it waits in "
            "sched_yield: that may be waiting and counts as busy."
        )
    if facts.settings and facts.threads > 1:
        parts.append(f"The server was started with {', '.join(facts.settings)}.")
    if facts.full:
        parts.append("More threads may compute than gaptop watches; these stand for all.")
    if facts.elsewhere:
        parts.append(
            "Other threads run while the main thread sleeps and are not counted: if the model runs in one of them, "
            "this reads too low."
        )
    return " ".join(parts)


def _what(facts: Facts) -> str:
    if facts.threads == 1:
        return "CPU time of the server's 1 compute thread."
    if facts.cores < facts.threads:
        return (
            f"CPU time of the server's {facts.threads} compute threads, which may use {facts.cores:g} "
            f"core{'s' if facts.cores != 1 else ''} at once: that is 100 %."
        )
    return f"CPU time of the server's {facts.threads} compute threads."


def _shares(account: Account | None) -> list[str]:
    if account is None:
        return []
    told = []
    if account.spun_ns > _WORTH * account.ran_ns:
        share = _percent(account.spun_ns, account.ran_ns)
        told.append(f"{share} of it was busy-waiting (beside a sleeping main thread) and is left out.")
    if account.doubtful_ns > _WORTH * account.ran_ns:
        share = _percent(account.doubtful_ns, account.ran_ns)
        told.append(f"Up to {share} {'more ' if told else 'of it '}may have been busy-waiting and counts as busy.")
    return told


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
