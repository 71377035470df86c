"""What README's pictures show: the lab's simulated minute, the same each time, and a recorded minute of a real vLLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gaptop.lab.fast.driver import Fast
from gaptop.lab.scenarios import TOUR
from gaptop.recording.lines import Line
from gaptop.recording.reader import open_stream

VLLM: Final = Path(__file__).parent.parent / "data" / "vllm" / "0.32_cpu_loads.gaptop"
"""Made by ``python -m tests.real.record_vllm``."""
_SEED: Final = 1
_SECONDS: Final = 62.0


def simulated() -> list[Line]:
    """A live screen's lines beside the lab."""
    return list(Fast(TOUR, _SEED, _SECONDS).lines())


def recorded() -> list[Line]:
    return list(open_stream(VLLM))


class WholeFeed:
    """The screen's Feed on lines that are all there. A ``live`` one waits for more; a recording ends with them."""

    def __init__(self, lines: Sequence[Line], *, live: bool) -> None:
        self.live = live
        self._lines = list(lines)

    def drain(self, limit: int) -> list[Line]:
        drained, self._lines = self._lines[:limit], self._lines[limit:]
        return drained

    def ended(self) -> str | None:
        return None if self.live or self._lines else "end of the recording"

    def send(self, command: Mapping[str, Any]) -> None:
        """Nobody listens."""

    def save(self, start: float, end: float, verdicts: Sequence[Mapping[str, Any]]) -> Path:
        raise OSError("a picture saves nothing")

    def close(self) -> None:
        self._lines = []
