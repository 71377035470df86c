"""Named after vllm/v1/engine/output_processor.py."""

from __future__ import annotations

from gaptop.lab.core.events import StepDone
from gaptop.lab.dialect.vllm.v1.engine.detokenizer import IncrementalDetokenizer


class OutputProcessor:
    """What happens to a step's tokens before the clients get them."""

    def __init__(self, *, holds_interpreter: bool = False) -> None:
        self._detokenizer = IncrementalDetokenizer(holds_interpreter=holds_interpreter)
        self._free = 0.0

    def process_outputs(self, step: StepDone) -> None:
        """Detokenise for as long as the simulation says."""
        seconds = step.end - max(step.start, self._free)
        self._free = step.end
        self._detokenizer.update(seconds)
