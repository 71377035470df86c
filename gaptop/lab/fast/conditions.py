"""What the simulation says of the host beside its own threads: asked for a moment, or summed up over time."""

from __future__ import annotations

from gaptop.lab.core.events import Condition


class Conditions:
    """Conditions come in the order of their starts; what has ended before the last question's time is forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, list[Condition]] = {}

    def add(self, condition: Condition) -> None:
        self._known.setdefault(condition.what, []).append(condition)

    def at(self, what: str, now: float) -> float:
        """The values that hold now, added up."""
        return float(sum(item.value for item in self._known.get(what, ()) if item.start <= now < item.end))

    def during(self, what: str, start: float, end: float) -> float:
        """Value times seconds over [start, end)."""
        known = self._known.get(what)
        if not known:
            return 0.0
        parts = ((min(item.end, end) - max(item.start, start), item.value) for item in known)
        return sum(part * value for part, value in parts if part > 0)

    def ended(self, what: str, start: float, end: float) -> float:
        """Value times seconds of those that ended over (start, end]."""
        known = self._known.get(what, ())
        return float(sum((item.end - item.start) * item.value for item in known if start < item.end <= end))

    def end_of(self, what: str, now: float) -> float:
        """When what holds now ends; ``now`` where nothing does."""
        return max((item.end for item in self._known.get(what, ()) if item.start <= now < item.end), default=now)

    def start_of(self, what: str, now: float) -> float | None:
        """Since when it holds; None where it does not."""
        return min((item.start for item in self._known.get(what, ()) if item.start <= now < item.end), default=None)

    def forget(self, before: float) -> None:
        for what, known in self._known.items():
            if known and known[0].end <= before:
                self._known[what] = [item for item in known if item.end > before]
