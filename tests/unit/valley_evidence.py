"""Evidence by hand: gauges, and what is said of it."""

from __future__ import annotations

from gaptop.valleys.evidence import Evidence, Gauge
from gaptop.valleys.model import Finding
from gaptop.valleys.verdict import judge


def gauge(mean: float, *, first: float, last: float, before: float) -> Gauge:
    return Gauge(mean, min(first, last, mean), max(first, last, mean), first, last, before)


def steady(value: float, before: float) -> Gauge:
    return Gauge(value, value, value, value, value, before)


def best(evidence: Evidence) -> Finding:
    return judge(evidence)[0]


def finding(evidence: Evidence, cause: str) -> Finding:
    return next(item for item in judge(evidence) if item.cause == cause)
