"""Colours and letters. Hues are Okabe and Ito's, which colour-blind people tell apart; each has a letter beside it.

A cause has the hue of the lane where its proof is seen, so that the eye finds one from the other. Only attributes that
survive 16 colours and NO_COLOR carry meaning alone: bold, dim, reverse.
"""

from __future__ import annotations

from typing import Final

from rich.style import Style

from gaptop.valleys.model import Cause, Confidence, LinkState

GREEN: Final = "#009E73"
SKY: Final = "#56B4E9"
ORANGE: Final = "#E69F00"
PURPLE: Final = "#CC79A7"
VERMILLION: Final = "#D55E00"
YELLOW: Final = "#F0E442"
BLUE: Final = "#3F8FD0"

PLAIN: Final = Style()
BOLD: Final = Style(bold=True)
DIM: Final = Style(dim=True)
REVERSE: Final = Style(reverse=True)
GOOD: Final = Style(color=GREEN)
WAIT: Final = Style(color=ORANGE)
BAD: Final = Style(color=VERMILLION, bold=True)
SIMULATED: Final = Style(color=PURPLE, bold=True, reverse=True)
LIVE: Final = Style(color=GREEN, bold=True)
PAUSED: Final = Style(color=ORANGE, bold=True, reverse=True)

_HUES: Final[dict[Cause, str | None]] = {
    "no_demand": None,
    "admission_stall": ORANGE,
    "prefill_interference": PURPLE,
    "cache_pressure": VERMILLION,
    "host_starvation": YELLOW,
    "synchronisation": SKY,
    "external_wait": BLUE,
    "compiling": YELLOW,
    "device_limit": GREEN,
    "stalled_busy": GREEN,
    "artefact": None,
    "unknown": None,
}
_STYLES: Final = {
    (hue, bold, dim): Style(color=hue, bold=bold or None, dim=dim or None)
    for hue in {None, GREEN, SKY, ORANGE, PURPLE, VERMILLION, YELLOW, BLUE}
    for bold in (False, True)
    for dim in (False, True)
}

TITLES: Final[dict[Cause, str]] = {
    "no_demand": "NO DEMAND",
    "admission_stall": "ADMISSION STALL",
    "prefill_interference": "PREFILL INTERFERENCE",
    "cache_pressure": "CACHE PRESSURE",
    "host_starvation": "HOST STARVATION",
    "synchronisation": "SYNCHRONISATION",
    "external_wait": "EXTERNAL WAIT",
    "compiling": "COMPILING",
    "device_limit": "DEVICE LIMIT",
    "stalled_busy": "STALLED BUSY",
    "artefact": "ARTEFACT",
    "unknown": "UNKNOWN",
}

SHORT: Final[dict[Cause, str]] = {
    "no_demand": "no demand",
    "admission_stall": "admission",
    "prefill_interference": "prefill",
    "cache_pressure": "cache",
    "host_starvation": "host",
    "synchronisation": "sync",
    "external_wait": "external",
    "compiling": "compiling",
    "device_limit": "limit",
    "stalled_busy": "wedge",
    "artefact": "artefact",
    "unknown": "unknown",
}

LETTERS: Final[dict[str, str]] = {
    "schedule": "s",
    "prepare_batch": "b",
    "launch": "l",
    "sample": "a",
    "detokenize": "d",
    "tokenize": "t",
    "grammar": "g",
    "multimodal": "m",
    "serialize": "z",
    "http": "h",
    "log": "w",
    "copy": "y",
    "other": "o",
    "run": "r",
    "queue": "q",
    "gc": "G",
    "compile": "J",
    "load": "L",
    "device_sync": "D",
    "collective": "C",
    "worker_wait": "W",
    "kv_transfer": "K",
    "poll": "P",
    "disk": "F",
}
"""One letter an activity: small ones are work, capitals are waiting or a stall. ``run``, ``queue`` and ``disk`` are
what /proc tells of a thread without stacks: on a core, wanting one, reading storage."""

REST: Final = frozenset({"idle", "await_requests"})
"""Activities that have no letter: the thread has nothing to do."""

_WORK: Final = _STYLES[SKY, False, False]
_FRONT: Final = _STYLES[YELLOW, False, False]
_STALL: Final = _STYLES[VERMILLION, True, False]
_WAITING: Final = _STYLES[GREEN, False, True]
_ACTIVITY: Final[dict[str, Style]] = {
    **dict.fromkeys(("schedule", "prepare_batch", "launch", "sample", "copy", "run"), _WORK),
    **dict.fromkeys(("tokenize", "detokenize", "grammar", "multimodal", "serialize", "http", "log"), _FRONT),
    **dict.fromkeys(("gc", "compile", "load", "disk", "queue", "kv_transfer"), _STALL),
    **dict.fromkeys(("device_sync", "collective", "worker_wait", "poll"), _WAITING),
    **dict.fromkeys(REST, DIM),
}


def hue(color: str | None, *, bold: bool = False, dim: bool = False) -> Style:
    """The shared style of that hue (shared, so that cells compare by identity)."""
    return _STYLES[color, bold, dim]


def cause_style(cause: Cause, *, final: bool = True, bold: bool = False) -> Style:
    """A provisional cause is dim; so is what is no loss."""
    return _STYLES[_HUES[cause], bold and final, not final or (cause in ("no_demand", "artefact") and not bold)]


def activity_style(activity: str) -> Style:
    return _ACTIVITY.get(activity, PLAIN)


CONFIDENCE: Final[dict[Confidence, Style]] = {"high": BOLD, "medium": PLAIN, "low": DIM}
LINK: Final[dict[LinkState, Style]] = {"fine": DIM, "blocked": BAD, "not_seen": DIM}
