"""How often a server's numbers move while it works, as its source states it: ``40 steps``, ``10 s``, or another word.

SGLang reports its gauges every 40 decode steps (``--decode-log-interval``), LMDeploy every 10 s: what was read inside a
shorter valley was decided before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from gaptop.recording.lines import Source

_RULE: Final = re.compile(r"(\d+(?:\.\d+)?) (s|steps)")


def moves_every(info: Source, signal: str, steps: float | None) -> float:
    """Seconds between two movements of a signal at so many steps a second: 0 where it moves with every step or
    reading, infinite where it moves every so many steps and nobody knows how long those take."""
    rule = _RULE.fullmatch(info.refresh_by_signal.get(signal, info.refresh))
    if rule is None:
        return 0.0
    number, unit = float(rule[1]), rule[2]
    if unit == "s":
        return number
    if number <= 1.0:
        return 0.0
    return number / steps if steps else math.inf


def decode_is_live(info: Source) -> bool:
    """Whether tokens.decode of that server moves with every step (or scrape), not only when a request ends."""
    return info.refresh_by_signal.get("tokens.decode", info.refresh) != "finish"


def slowest(infos: Iterable[Source], signal: str, steps: float | None) -> float:
    """The same of the slowest of several sources."""
    return max((moves_every(info, signal, steps) for info in infos), default=0.0)
