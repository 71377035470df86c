"""llama-server's ``/metrics`` and ``/slots`` as plain numbers: both move once per decode, slots tell each token.

A request is in its slot from when it runs; its prompt's tokens count as its batches end. Nothing is preempted there, so
what a scenario preempts shows as a slot that prefills again.
"""

from __future__ import annotations

from typing import Final

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.fast.counters import Values

MOST_EXACT: Final = 1e6
"""``/metrics`` prints six digits: its step count is not delivered past this."""


class LlamaCounters:
    """What the collector makes of both paths."""

    def __init__(self, config: EngineConfig) -> None:
        self._slots = config.max_num_seqs
        self._capacity = float(config.num_blocks * config.block_size)
        self._batches: list[tuple[float, int]] = []
        self._talking: set[int] = set()
        self.running = self.waiting = self.steps = self.decode = self.prompt = 0
        self.kv = 0.0

    def launched(self, span: DeviceSpan) -> None:
        """A batch whose prompt tokens count when it ends."""
        if span.prefill_tokens:
            self._batches.append((span.end, span.prefill_tokens))

    def book(self, step: StepDone) -> None:
        """One message of the engine: a decode has ended (or nothing could be scheduled)."""
        while self._batches and self._batches[0][0] <= step.start:
            self.prompt += self._batches.pop(0)[1]
        self.running, self.waiting = min(step.running, self._slots), step.waiting
        self.kv = step.used_blocks / step.blocks
        self.steps += bool(step.outputs)
        self.decode += len(step.outputs)
        for output in step.outputs:
            if output.finished is not None:
                self._talking.discard(output.request)
            else:
                self._talking.add(output.request)

    def from_metrics(self) -> Values:
        """The series of ``/metrics``."""
        found: Values = {"sched.waiting": float(self.waiting)}
        if self.steps < MOST_EXACT:
            found["step.count"] = float(self.steps)
        return found

    def from_slots(self) -> Values:
        """The series of ``/slots``."""
        return {
            "sched.running": float(self.running),
            "slots.prefilling": float(max(0, self.running - len(self._talking))),
            "sched.limit": float(self._slots),
            "tokens.decode": float(self.decode),
            "tokens.prompt": float(self.prompt),
            "kv.capacity": self._capacity,
            "kv.used": min(1.0, self.kv),
        }
