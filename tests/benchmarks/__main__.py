"""``./dev bench [MODULE...]``: what gaptop costs and how fast it is, measured now and here, as one table.

Each result is a ratio or share from one run, so that it can be compared between machines; on a busy one take the worst
with a grain of salt. Budgets are DESIGN's. It always ends with 0: benchmarks are no tests.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Final

from tests.benchmarks.table import Row, text

MODULES: Final = ("exposition", "timeline", "frame", "analyst", "start", "gaps", "server", "host", "vllm", "own", "lab")


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        print(f"bench: there is no {unknown[0]}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return
    rows: list[Row] = []
    for name in names or MODULES:
        begun = time.monotonic()
        rows += importlib.import_module(f"tests.benchmarks.bench_{name}").main()
        print(f"bench: {name} took {time.monotonic() - begun:.0f} s", file=sys.stderr)
    print(text(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
