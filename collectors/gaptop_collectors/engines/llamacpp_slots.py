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


class Progress:
    """Token counters from what was seen in the slots, corrected by what ``/metrics`` has booked.

    Feed the metrics of one moment before the slots of the same moment. Both counters start at 0 when first fed; they
    never fall, whatever order things are seen in.
    """

    def __init__(self) -> None:
        self.decode = 0.0
        self.prompt = 0.0
        self._slots: dict[int, Slot] = {}
        self._fed = False
        self._decode_base: float | None = None
        self._prompt_base: float | None = None
        self._ended = 0.0  # generated tokens of ended requests, seen or corrected, since the base
        self._computed = 0.0  # prompt tokens, seen or corrected, since the base

    def feed(self, slots: Sequence[Slot], predicted: Booked | None, computed: Booked | None) -> None:
        """One look. Without the booked counters, what happens wholly between two looks is not counted."""
        if not self._fed:
            self._slots = {slot.number: slot for slot in slots}
            self._fed = True
            # What running requests have made so far will be booked later: as if it had been seen.
            self._decode_base = predicted.value if predicted else None
            self._prompt_base = computed.value if computed else None
            return
        for slot in slots:
            self._advance(self._slots.get(slot.number), slot)
            self._slots[slot.number] = slot
        if predicted is not None and self._decode_base is not None:
            missed = predicted.value - self._decode_base - self._ended
            if missed >= predicted.least:
                self.decode += missed
                self._ended += missed
        if computed is not None and self._prompt_base is not None:
            missed = computed.value - self._prompt_base - self._computed
            if missed >= computed.least:
                self.prompt += missed
                self._computed += missed

    def _advance(self, before: Slot | None, now: Slot) -> None:
        old = before if before is not None and before.task == now.task else None
        if before is not None and before.busy and (old is None or not now.busy):
            self._ended += max(before.decoded, now.decoded if old else 0)
        if not now.busy and (old is None or not old.busy):
            return
        decoded = max(0, now.decoded - (old.decoded if old else 0))
        prompt = max(0, now.prompt - (old.prompt if old else 0))
        self.decode += decoded
        self.prompt += prompt
        self._computed += prompt
