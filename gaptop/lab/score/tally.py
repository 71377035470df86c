"""The score of many cases. Every number has a definition here, and one only.

* ``found``: true stretches that must be seen and were; ``missed_ratio`` is of the same ones. ``invented_ratio`` is of
  all valleys that were reported.
* Precision, recall and F1 of a cause are over the valleys that exist. ``unknown`` is an abstention: it takes from the
  recall of the true cause, and no cause's precision. Invented and missed valleys are in neither; they have ratios of
  their own. A macro mean is over those of its causes that the cases or the verdicts hold.
* By stretch: of the true stretches that must be seen, a cause's recall counts those that are called so for most of
  their time, a missed one as not; of what is called so, invented valleys count as wrong for the precision.
* ``ledger_right_ratio``: of the truly idle device-seconds that the ledger books under a cause, or misses in a stretch
  that must be seen, those under the right cause. ``ledger_worst_ratio``: the largest difference between the ledger's
  idle time of a device and the true one, as a share of the time that the device was seen.
* ``unknown_ratio`` is of the valleys that exist; right by confidence is of all that were reported with it, also of
  invented ones. A cause that was said and never true counts in a macro mean, with 0.
* ``time_weighted_accuracy``: of the true seconds inside valleys, those under a segment of the right cause.

A ratio of nothing is None, never 0. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gaptop.lab.score.booking import Booked
from gaptop.lab.score.match import Judged
from gaptop.lab.score.seen import Excuse
from gaptop.valleys.ledger import SPREAD_ROW
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
class CaseScore:
    """What one case gives. ``sure``: the cause of each true stretch that must be seen, and what was said of it (None:
    it was not found). ``excused``: the causes of the others that last for more than an ordinary
    step, and why they need not be."""

    seed: int
    judged: tuple[Judged, ...]
    sure: tuple[tuple[Cause, Cause | None], ...]
    excused: tuple[tuple[Cause, Excuse], ...]
    booked: tuple[Booked, ...]
    seconds: float

    @property
    def found(self) -> int:
        return sum(said is not None for _, said in self.sure)

    @property
    def missed(self) -> tuple[Cause, ...]:
        """The causes of true stretches that nobody reported."""
        return tuple(cause for cause, said in self.sure if said is None)


@dataclass(frozen=True, slots=True)
class ByCause:
    """Counts of one cause: over the valleys that exist, or over the true stretches. ``unsure``: of ``true``, those that
    were called unknown; ``missed``: stretches that nobody reported."""

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
    by_stretch: dict[Cause, ByCause]
    excused: Counter[Excuse]
    confusion: Counter[tuple[Cause, Cause]]
    confidence: dict[Confidence, tuple[int, int]]
    time_right: float
    time_true: float
    booked: tuple[Booked, ...]

    @property
    def real(self) -> int:
        """Valleys that exist."""
        return self.valleys - self.invented

    def matrix(self) -> Counter[tuple[Cause, str]]:
        """True idle seconds of all devices by true cause and by where they are booked."""
        found: Counter[tuple[Cause, str]] = Counter()
        for item in self.booked:
            found.update(item.matrix)
        return found

    def rows(self) -> Counter[str]:
        """The ledgers' idle seconds of all devices by row."""
        found: Counter[str] = Counter()
        for item in self.booked:
            found.update(item.rows)
        return found

    def ledger_right(self) -> float | None:
        found = self.matrix()
        whole = sum(seconds for (_, row), seconds in found.items() if row != SPREAD_ROW)
        return ratio(sum(seconds for (true, row), seconds in found.items() if true == row), whole)

    def numbers(self) -> dict[str, float | None]:
        """The score in a few numbers, each 0..1."""
        right, whole = self.confidence["high"]
        return {
            "macro_f1_six": rounded(macro(self.by_cause, SIX)),
            "macro_f1_all": rounded(macro(self.by_cause, ELEVEN)),
            "macro_f1_six_by_stretch": rounded(macro(self.by_stretch, SIX)),
            "macro_f1_all_by_stretch": rounded(macro(self.by_stretch, ELEVEN)),
            "high_right_ratio": rounded(ratio(right, whole)),
            "unknown_ratio": rounded(ratio(self.unknown, self.real)),
            "invented_ratio": rounded(ratio(self.invented, self.valleys)),
            "missed_ratio": rounded(ratio(self.missed, self.found + self.missed)),
            "time_weighted_accuracy": rounded(ratio(self.time_right, self.time_true)),
            "ledger_right_ratio": rounded(self.ledger_right()),
            "ledger_worst_ratio": rounded(max((item.off for item in self.booked), default=None)),
        }


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def macro(found: Mapping[Cause, ByCause], causes: Sequence[Cause]) -> float | None:
    """Mean F1 over those causes that the cases or the verdicts hold."""
    known = [value for value in (found[cause].f1 for cause in causes) if value is not None]
    return sum(known) / len(known) if known else None


def tally(cases: Iterable[CaseScore], *, either: bool = False) -> Score:
    """Add the cases up. ``either``: a valley of which two causes can be said has the one that was said."""
    cases = list(cases)
    judged = [item for case in cases for item in case.judged]
    if either:
        judged = [replace(item, truth=item.said) if item.acceptable else item for item in judged]
    real = [item for item in judged if item.truth is not None]
    confusion = Counter((item.truth, item.said) for item in real if item.truth is not None)
    missed = Counter(cause for case in cases for cause in case.missed)
    # A missed one is called nothing; "unknown" would be something that was said.
    stretches = Counter((true, said) for case in cases for true, said in case.sure if said is not None)
    invented = Counter(item.said for item in judged if item.truth is None)
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
        by_cause=_by_cause(confusion, missed, {}, {}),
        by_stretch=_by_cause(stretches, missed, missed, invented),
        excused=Counter(excuse for case in cases for _, excuse in case.excused),
        confusion=confusion,
        confidence=levels,
        time_right=sum(item.right_s for item in real),
        time_true=sum(item.true_s for item in real),
        booked=tuple(item for case in cases for item in case.booked),
    )


def _by_cause(
    confusion: Mapping[tuple[Cause, Cause], int],
    missed: Mapping[Cause, int],
    lost: Mapping[Cause, int],
    invented: Mapping[Cause, int],
) -> dict[Cause, ByCause]:
    """``lost`` are true ones, and ``invented`` are said ones, that no confusion holds."""
    return {
        cause: ByCause(
            true=sum(count for (true, _), count in confusion.items() if true == cause) + lost.get(cause, 0),
            said=sum(count for (_, said), count in confusion.items() if said == cause) + invented.get(cause, 0),
            right=confusion.get((cause, cause), 0),
            unsure=confusion.get((cause, "unknown"), 0),
            missed=missed.get(cause, 0),
        )
        for cause in ELEVEN
    }
