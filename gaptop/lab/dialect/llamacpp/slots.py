"""llama-server's slots and counters, moved by the engine's messages as a decode moves them.

Prompt tokens count when their batch ends, generated ones in the slot as they come and in the counter only when the
request ends. A slot keeps its tokens when its request ends. Nothing is preempted there: what a scenario preempts goes
back to its prefill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gaptop.lab.core.events import DeviceSpan, Output, StepDone

NOBODY: Final = -1


@dataclass(slots=True)
class Slot:
    """``task`` is the request's number, ``NOBODY`` while its prompt is computed; None where it was never used.

    ``order`` tells which slot began first. ``generated`` counts over the whole request, ``decoded`` reads 0 at rest.
    """

    task: int | None = None
    busy: bool = False
    order: int = 0
    processed: int = 0
    cached: int = 0
    generated: int = 0

    @property
    def decoded(self) -> int:
        """What ``n_decoded`` shows."""
        return self.generated if self.busy else 0


class Slots:
    """All of a server's, and what ``/metrics`` adds up."""

    def __init__(self, count: int) -> None:
        self.all = [Slot() for _ in range(count)]
        self.decodes = self.computed = self.predicted = self.cached = self.deferred = self.busy_sum = 0
        self._batches: list[tuple[float, int]] = []
        self._begun = 0

    def launched(self, span: DeviceSpan) -> None:
        """A batch, whose prompt tokens count when it ends."""
        if span.prefill_tokens:
            self._batches.append((span.end, span.prefill_tokens))

    def record(self, step: StepDone) -> None:
        """One message: a decode has ended, or nothing could be scheduled."""
        tokens = 0
        while self._batches and self._batches[0][0] <= step.start:
            tokens += self._batches.pop(0)[1]
        self.computed += tokens
        if step.outputs:
            self.decodes += 1
            self.busy_sum += self.processing
        for output in step.outputs:
            tokens -= self._book(output)
        self.deferred = step.waiting
        self._fill(min(step.running, len(self.all)))
        waiting = self._prefilling()
        if waiting and tokens > 0:  # the rest belongs to a prompt that is not through
            waiting[0].processed += tokens

    @property
    def processing(self) -> int:
        """Busy slots."""
        return sum(slot.busy for slot in self.all)

    def _book(self, output: Output) -> int:
        """One token; returns the prompt tokens of this batch that were its request's."""
        slot = next((each for each in self.all if each.busy and each.task == output.request), None)
        taken = 0
        if slot is None:
            prefilling = self._prefilling()
            slot = prefilling[0] if prefilling else self._begin()
            slot.task = output.request
            if output.first is not None:
                slot.cached = output.first.cached_tokens
                computed = output.first.prompt_tokens - slot.cached
                self.cached += slot.cached
                taken, slot.processed = computed - slot.processed, computed
        slot.generated += 1
        if output.finished is not None:
            self.predicted += slot.generated
            slot.busy = False
        return taken

    def _fill(self, running: int) -> None:
        """Requests run that have no token yet, or none does that the slots still show."""
        while self.processing < running:
            self._begin()
        for slot in sorted(self._prefilling(), key=lambda each: -each.order)[: max(self.processing - running, 0)]:
            slot.busy = False

    def _begin(self) -> Slot:
        slot = min(self.all, key=lambda each: (each.busy, each.order))
        self._begun += 1
        slot.task, slot.busy, slot.order = NOBODY, True, self._begun
        slot.processed = slot.cached = slot.generated = 0
        return slot

    def _prefilling(self) -> list[Slot]:
        found = [slot for slot in self.all if slot.busy and slot.task == NOBODY]
        return sorted(found, key=lambda each: each.order)
