"""What being watched costs a busy process: its CPU time for a unit of work, watched and not, in short turns.

Between the turns the watchers are stopped and continued by signals, so that both halves of a pair meet the same
machine.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import statistics
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Final

from tests.benchmarks.table import Row, missing

_PAIRS: Final = 40
_TURN: Final = 0.5
_SETTLE: Final = 0.06
_BUDGET: Final = 0.01
Said = deque[tuple[int, float]]


def slowdown(
    what: str,
    busy: subprocess.Popen[bytes],
    watchers: Callable[[], Iterable[int]],
    warm: float,
    *,
    pairs: int = _PAIRS,
    turn: float = _TURN,
) -> Row:
    """``busy`` says on each line how many units were done and in how much CPU time; ``watchers`` are pids."""
    said: Said = deque(maxlen=1)
    Thread(target=_listen, args=(busy, said), daemon=True).start()
    try:
        time.sleep(warm)
        ratios = [_pair(watchers, said, turn, watched_first=bool(n % 2)) for n in range(pairs)]
    finally:
        _signal(watchers(), signal.SIGCONT)
    known = sorted(ratio for ratio in ratios if ratio is not None)
    if len(known) < pairs // 2:
        return missing(what, "the server did not get enough CPU time")
    middle = statistics.median(known) - 1
    # Order statistics: of 40 pairs the 14th and the 27th hold the median in 96 of 100 cases.
    rank = round(len(known) / 2 - 1.1 * math.sqrt(len(known)))
    low, high = known[rank] - 1, known[-1 - rank] - 1
    # Where the interval holds the budget, this machine is too noisy to judge it.
    kept = None if low <= _BUDGET < high else middle <= _BUDGET
    return what, f"{middle:+.2%} ({low:+.2%} to {high:+.2%})", f"≤ {_BUDGET:.0%}", kept


def _pair(watchers: Callable[[], Iterable[int]], said: Said, turn: float, *, watched_first: bool) -> float | None:
    """CPU per unit while watched over the same while not; None where too little work was done."""
    costs = {}
    for watched in (watched_first, not watched_first):
        _signal(watchers(), signal.SIGCONT if watched else signal.SIGSTOP)
        time.sleep(_SETTLE)
        units, cpu = said[-1]
        time.sleep(turn)
        more, later = said[-1]
        if more - units < 10:
            return None
        costs[watched] = (later - cpu) / (more - units)
    return costs[True] / costs[False]


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _listen(busy: subprocess.Popen[bytes], said: Said) -> None:
    assert busy.stdout is not None
    for line in busy.stdout:
        units, cpu = line.split()
        said.append((int(units), float(cpu)))
