"""What two GPM samples say: one request to NVML for all metrics, each answer checked, a repeated sample told apart."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gaptop_collectors.devices.nvml_calls import CallFailed, Calls, Trouble

BUSY: Final = "device.graphics_active"
METRICS: Final[Mapping[int, str]] = MappingProxyType(
    {1: BUSY, 2: "device.sm_active", 5: "device.tensor_active", 10: "device.dram_active"}
)
SIGNALS: Final = tuple(METRICS.values())
CYCLES: Final = 248
"""SM cycles elapsed since boot, on newer drivers: it moves with every fresh sample."""
REFUSED: Final = (
    "this user may not read the GPU's activity counters (GPM): run gaptop with sudo, or have the driver loaded with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)
_ROUNDING: Final = 1e-9
"""How far over 100 % a double may lie that means 100 %."""


class GpmRequest:
    """``unsupported``: metrics that this driver refuses one by one. ``dropped``: how many values were no share of time.

    The structure has room for every metric there is (19 kB): it is made once.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._structure = calls.nvml.c_nvmlGpmMetricsGet_t()
        self._structure.version = calls.nvml.NVML_GPM_METRICS_GET_VERSION
        self.unsupported: dict[str, str] = {}
        self.dropped = 0
        self._last: list[float | None] = []
        self._cycles: float | None = None
        self._ask((*METRICS, CYCLES))

    def between(self, older: Any, newer: Any) -> tuple[dict[str, float], bool]:
        """Ratios by signal, and whether ``newer`` is an old sample given again. Raises CallFailed."""
        self._structure.sample1, self._structure.sample2 = older, newer
        try:
            self._calls(self._calls.nvml.nvmlGpmMetricsGet, self._structure)
        except CallFailed as failed:
            if CYCLES not in self._metrics or failed.code != self._calls.nvml.NVML_ERROR_INVALID_ARGUMENT:
                raise
            # A driver may refuse the whole request for one metric that it does not know.
            self._ask(tuple(METRICS))
            self._calls(self._calls.nvml.nvmlGpmMetricsGet, self._structure)
        values: dict[str, float] = {}
        numbers: list[float | None] = []
        cycles: float | None = None
        for metric, answer in zip(self._metrics, self._answers, strict=True):
            # Each attribute of the binding's structures is slow to read, so read it once.
            code, number = int(answer.nvmlReturn), float(answer.value)
            if code:
                self._refuse(metric, code)
            elif metric == CYCLES:
                cycles = number
            else:
                ratio = self._ratio(number)
                numbers.append(None if ratio is None else number)
                if ratio is not None:
                    values[METRICS[metric]] = ratio
        gone = {metric for metric in METRICS if METRICS[metric] in self.unsupported}
        if gone & set(self._metrics):
            self._ask(tuple(metric for metric in self._metrics if metric not in gone))
        return values, self._repeated(numbers, cycles)

    def _ask(self, metrics: tuple[int, ...]) -> None:
        self._metrics = metrics
        self._structure.numMetrics = len(metrics)
        self._answers = [self._structure.metrics[index] for index in range(len(metrics))]
        for answer, metric in zip(self._answers, metrics, strict=True):
            answer.metricId = metric

    def _refuse(self, metric: int, code: int) -> None:
        if metric != CYCLES and self._calls.trouble(code) is Trouble.UNSUPPORTED:
            refused = code == self._calls.nvml.NVML_ERROR_NO_PERMISSION
            self.unsupported[METRICS[metric]] = REFUSED if refused else "this driver's GPM does not offer it"

    def _ratio(self, number: float) -> float | None:
        if 0 <= number <= 100 * (1 + _ROUNDING):
            return round(min(1.0, number / 100), 6)
        if number == number:  # NaN is "no value"; what is beyond 0..100 is a wrong one
            self.dropped += 1
        return None

    def _repeated(self, numbers: list[float | None], cycles: float | None) -> bool:
        """Without the cycles' counter: the very same doubles as the last time, unless they are of those that come again
        by themselves (idle, or full)."""
        before, self._last = self._last, numbers
        cycles_before, self._cycles = self._cycles, cycles
        if cycles is not None:
            return cycles == cycles_before
        return numbers == before and any(number not in (None, 0.0, 100.0) for number in numbers)
