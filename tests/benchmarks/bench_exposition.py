"""How fast a whole 51 KB vLLM body becomes the signals, against prometheus_client on the same body."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gaptop_collectors.engines.exposition import ExpositionReader
from gaptop_collectors.engines.vllm_names import WANTED
from tests.benchmarks.table import Row

_BODY = Path(__file__).parents[1] / "data" / "vllm" / "0.32_bursty.prom"


def _milliseconds(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - begun) / 1e6)
    return statistics.median(times)


def main() -> list[Row]:
    """Rows for the table."""
    body = _BODY.read_text()
    reader = ExpositionReader(WANTED)
    whole = _milliseconds(lambda: list(text_string_to_metric_families(body)), 9)
    ours = _milliseconds(lambda: reader.read(body), 99)
    expected = {
        (s.name, tuple(sorted(s.labels.items()))): float(s.value)
        for family in text_string_to_metric_families(body)
        for s in family.samples
        if s.name in WANTED
    }
    same = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in reader.read(body)} == expected
    return [
        ("exposition: whole body, prometheus_client", f"{whole:.2f} ms", "-", None),
        ("exposition: wanted samples", f"{ours:.2f} ms, {whole / ours:.0f}x faster", "≥ 20x", whole >= 20 * ours),
        ("exposition: same values", "yes" if same else "NO", "yes", same),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
