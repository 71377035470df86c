"""The canned minute with a period and a trend under its ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Final

from gaptop.recording.lines import Line
from gaptop.tui.app import GaptopApp
from gaptop.tui.feed import ScreenOptions
from gaptop.valleys.model import Assessment
from gaptop.valleys.recurrence import Correlation, Period, Trend
from tests.screenshots.canned import DEVICE, CannedFeed, classify, stream
from tests.screenshots.judged import CannedAnalysis

GPU: Final = DEVICE.partition("/")[2]
PERIOD: Final = Period("utilisation", "s", (GPU,), 1.5, 0.1, 24, 30, 0.9, "host_starvation", "garbage collection")
TREND: Final = Trend(
    "utilisation",
    "s",
    (GPU,),
    30,
    0.9875,
    (Correlation("length", "prompt_tokens", 24, 24.0, 0.8, 0.6, 0.9),),
    "gap grows with prompt length (rho 0.80, 0.60 to 0.90, n 24), not with output length: prefill scheduling",
)


def recurring(said: Assessment) -> Assessment:
    return replace(said, periods=(PERIOD,), trends=(TREND,))


class RecurringAnalysis(CannedAnalysis):
    """From ten seconds on the valleys are known to recur."""

    def apply(self, line: Line) -> Assessment | None:
        said = super().apply(line)
        return said if said is None or said.now < 10.0 else recurring(said)


def recurring_app(ascii_only: bool = False) -> GaptopApp:
    options = ScreenOptions(ascii=ascii_only, fps=0.01, version="0.1.0", log_path="~/gaptop.log", timezone=UTC)
    return GaptopApp(CannedFeed(list(stream(60.0, False))), classify, options, RecurringAnalysis, lambda: 0.0)
