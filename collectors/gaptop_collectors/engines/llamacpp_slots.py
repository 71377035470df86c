"""llama-server's slots as counters that only grow.

``/slots`` shows live progress per slot but forgets it when a request ends; ``/metrics`` books generated tokens only at
the end, with six digits. Together they give every token, and each soon after it was made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gaptop_collectors.engines.exposition import NotMetrics


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot. ``held`` is the number of tokens in its part of the KV cache, prompt and generated; ``prompt`` the
    prompt tokens of its task computed so far, ``decoded`` the generated ones. ``task`` is None where never used."""

    number: int
    context: int
    busy: bool
    task: int | None
    held: int
    prompt: int
    decoded: int


def parse_slots(body: bytes) -> list[Slot]:
    """The slots of a ``/slots`` answer.

    :raises NotMetrics: anything that is not llama-server's array of slots.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise NotMetrics("is not JSON") from None
    if not isinstance(found, list) or not found:
        raise NotMetrics("is not a list of slots")
    return [_slot(each) for each in found]


def _slot(each: Any) -> Slot:
    try:
        following = each.get("next_token", {})
        if isinstance(following, list):  # an array of one in current builds, an object in older ones
            following = following[0] if following else {}
        task = each.get("id_task")
        return Slot(
            number=int(each["id"]),
            context=int(each["n_ctx"]),
            busy=bool(each["is_processing"]),
            task=int(task) if task is not None and int(task) >= 0 else None,
            held=int(each.get("n_prompt_tokens", 0)),
            prompt=int(each.get("n_prompt_tokens_processed", 0)),
            decoded=int(following.get("n_decoded", 0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise NotMetrics("has a slot without id, n_ctx or is_processing") from None


@dataclass(frozen=True, slots=True)
class Booked:
    """A counter of ``/metrics``, which is printed with six digits: in steps of 10 past a million."""

    value: float

    @property
    def exact(self) -> bool:
        return self.value < 1e6

    @property
    def least(self) -> float:
        """The smallest difference of two readings that is not rounding."""
        return 1.0 if self.exact else 2.0 * 10 ** (len(str(int(self.value))) - 6)


@dataclass(frozen=True, slots=True)
class Counted:
    """One reading of ``/metrics``: generated tokens of ended requests, and prompt tokens; None where not told."""

    predicted: Booked | None = None
    computed: Booked | None = None


class _Seen:
    """What was seen of one counter in the slots, against what ``/metrics`` has booked since both were read together."""

    def __init__(self) -> None:
        self.units = 0.0
        self._base: float | None = None

    @property
    def based(self) -> bool:
        return self._base is not None

    def start(self, booked: Booked) -> None:
        """What the slots show now belongs to this reading: what they show more from now on will be booked later."""
        self._base, self.units = booked.value, 0.0

    def missed(self, booked: Booked | None) -> float:
        """Units that were booked and never seen in a slot; taken as seen from now on."""
        if booked is None or self._base is None:
            return 0.0
        missed = booked.value - self._base - self.units
        if missed < booked.least:
            return 0.0
        self.units += missed
        return missed


@dataclass(slots=True)
class _Watched:
    """One slot as last seen, and what of its task is counted."""

    slot: Slot
    taken: int
    """Generated tokens that are counted, or were made before the first look."""
    settled: int = 0
    """Those of them that are in the sum of ended requests already."""
    doubted: bool = False
    """Its generated tokens may still be the task's before: they have not moved since the task came."""


class Progress:
    """Token counters from what was seen in the slots, corrected by what ``/metrics`` has booked.

    Both start at 0 when first fed; they never fall, whatever order things are seen in, and never hold more than was
    made since. A correction needs a reading of ``/metrics`` that belongs to the slots of the same look, or a request
    that ended between the two answers is booked as a whole later, as if it had been made since: a thousand tokens
    within a few milliseconds. Until ``based``, /metrics is to be read on both sides of the slots.
    """

    def __init__(self) -> None:
        self.decode = 0.0
        self.prompt = 0.0
        self._watched: dict[int, _Watched] = {}
        self._clears = False
        self._ended = _Seen()
        self._computed = _Seen()

    @property
    def based(self) -> bool:
        """Whether what was booked can be told from what was there before the first look."""
        return self._ended.based and self._computed.based

    def feed(self, slots: Sequence[Slot], before: Counted, after: Counted | None = None) -> None:
        """One look: ``/metrics`` read before the slots and, where wanted, again after them. Without the booked
        counters, what happens wholly between two looks is not counted."""
        first = not self._watched
        for slot in slots:
            last = self._watched.get(slot.number)
            self._clears = self._clears or _cleared(last, slot)
            self._watched[slot.number] = _Watched(slot, slot.decoded) if first else self._advance(last, slot)
        self.decode += self._ended.missed(before.predicted)
        self.prompt += self._computed.missed(before.computed)
        if after is not None and not self.based:
            self._start(slots, before, after)

    def _start(self, slots: Sequence[Slot], before: Counted, after: Counted) -> None:
        if before.predicted is not None and before.predicted == after.predicted and not self._ended.based:
            self._ended.start(before.predicted)
            for each in self._watched.values():
                each.settled = 0
        # Prompt tokens are booked with the next batch that has an output: those of an unfinished prompt may not be yet.
        whole = not any(slot.busy and slot.prompt and not slot.decoded for slot in slots)
        if before.computed is not None and before.computed == after.computed and whole and not self._computed.based:
            self._computed.start(before.computed)

    def _advance(self, last: _Watched | None, now: Slot) -> _Watched:
        if last is None or last.slot.task != now.task:
            return self._another(last, now)
        before, taken, settled = last.slot, last.taken, last.settled
        doubted = last.doubted and now.decoded == before.decoded
        if now.busy and now.decoded < before.decoded:
            taken = settled = 0  # a task's own count never falls: that was the task's before
        if now.busy or before.busy:
            self._compute(now.prompt - before.prompt)
            if not doubted:
                self.decode += max(0, now.decoded - taken)
                taken = max(taken, now.decoded)
        if before.busy and not now.busy:
            self._ended.units += taken - settled
        return _Watched(now, taken, settled, doubted)

    def _another(self, last: _Watched | None, now: Slot) -> _Watched:
        """Another task than last time. Builds of 2025 go on showing the last task's generated tokens until the new
        prompt is done; what they exceed the last look by was made since, whosever they are, and is counted at once."""
        known = last.slot.decoded if last is not None else 0
        if last is not None and last.slot.busy:
            self._ended.units += last.taken - last.settled
        if not now.busy:
            return _Watched(now, 0)
        doubted = now.decoded > 0 and not self._clears
        made = now.decoded - known if doubted and now.decoded >= known else now.decoded
        settled = made if doubted else 0
        self.decode += made
        self._ended.units += settled
        self._compute(now.prompt)
        return _Watched(now, made, settled, doubted)

    def _compute(self, prompt: int) -> None:
        self.prompt += max(0, prompt)
        self._computed.units += max(0, prompt)


def _cleared(last: _Watched | None, now: Slot) -> bool:
    """Whether this build is seen to clear a slot's generated tokens: none at a task's end, or as the next starts."""
    another = last is not None and last.slot.decoded > 0 and last.slot.task != now.task
    return now.task is not None and not now.decoded and (another or not now.busy)
