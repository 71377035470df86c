"""The report's part over all valleys: whether they recur with a period, and with what the gaps grow."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from gaptop.recording.printable import printable
from gaptop.valleys.model import CAUSE_NAMES
from gaptop.valleys.recurrence import Correlation, Period, Trend
from gaptop.valleys.report_devices import rounded
from gaptop.valleys.report_words import name


def trends_json(trends: Iterable[Trend]) -> list[dict[str, Any]]:
    """One entry a device (or devices that fell together) and server, with all that was compared."""
    return [
        {
            "kind": item.kind,
            "server": item.server,
            "devices": list(item.devices),
            "valleys": item.valleys,
            "confidence_ratio": rounded(item.confidence),
            "correlations": [_correlation(one) for one in item.correlations],
            "sentence": item.sentence or None,
        }
        for item in trends
    ]


def _correlation(item: Correlation) -> dict[str, Any]:
    return {
        "measure": item.measure,
        "against": item.against,
        "n": item.n,
        "n_independent": rounded(item.n_independent),
        "rho": rounded(item.rho),
        "low": rounded(item.low),
        "high": rounded(item.high),
    }


def periods_json(periods: Iterable[Period]) -> list[dict[str, Any]]:
    """One entry a period."""
    return [
        {
            "kind": item.kind,
            "server": item.server,
            "devices": list(item.devices),
            "period_s": rounded(item.period_s),
            "spread_s": rounded(item.spread_s),
            "times": item.times,
            "valleys": item.valleys,
            "strength_ratio": rounded(item.strength),
            "cause": item.cause,
            "detail": item.detail,
            "sentence": item.sentence,
        }
        for item in periods
    ]


def recurring_lines(report: Mapping[str, Any], names: Mapping[str, str], width: int) -> list[str]:
    """The section of the text report; nothing where nothing is clear."""
    lines = []
    for item in report["period"]:
        lines += _line(item, f"{item['sentence']}: {_cause(item)}", names, width)
    for item in report["trends"]:
        if item["sentence"]:
            lines += _line(item, item["sentence"], names, width)
    return ["Over all valleys", *lines, ""] if lines else []


def _cause(item: Mapping[str, Any]) -> str:
    detail = f" ({item['detail']})" if item["detail"] else ""
    return f"mostly {CAUSE_NAMES.get(item['cause'], item['cause'])}{detail}"


def _line(item: Mapping[str, Any], text: str, names: Mapping[str, str], width: int) -> list[str]:
    """One sentence, with whom it is about."""
    who = ", ".join(names.get(device) or name(device) for device in item["devices"])
    who = who or f"progress of {name(item['server'])}"
    return textwrap.wrap(printable(f"{who}: {text}"), width, initial_indent="  ", subsequent_indent="    ")
