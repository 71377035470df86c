"""How a process that py-spy watches, or leaves alone for now, is described as a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gaptop_collectors.collector import CollectorError, SourceInfo
from gaptop_collectors.host.pyspy_budget import BUDGET
from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.roles import critical_tid
from gaptop_collectors.target import ServerProcess

LEFT_OUT: Final = "left out to keep py-spy inside its budget"
_LEFT_OUT_SAYS: Final = (
    f"{LEFT_OUT} of {BUDGET:.0%} of a core, so its stacks are not seen: /proc tells when its threads run and wait; "
    "where the cost does not matter, --threads fast watches every process."
)
RESTS: Final = "paused until what py-spy has cost is paid back"
_RESTS_SAYS: Final = (
    f"{RESTS}, because starting it and sampling these threads are so dear here that {BUDGET:.0%} of a core does not "
    "pay for the slowest rate: stacks are seen by turns, and /proc tells when threads run and wait; where the cost "
    "does not matter, --threads fast watches all the time."
)
_ERROR_TICKS: Final = 2.3
"""95 % of the edges lie within this many ticks after the delay is taken off."""


def describe(
    process: ServerProcess,
    threads: Mapping[int, str],
    *,
    rate: int,
    closer: int,
    window: float,
    learnt: Learnt,
    over: bool,
    rests: bool,
    trouble: CollectorError | None,
) -> SourceInfo:
    """``rate`` in Hz, 0 while the process is left out; ``closer``: the higher rate of a moment's closer look, 0 without
    one; ``window`` in seconds; ``over``: more than the budget even so; ``rests``: for that reason not now; ``trouble``:
    why nothing is seen.
    """
    says = f"{rate} Hz, {window:g} s windows" if rate else _RESTS_SAYS if rests else _LEFT_OUT_SAYS
    if closer:
        says += f", at this moment {closer} Hz"
    if learnt.slowed > 1.05:
        says += ", slowed because py-spy fell behind"
    if over and rate:
        says += f", with pauses that keep it inside {BUDGET:.0%} of a core, because samples of so many threads are dear"
    if learnt.error_share > 0.05:
        says += f", {learnt.error_share:.0%} of reads failed"
    if trouble is not None:
        says = trouble.says
    return SourceInfo(
        source=f"threads/{process.pid}",
        collector="host.threads_pyspy",
        kind="process",
        entity={
            "pid": process.pid,
            "role": process.role,
            "name": process.name,
            "critical_tid": critical_tid(process, threads),
            "threads": [{"tid": tid, "name": name} for tid, name in sorted(threads.items())],
        },
        signals=(),
        period=window,
        error=round(learnt.clock_error + _ERROR_TICKS / max(1, rate), 3),
        paused=not rate and trouble is None,
        says=says,
    )
