"""Code that no rule knows on the critical thread: whatever is said of that time, it was not wholly seen."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import quiet
from gaptop.valleys.evidence import Evidence, ThreadView
from gaptop.valleys.host_view import BUSY

MUCH: Final = 0.3
"""Share of a critical thread's time in such code that might be a cause of its own."""


def unread_code(evidence: Evidence) -> tuple[str, ...]:
    """What to say of it, once for the thread that was in it most; nothing where it is little."""
    threads = [item for item in evidence.threads if item.critical and _share(item) >= MUCH]
    most = max(threads, key=lambda item: (_share(item), item.name), default=None)
    if most is None or (quiet(evidence) and _slept(most)):
        return ()
    where = f": {most.unrecognised}" if most.unrecognised else ""
    return (f"what the critical thread did in code that no rule knows, {_share(most):.0%} of the time{where}",)


def _share(view: ThreadView) -> float:
    return (view.activities or {}).get("other", 0.0)


def _slept(view: ThreadView) -> bool:
    """An engine without requests sleeps in whatever frame it waits in."""
    return view.on_cpu is not None and view.on_cpu < 1.0 - BUSY
