"""The score for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gaptop.lab.score.booking import MISSED
from gaptop.lab.score.seen import EXCUSES
from gaptop.lab.score.tally import ELEVEN, LEVELS, SIX, ByCause, Score, ratio
from gaptop.valleys.ledger import SPREAD_ROW
from gaptop.valleys.model import CAUSE_NAMES, LETTERS, Cause


class Target(NamedTuple):
    """How a number is called, and what it should be with full evidence (None: nothing is asked of it)."""

    name: str
    short: str
    least: float | None = None
    most: float | None = None

    @property
    def asked(self) -> str:
        if self.least is not None:
            return f">= {self.least:.2f}"
        return "" if self.most is None else f"<= {self.most:.2f}"

    def missed(self, value: float | None) -> bool:
        if value is None:
            return False
        return (self.least is not None and value < self.least) or (self.most is not None and value > self.most)


TARGETS: Final = {
    "macro_f1_six": Target("macro F1, the six", "F1 six", least=0.95),
    "macro_f1_six_by_stretch": Target("  by true stretch", "stretch 6", least=0.95),
    "macro_f1_all": Target("macro F1, all eleven", "F1 all", least=0.90),
    "macro_f1_all_by_stretch": Target("  by true stretch", "stretch 11", least=0.90),
    "high_right_ratio": Target("right where confidence is high", "high", least=0.98),
    "unknown_ratio": Target("called unknown", "unknown", most=0.05),
    "invented_ratio": Target("invented", "invented", most=0.01),
    "missed_ratio": Target("missed", "missed"),
    "time_weighted_accuracy": Target("right, weighted by time", "by time"),
    "ledger_right_ratio": Target("ledger: idle under its cause", "ledger"),
    "ledger_worst_ratio": Target("ledger: worst device's sum off by", "worst", most=0.01),
}
"""In the order of the table."""


def render(score: Score, either: Score, missing: Mapping[str, Score], head: str) -> str:
    """The whole table; ``head`` says what was run. ``either``: the score where a valley of which two causes can be said
    has the one that was said. ``missing`` begins with the same cases with nothing taken away."""
    lines = [head, "", *_numbers(score, either), "", *_excused(score)]
    lines += ["", *_causes(score), "", *_confusion(score), "", *_ledger(score)]
    if missing:
        lines += ["", *_missing(missing)]
    lines += ["", _verdict(score)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def shown(value: float | None) -> str:
    return "     -" if value is None else f"{value:6.3f}"


def _numbers(score: Score, either: Score) -> list[str]:
    numbers, other = score.numbers(), either.numbers()
    lines = [f"{score.valleys} valleys reported, {score.found + score.missed} true ones that the windows must show"]
    for key, target in TARGETS.items():
        value = numbers[key]
        apart = f"  ({shown(other[key]).strip()} where two causes can be said)" if other[key] != value else ""
        mark = "  MISSED" if target.missed(value) else ""
        lines.append(f"  {target.name:<34}{shown(value)}  {target.asked:<8}{mark}{apart}")
    for level in LEVELS:
        right, whole = score.confidence[level]
        lines.append(f"  {'right at ' + level + ' confidence':<34}{shown(ratio(right, whole))}  of {whole}")
    return lines


def _verdict(score: Score) -> str:
    """In one sentence whether all is as it should be."""
    numbers = score.numbers()
    asked = [key for key, target in TARGETS.items() if target.asked and numbers[key] is not None]
    missed = [key for key in asked if TARGETS[key].missed(numbers[key])]
    if not asked:
        return "No target could be looked at: there was nothing to measure."
    if not missed:
        return f"All {len(asked)} targets that could be looked at are met."
    said = ", ".join(f"{key} {shown(numbers[key]).strip()} (asked: {TARGETS[key].asked})" for key in missed)
    return f"{len(missed)} of {len(asked)} targets {'is' if len(missed) == 1 else 'are'} MISSED: {said}."


def _excused(score: Score) -> list[str]:
    """Why true stretches need not be seen."""
    whole = score.excused.total()
    said = ", ".join(f"{score.excused[excuse]} {excuse}" for excuse in EXCUSES if score.excused[excuse])
    return [f"True stretches that need not be seen: {whole}{f' ({said})' if said else ''}"]


def _ledger(score: Score) -> list[str]:
    """Seconds: each true cause's by where they are booked, beside what the ledger's own row holds."""
    true = sum(item.true_s for item in score.booked)
    told = sum(item.ledger_s for item in score.booked)
    seen = sum(item.seen_s for item in score.booked)
    if not seen:
        return ["Ledger: no device was seen"]
    matrix, rows = score.matrix(), score.rows()
    columns: tuple[str, ...] = (*ELEVEN, "unknown", MISSED, SPREAD_ROW)
    heads = [*(LETTERS[cause] for cause in ELEVEN), LETTERS["unknown"], "missed", "spread"]
    lines = [
        f"Ledger: {told:.1f} idle device-seconds of {true:.1f} true ones in {seen:.0f} seen",
        f"{'idle s: true, then booked':<26}" + "".join(f"{head:>7}" for head in heads) + f"{'true':>8}{'booked':>8}",
    ]
    for cause in ELEVEN:
        cells = [matrix[cause, column] for column in columns]
        row = "".join(f"{f'{value:.1f}' if value >= 0.05 else '.':>7}" for value in cells)
        lines.append(f"{LETTERS[cause]} {CAUSE_NAMES[cause]:<24}{row}{sum(cells):>8.1f}{rows[cause]:>8.1f}")
    return lines


def _causes(score: Score) -> list[str]:
    head = f"{'true':>6}{'said':>6}{'right':>6}{'prec.':>7}{'recall':>7}{'F1':>7}"
    lines = [
        f"{'':<22}{'by valley':>39}   {'by true stretch':>39}",
        f"{'cause':<22}{head}   {head}{'missed':>8}",
    ]
    for cause in ELEVEN:
        mark = " " if cause in SIX else "+"
        valleys, stretches = _counts(score.by_cause[cause]), _counts(score.by_stretch[cause])
        lines.append(f"{mark}{CAUSE_NAMES[cause]:<21}{valleys}   {stretches}{score.by_stretch[cause].missed:>8}")
    return lines


def _counts(item: ByCause) -> str:
    ratios = "".join(f"{shown(value):>7}" for value in (item.precision, item.recall, item.f1))
    return f"{item.true:>6}{item.said:>6}{item.right:>6}{ratios}"


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
    lines = [f"{f'without (of {cases} cases)':<26}" + "".join(f"{TARGETS[key].short:>11}" for key in keys)]
    for name, item in missing.items():
        numbers = item.numbers()
        lines.append(f"{name or '(nothing)':<26}" + "".join(f"{shown(numbers[key]):>11}" for key in keys))
    return lines
