"""The score of many cases. Every number has a definition here, and one only.

* ``found``: true stretches that must be seen and were; ``missed_ratio`` is of the same ones. ``invented_ratio`` is of
  all valleys that were reported.
* Precision, recall and F1 of a cause are over the valleys that exist. ``unknown`` is an abstention: it takes from the
  recall of the true cause, and no cause's precision. Invented and missed valleys are in neither; they have ratios of
  their own. A macro mean is over those of its causes that the cases or the verdicts hold.
* ``unknown_ratio`` is of the valleys that exist; right by confidence is of all that were reported with it, also of
  invented ones. A cause that was said and never true counts in a macro mean, with 0.
* ``time_weighted_accuracy``: of the true seconds inside valleys, those under a segment of the right cause.

A ratio of nothing is None, never 0. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gaptop.lab.score.match import Judged
from gaptop.valleys.model import Cause, Confidence

SIX: Final[tuple[Cause, ...]] = (
    "no_demand",
    "admission_stall",
    "prefill_interference",
    "cache_pressure",
    "host_starvation",
    "synchronisation",
)
"""The causes of the mission."""

ELEVEN: Final[tuple[Cause, ...]] = (
    *SIX,
    "external_wait",
    "compiling",
    "device_limit",
    "stalled_busy",
    "artefact",
)
"""All that have a truth: ``unknown`` is none."""

LEVELS: Final[tuple[Confidence, ...]] = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Booked:
    """Device-seconds that were not busy: the truth's over the time that the device's windows cover, and the ledger's
    sum over all of its rows but the busy one."""

    true_s: float
    ledger_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class CaseScore:
    """What one case gives. ``missed``: the causes of true stretches that nobody reported."""

    seed: int
    judged: tuple[Judged, ...]
    found: int
    missed: tuple[Cause, ...]
    booked: tuple[Booked, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class ByCause:
    """Counts of one cause over the valleys that exist. ``unsure``: of ``true``, those that were called unknown."""

    true: int
    said: int
    right: int
    unsure: int
    missed: int

    @property
    def precision(self) -> float | None:
        return ratio(self.right, self.said)

    @property
    def recall(self) -> float | None:
        return ratio(self.right, self.true)

    @property
    def f1(self) -> float | None:
        return ratio(2 * self.right, self.true + self.said)


@dataclass(frozen=True, slots=True)
class Score:
    """The score of ``cases``."""

    cases: int
    valleys: int
    found: int
    missed: int
    invented: int
    unknown: int
    by_cause: dict[Cause, ByCause]
    confusion: Counter[tuple[Cause, Cause]]
    confidence: dict[Confidence, tuple[int, int]]
    time_right: float
    time_true: float
    booked: tuple[Booked, ...] = field(default=())

    @property
    def real(self) -> int:
        """Valleys that exist."""
        return self.valleys - self.invented

    def macro(self, causes: Sequence[Cause]) -> float | None:
        """Mean F1 over those causes that the cases or the verdicts hold."""
        each = [self.by_cause[cause].f1 for cause in causes]
        known = [value for value in each if value is not None]
        return sum(known) / len(known) if known else None

    def numbers(self) -> dict[str, float | None]:
        """The score in a few numbers, each 0..1."""
        right, whole = self.confidence["high"]
        return {
            "macro_f1_six": rounded(self.macro(SIX)),
            "macro_f1_all": rounded(self.macro(ELEVEN)),
            "high_right_ratio": rounded(ratio(right, whole)),
            "unknown_ratio": rounded(ratio(self.unknown, self.real)),
            "invented_ratio": rounded(ratio(self.invented, self.valleys)),
            "missed_ratio": rounded(ratio(self.missed, self.found + self.missed)),
            "time_weighted_accuracy": rounded(ratio(self.time_right, self.time_true)),
        }

    def causes_json(self) -> dict[str, dict[str, Any]]:
        return {
            cause: {
                "true": item.true,
                "said": item.said,
                "right": item.right,
                "unknown": item.unsure,
                "missed": item.missed,
                "precision": rounded(item.precision),
                "recall": rounded(item.recall),
                "f1": rounded(item.f1),
            }
            for cause, item in self.by_cause.items()
        }


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def tally(cases: Iterable[CaseScore], *, either: bool = False) -> Score:
    """Add the cases up. ``either``: a valley of which two causes can be said has the one that was said."""
    cases = list(cases)
    judged = [item for case in cases for item in case.judged]
    if either:
        judged = [replace(item, truth=item.said) if item.acceptable else item for item in judged]
    real = [item for item in judged if item.truth is not None]
    confusion = Counter((item.truth, item.said) for item in real if item.truth is not None)
    missed = Counter(cause for case in cases for cause in case.missed)
    by_cause = {
        cause: ByCause(
            true=sum(count for (true, _), count in confusion.items() if true == cause),
            said=sum(count for (_, said), count in confusion.items() if said == cause),
            right=confusion[cause, cause],
            unsure=confusion[cause, "unknown"],
            missed=missed[cause],
        )
        for cause in ELEVEN
    }
    levels: dict[Confidence, tuple[int, int]] = {}
    for level in LEVELS:
        mine = [item for item in judged if item.confidence == level and item.said != "unknown"]
        levels[level] = (sum(item.right for item in mine), len(mine))
    return Score(
        cases=len(cases),
        valleys=len(judged),
        found=sum(case.found for case in cases),
        missed=sum(len(case.missed) for case in cases),
        invented=len(judged) - len(real),
        unknown=sum(item.said == "unknown" for item in real),
        by_cause=by_cause,
        confusion=confusion,
        confidence=levels,
        time_right=sum(item.right_s for item in real),
        time_true=sum(item.true_s for item in real),
        booked=tuple(item for case in cases for item in case.booked),
    )


def json_of(score: Score, either: Score, missing: dict[str, Score]) -> dict[str, Any]:
    """The machine form: the numbers with full evidence, by cause, and the same numbers with each source taken away;
    ``either``, where a valley of which two causes can be said has the one that was said.
    ``missing`` may hold the same cases with nothing taken away, under ""."""
    return {
        **score.numbers(),
        "by_cause": score.causes_json(),
        "by_missing_source": {name: item.numbers() for name, item in missing.items() if name},
        "either_name": either.numbers(),
    }
