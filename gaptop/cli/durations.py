"""Durations, sizes and numbers as people type them."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import click

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}


class Duration(click.ParamType[float]):
    """``30``, ``30s``, ``500ms``, ``5m``, ``1h`` → seconds; must be positive and at most 30 days."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value).lower())
        unit = _SECONDS.get(match[2]) if match else None
        if match is None or unit is None:
            self.fail(f"{value!r} is not a duration; write for example 30s, 5m or 1h.", param, ctx)
        seconds = float(match[1]) * unit
        if not 0 < seconds <= 30 * 86400:
            self.fail(f"{value!r} is out of range; give more than 0 and at most 30 days.", param, ctx)
        return seconds


class Number(click.FloatRange):
    """A number of a range; "nan" lies in none, though no comparison says so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return float(number)


class Size(click.ParamType[int]):
    """``500k``, ``20M``, ``1GiB`` → bytes; at least 100 kB, so that a recording holds something."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?i?)b?\s*", str(value).lower())
        unit = _BYTES.get(match[2]) if match else None
        if match is None or unit is None:
            self.fail(f"{value!r} is not a size; write for example 20M or 1GiB.", param, ctx)
        size = int(float(match[1]) * unit)
        if size < 100_000:
            self.fail(f"{value!r} is too small to hold a recording; give at least 100k.", param, ctx)
        return size
