"""Samples of valleys as the tests of trends and periods need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gaptop.valleys.recurrence import Sample


def samples(lengths: Sequence[float], every: float = 2.0, device: str = "a", **known: Any) -> list[Sample]:
    """Valleys of one device, one each ``every`` seconds; of each ``known`` a list, or one value for all. A prompt is of
    one request, and much longer than what ordinary time brings."""
    made = []
    for index, length in enumerate(lengths):
        more = {key: value[index] if isinstance(value, list) else value for key, value in known.items()}
        start = float(more.pop("start_s", 10 + every * index))
        of = {"id": f"u{start:.2f}", "kind": "utilisation", "server": "s", "devices": (device,), "cause": "unknown"}
        if more.get("prompt_tokens") is not None:
            more = {"prompts": 1.0, "prompts_usual": 0.0, **more}
        rest = {"start_error_s": 0.2, "detail": "", "idle_s": (0.9 * length,)}
        made.append(Sample(**{**of, **rest, "start_s": start, "length_s": float(length), **more}))
    return made
