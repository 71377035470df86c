"""Trends over many valleys: with what the gaps grow. Pure.

Prompts are compared at an equal number of requests (``partial``): what a long gap keeps waiting comes all at once after
it, and among more prompts there is a longer one. What follows from the gaps in that way is no more than comes in as
much ordinary time; prompts that cause gaps come with the gaps, and are DENSE times as many tokens.

Valleys of one device (or standstills of one server) are one group; devices that fell together are told once. Nothing is
said from fewer than eight valleys. All comparisons of a stream share one error: each interval holds with 1 - 0.05 / m,
so that all m hold together with 95 % (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gaptop.valleys.correlation import FEWEST, independent, interval, partial, spearman
from gaptop.valleys.cost import NO_LOSS
from gaptop.valleys.recurrence import Correlation, Sample, Trend

ERROR: Final = 0.05

DENSE: Final = 1.5
"""Times the prompt tokens of ordinary time that must come with the gaps, for them to be more than what was waiting."""

AGAINST: Final[dict[str, Callable[[Sample], float | None]]] = {
    "prompt_tokens": lambda item: (
        None if item.prompt_tokens is None or item.prompts is None else item.prompt_tokens * item.prompts
    ),
    "output_tokens": lambda item: item.output_tokens,
    "running": lambda item: item.running,
    "kv_used": lambda item: item.kv_used,
}
NAMES: Final = {
    "prompt_tokens": "prompt length",
    "output_tokens": "output length",
    "running": "concurrency",
    "kv_used": "KV use",
}
MEANS: Final = {
    "prompt_tokens": ("output_tokens", "prefill scheduling"),
    "output_tokens": ("prompt_tokens", "work for each generated token or finished request"),
    "running": ("kv_used", "work that grows with the batch"),
    "kv_used": ("running", "the KV cache"),
}
"""What growth with the one and not with the other points to."""


Group = tuple[str, str, tuple[str, ...]]
"""Kind, server, and the devices whose valleys are the same ones."""


def grouped(samples: Sequence[Sample]) -> dict[Group, list[Sample]]:
    """Samples by device and server, in the order of time."""
    alone: dict[tuple[str, str, str], list[Sample]] = {}
    for item in sorted(samples, key=lambda item: (item.start_s, item.id)):
        for device in item.devices or ("",):
            alone.setdefault((item.kind, item.server, device), []).append(item)
    same: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (kind, server, device), items in alone.items():
        same.setdefault((kind, server, tuple(item.id for item in items)), []).append(device)
    found: dict[Group, list[Sample]] = {}
    for (kind, server, _), devices in same.items():
        items = alone[kind, server, devices[0]]
        found[kind, server, tuple(sorted(device for device in devices if device))] = items
    return dict(sorted(found.items()))


def trends(samples: Sequence[Sample]) -> tuple[Trend, ...]:
    """Of every group with enough valleys; those without demand, or of the measurement alone, are left out."""
    groups = grouped([item for item in samples if item.cause not in NO_LOSS])
    pairs = {
        group: [
            (measure, against, _pairs(items, group[2], measure, against))
            for measure in (("length", "idle") if group[2] else ("length",))
            for against in AGAINST
        ]
        for group, items in groups.items()
        if len(items) >= FEWEST
    }
    rhos = {
        (group, measure, against): both.rho() if len(both.gaps) >= FEWEST else None
        for group, found in pairs.items()
        for measure, against, both in found
    }
    confidence = 1.0 - ERROR / max(1, sum(rho is not None for rho in rhos.values()))
    made = []
    for group, found in pairs.items():
        kept = tuple(
            _correlation(measure, against, both, rhos[group, measure, against], confidence)
            for measure, against, both in found
        )
        made.append(Trend(*group, len(groups[group]), confidence, kept, _sentence(kept)))
    return tuple(made)


class _Pairs(NamedTuple):
    """What is compared with what; ``given``: at equal values of these (none: whatever they are)."""

    gaps: list[float]
    others: list[float]
    given: list[float]
    may_follow: bool

    def rho(self) -> float | None:
        return partial(self.gaps, self.others, self.given) if self.given else spearman(self.gaps, self.others)


def _pairs(items: Sequence[Sample], devices: tuple[str, ...], measure: str, against: str) -> _Pairs:
    """Those valleys in which both are known."""
    known = [(_measured(item, devices, measure), AGAINST[against](item), item) for item in items]
    both = [(first, second, item) for first, second, item in known if second is not None]
    prompts = [item for _, _, item in both] if against == "prompt_tokens" else []
    return _Pairs(
        gaps=[first for first, _, _ in both],
        others=[second for _, second, _ in both],
        given=_given([item for _, _, item in both], against),
        may_follow=bool(prompts) and not _dense(prompts),
    )


def _given(items: Sequence[Sample], against: str) -> list[float]:
    """At equal values of what a comparison is made: prompts at equally many of them; answers at equal concurrency, as
    generated tokens are counted of unfinished requests too (a larger batch looks like longer answers)."""
    known = [{"prompt_tokens": item.prompts, "output_tokens": item.running}.get(against) for item in items]
    found = [value for value in known if value is not None]
    return found if len(found) == len(items) else []


def _dense(items: Sequence[Sample]) -> bool:
    """Whether more prompt tokens came with the gaps than come by themselves, as far as both are known."""
    known = [
        (item.prompt_tokens * item.prompts, item.prompts_usual)
        for item in items
        if item.prompt_tokens is not None and item.prompts is not None and item.prompts_usual is not None
    ]
    return bool(known) and sum(tokens for tokens, _ in known) >= DENSE * sum(usual for _, usual in known)


def _measured(item: Sample, devices: tuple[str, ...], measure: str) -> float:
    """Length, or the mean idle seconds of these devices."""
    if measure == "length":
        return item.length_s
    mine = [idle for device, idle in zip(item.devices, item.idle_s, strict=True) if device in devices]
    return sum(mine) / len(mine)


def _correlation(measure: str, against: str, both: _Pairs, rho: float | None, confidence: float) -> Correlation:
    count = len(both.gaps)
    if rho is None:
        return Correlation(measure, against, count)
    alone = independent(both.gaps, both.others)
    # What is held equal takes one of them (Fisher, Metron 3, 1924).
    low, high = interval(rho, alone - bool(both.given), confidence)
    return Correlation(measure, against, count, alone, rho, low, high, both.may_follow)


def _sentence(kept: Sequence[Correlation]) -> str:
    """With what the gaps grow or shrink, and with what not; of their lengths, else of their idle seconds."""
    for measure, subject in (("length", "gap"), ("idle", "idle time of a gap")):
        mine = [item for item in kept if item.measure == measure]
        clear = sorted((item for item in mine if item.is_clear), key=lambda item: -abs(item.rho or 0.0))
        if clear:
            return _said(subject, clear, [item for item in mine if item.lacks(clear[0].rho or 0.0)])
    return ""


def _said(subject: str, clear: Sequence[Correlation], lacking: Sequence[Correlation]) -> str:
    parts, verb = [], ""
    for item in clear:
        moves = "grows" if (item.rho or 0.0) > 0.0 else "shrinks"
        parts.append(f"{moves + ' ' if moves != verb else ''}with {_numbers(item)}")
        verb = moves
    text = f"{subject} {' and '.join(parts)}"
    if lacking:
        text += f", not with {' or '.join(NAMES[item.against] for item in lacking)}"
    first = clear[0]
    other, means = MEANS[first.against]
    if len(clear) > 1:
        return text + "; what moves together is not told apart"
    if (first.rho or 0.0) > 0.0 and any(item.against == other for item in lacking):
        text += f": {means}"
    return text


def _numbers(item: Correlation) -> str:
    return f"{NAMES[item.against]} (rho {item.rho:.2f}, {item.low:.2f} to {item.high:.2f}, n {item.n})"
