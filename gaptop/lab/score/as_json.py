"""The score for machines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaptop.lab.score.booking import MISSED
from gaptop.lab.score.seen import EXCUSES
from gaptop.lab.score.tally import ELEVEN, LEVELS, ByCause, Score, ratio, rounded
from gaptop.valleys.ledger import SPREAD_ROW
from gaptop.valleys.model import Cause


def json_of(score: Score, either: Score, missing: Mapping[str, Score]) -> dict[str, Any]:
    """The numbers with full evidence, what they are made of, and the same numbers with each source taken away;
    ``either``, where a valley of which two causes can be said has the one that was said.
    ``missing`` may hold the same cases with nothing taken away, under ""."""
    return {
        **score.numbers(),
        "by_cause": _causes(score.by_cause),
        "by_stretch": _causes(score.by_stretch),
        "by_confidence": {level: _confidence(*score.confidence[level]) for level in LEVELS},
        "confusion": _confusion(score),
        "ledger_by_cause": _ledger(score),
        "excused": {excuse: score.excused[excuse] for excuse in EXCUSES},
        "by_missing_source": {name: item.numbers() for name, item in missing.items() if name},
        "either_name": either.numbers(),
    }


def _causes(found: Mapping[Cause, ByCause]) -> dict[str, dict[str, Any]]:
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
        for cause, item in found.items()
    }


def _confidence(right: int, whole: int) -> dict[str, float | None]:
    return {"right": right, "of": whole, "right_ratio": rounded(ratio(right, whole))}


def _confusion(score: Score) -> dict[str, dict[str, int]]:
    """Valleys by true cause and what was said."""
    return {
        true: {said: score.confusion[true, said] for said in (*ELEVEN, "unknown") if score.confusion[true, said]}
        for true in ELEVEN
    }


def _ledger(score: Score) -> dict[str, dict[str, Any]]:
    """Device-seconds: true ones by where they are booked, and what the ledger's own row holds."""
    matrix, rows = score.matrix(), score.rows()
    columns = (*ELEVEN, "unknown", MISSED, SPREAD_ROW)
    return {
        cause: {
            "true_s": rounded(sum(matrix[cause, row] for row in columns)),
            "ledger_s": rounded(rows[cause]),
            "booked_s": {row: rounded(matrix[cause, row]) for row in columns if matrix[cause, row]},
        }
        for cause in ELEVEN
    }
