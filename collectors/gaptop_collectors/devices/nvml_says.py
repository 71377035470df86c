"""How a GPU's utilisation is read, in one short sentence: resolution, jitter, way, clock, rounding. Pure."""

from __future__ import annotations

from typing import Final

from gaptop_collectors.collector import Rounding
from gaptop_collectors.devices.nvml_ring import Period

_CLOCKS: Final = {
    "epoch": "stamps of the wall clock",
    "boot": "stamps of the boot clock",
    "monotonic": "stamps of the monotonic clock",
}
_ROUNDED: Final = {
    "nearest": "rounded to whole per cents",
    "down": "rounded down to whole per cents",
    "percent": "whole per cents",
}
_APART: Final = 0.05


def resolution(window_s: float, measured: Period | None, earlier: bool) -> str:
    """``earlier``: the period was measured on an earlier run, and not yet on this one."""
    window = f"resolution {_ms(window_s)}"
    if measured is None:
        return f"{window} (assumed until the GPU has been busy)"
    return f"{window} (measured{' on an earlier run' if earlier else ''}), jitter {_ms(measured.jitter)}"


def from_ring(how: str, domain: str, rounding: Rounding, changes: Period | None, window_s: float) -> str:
    """``how`` is the resolution; ``changes``: how often the polled value was seen to change, if it ever was."""
    parts = [how, "every window from the driver's ring"]
    parts += [text for text in (_CLOCKS.get(domain), _ROUNDED.get(rounding)) if text]
    text = ", ".join(parts)
    text = f"{text[0].upper()}{text[1:]}."
    if domain == "anchored":
        text += " The driver's stamps are of no known clock and were anchored to their arrival."
    if apart(changes, window_s):
        assert changes
        text += (
            f" Polled, its value changes only every {_ms(changes.seconds)}: a cached copy, so tools that poll see "
            "less; the ring is trusted."
        )
    return text


def from_polls(how: str, why: str, rounding: Rounding) -> str:
    """``why`` there is no ring."""
    rounded = f", {_ROUNDED[rounding]}" if rounding else ""
    return f"Utilisation is polled ({why}): {how}{rounded}, and a window's end is known to half of one."


def apart(changes: Period | None, window_s: float) -> bool:
    """Whether the polled value changes at another period than the ring's entries come."""
    return changes is not None and abs(changes.seconds - window_s) > _APART * window_s


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
