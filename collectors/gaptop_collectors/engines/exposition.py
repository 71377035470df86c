"""Prometheus text to the wanted samples: a cheap filter by name first, prometheus_client's parser for what is left.

A vLLM body has some 650 lines of which about thirty are wanted, and the labels of a series never change between two
scrapes: so the parser sees each wanted series once, and afterwards only its value is read.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

_KNOWN_SERIES: Final = 4096
_METRIC_LINE: Final = re.compile(
    r"^\s*(?:#\s+(?:TYPE|HELP)\s|[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?[ \t]+[-+0-9.nNiI]\S*(?:[ \t]+-?\d+)?\s*$)",
    re.MULTILINE,
)


class NotMetrics(ValueError):
    """The text is not (or not a whole) Prometheus exposition; the message is a clause: "is an HTML page"."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample as on the wire. ``value`` is None where the server printed NaN or an infinity: no observation."""

    name: str
    labels: Mapping[str, str]
    value: float | None


class ExpositionReader:
    """Reads the samples called ``names`` (sample names: with ``_total``, ``_sum``, ``_count``) out of whole bodies."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._series: dict[str, tuple[str, Mapping[str, str]]] = {}

    def read(self, text: str) -> list[Sample]:
        """The wanted samples in their order; what stands behind the last newline is a cut line and is left out.

        :raises NotMetrics: text without any metric line, or a wanted line that cannot be read.
        """
        names = self._names
        found: list[Sample] = []
        for line in text[: text.rfind("\n") + 1].split("\n"):
            brace = line.find("{")
            if brace < 0:
                words = line.split(None, 1)
                if not words or words[0] not in names:
                    continue
            elif line[:brace].strip() not in names and line[:brace].strip():
                continue
            sample = self._sample(line)
            if sample.name in names:
                found.append(sample)
        if not found:
            require_metrics(text)
        return found

    def _sample(self, line: str) -> Sample:
        end = line.rfind("}") + 1
        if not end:
            end = len(line) - len(line.lstrip()) + len(line.split(None, 1)[0])
        head, tail = line[:end], line[end:].split()
        known = self._series.get(head)
        if known is None:
            if " # " in head:  # an exemplar, or a label that looks like one: not worth remembering
                return _parse(line)
            # A value of 1 stands in for the real one: the parser is asked for the name and the labels only.
            sample = _parse(f"{head} 1")
            if sample.value != 1:
                return _parse(line)
            known = (sample.name, sample.labels)
            if len(self._series) >= _KNOWN_SERIES:
                self._series.clear()
            self._series[head] = known
        if not 1 <= len(tail) <= 2 or "_" in tail[0]:
            return _parse(line)
        try:
            value = float(tail[0])
        except ValueError:
            raise NotMetrics("has a metric line that cannot be read") from None
        return Sample(known[0], known[1], value if math.isfinite(value) else None)


def require_metrics(text: str) -> None:
    """Do nothing for a body with at least one metric or TYPE line (an empty body too: a filter that found nothing).

    :raises NotMetrics: anything else; most often a proxy's error page sent with status 200.
    """
    start = text.lstrip()[:1]
    if not start:
        return
    if start == "<":
        raise NotMetrics("is an HTML page, not metrics")
    if start in "{[":
        raise NotMetrics("is JSON, not Prometheus text")
    if _METRIC_LINE.search(text) is None:
        raise NotMetrics("has not a single metric line")


def _parse(line: str) -> Sample:
    try:
        for family in text_string_to_metric_families(line):
            for sample in family.samples:
                value = float(sample.value)
                return Sample(sample.name, dict(sample.labels), value if math.isfinite(value) else None)
    except (ValueError, IndexError, KeyError):
        pass
    raise NotMetrics("has a metric line that cannot be read")
