"""The score for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gaptop.lab.score.tally import ELEVEN, LEVELS, SIX, Score, ratio
from gaptop.valleys.model import CAUSE_NAMES, LETTERS, Cause

TARGETS: Final = {
    "macro_f1_six": ("macro F1, the six", ">= 0.95"),
    "macro_f1_all": ("macro F1, all eleven", ">= 0.90"),
    "high_right_ratio": ("right where confidence is high", ">= 0.98"),
    "unknown_ratio": ("called unknown", "<= 0.05"),
    "invented_ratio": ("invented", "<= 0.01"),
    "missed_ratio": ("missed", ""),
    "time_weighted_accuracy": ("right, weighted by time", ""),
}
"""How each number is called, and what it should be with full evidence."""


def render(score: Score, either: Score, missing: Mapping[str, Score], head: str) -> str:
    """The whole table; ``head`` says what was run. ``either``: the score where a valley of which two causes can be said
    has the one that was said. ``missing`` begins with the same cases with nothing taken away."""
    lines = [head, "", *_numbers(score, either), "", *_ledger(score), "", *_causes(score), "", *_confusion(score)]
    if missing:
        lines += ["", *_missing(missing)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def shown(value: float | None) -> str:
    return "     -" if value is None else f"{value:6.3f}"


def _numbers(score: Score, either: Score) -> list[str]:
    numbers, other = score.numbers(), either.numbers()
    lines = [f"{score.valleys} valleys reported, {score.found + score.missed} true ones that the windows must show"]
    for key, (name, target) in TARGETS.items():
        apart = f"  ({shown(other[key]).strip()} where two causes can be said)" if other[key] != numbers[key] else ""
        lines.append(f"  {name:<32}{shown(numbers[key])}  {target}{apart}")
    for level in LEVELS:
        right, whole = score.confidence[level]
        lines.append(f"  {'right at ' + level + ' confidence':<32}{shown(ratio(right, whole))}  of {whole}")
    return lines


def _ledger(score: Score) -> list[str]:
    true = sum(item.true_s for item in score.booked)
    told = sum(item.ledger_s for item in score.booked)
    seen = sum(item.seen_s for item in score.booked)
    if not seen:
        return ["Ledger: no device was seen"]
    worst = max(abs(item.ledger_s - item.true_s) / item.seen_s for item in score.booked if item.seen_s)
    return [
        f"Ledger: {told:.1f} idle device-seconds of {true:.1f} true ones in {seen:.0f} seen; "
        f"worst device off by {worst:.2%} of its time"
    ]


def _causes(score: Score) -> list[str]:
    lines = [f"{'cause':<22}{'true':>6}{'said':>6}{'right':>6}{'prec.':>7}{'recall':>7}{'F1':>7}{'missed':>8}"]
    for cause in ELEVEN:
        item = score.by_cause[cause]
        mark = " " if cause in SIX else "+"
        row = f"{item.true:>6}{item.said:>6}{item.right:>6} {shown(item.precision)} {shown(item.recall)}"
        lines.append(f"{mark}{CAUSE_NAMES[cause]:<21}{row} {shown(item.f1)}{item.missed:>8}")
    return lines


def _confusion(score: Score) -> list[str]:
    said: tuple[Cause, ...] = (*ELEVEN, "unknown")
    lines = [f"{'true, then said':<22}" + "".join(f"{LETTERS[cause]:>6}" for cause in said)]
    for true in ELEVEN:
        row = "".join(f"{score.confusion[true, cause] or '.':>6}" for cause in said)
        lines.append(f"{LETTERS[true]} {CAUSE_NAMES[true]:<20}{row}")
    return lines


def _missing(missing: Mapping[str, Score]) -> list[str]:
    keys = tuple(TARGETS)
    cases = next(iter(missing.values())).cases
    lines = [f"{f'without (of {cases} cases)':<26}" + "".join(f"{_short(key):>10}" for key in keys)]
    for name, item in missing.items():
        numbers = item.numbers()
        lines.append(f"{name or '(nothing)':<26}" + "".join(f"{shown(numbers[key]):>10}" for key in keys))
    return lines


def _short(key: str) -> str:
    words = {
        "macro_f1_six": "F1 six",
        "macro_f1_all": "F1 all",
        "high_right_ratio": "high",
        "unknown_ratio": "unknown",
        "invented_ratio": "invented",
        "missed_ratio": "missed",
        "time_weighted_accuracy": "by time",
    }
    return words[key]
