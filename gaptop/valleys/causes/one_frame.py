"""A critical thread that kept one and the same stack, on its core, far longer than ever: perhaps it collects garbage.

py-spy shows no frame for a plain collection of Python's: the line that set it off seems to take all of its time.
"""

from __future__ import annotations

from typing import Final

from gaptop.valleys.evidence import Stay
from gaptop.valleys.host_view import ON_CPU, CriticalView
from gaptop.valleys.model import Fact

MAYBE_GC: Final = "in one frame: may be a garbage collection"

ALL: Final = 0.8
"""Of the thread's work: the rest are the steps at the edges."""

LONGER: Final = 5.0
"""Times the mean stay of ordinary times: one in 150 random ones lasts so long, and hardly a valley's only one."""

UNHEARD_OF: Final = 0.1
"""Seconds: where that activity was not seen before, a line of Python that takes so long is as odd."""


def one_frame(main: CriticalView) -> Fact | None:
    """The stay as a fact; None where the thread moved on, slept, or often stays as long."""
    stay = None if main.thread is None else main.thread.stay
    if stay is None or main.work is None or stay.activity != main.work_activity or stay.share < ALL * main.work:
        return None
    if main.on_cpu is not None and main.on_cpu < ON_CPU * stay.share:
        return None
    if stay.seconds < LONGER * _usual(stay):
        return None
    usual = "" if stay.usual is None else f", against {stay.usual:.2g} s usually"
    where = f" {stay.frame}" if stay.frame else ""
    says = f"it stayed in one frame{where} for {stay.seconds:.2g} s without a break{usual}"
    return Fact("host.thread_activity", round(stay.share, 4), "ratio", says)


def _usual(stay: Stay) -> float:
    return UNHEARD_OF if stay.usual is None else stay.usual
