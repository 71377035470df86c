"""Minutes of a GPU's life in seconds: the real binding and NvmlDevices in virtual time, and what a recording has of it.

    lines = virtual.run(300, {"intervals": [(0, 8), (8.3, 10)], "rounding": "down"}, jitter=0.05, seed=1)
    for line in virtual.stream(lines):
        timeline.apply(line)
        analyst.apply(line)

As a program it prints what run() gives: python -m tests.fakes.nvml.virtual SECONDS '{"devices": [{...}]}'.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gaptop.probe.translate import Translator
from gaptop.recording.lines import FORMAT, VERSION, Header, Json, Tick, decode, encode
from gaptop.recording.lines import Line as RecordingLine
from gaptop_collectors import collector
from tests.fakes.nvml import build
from tests.fakes.nvml.child import ROOT, Line
from tests.fakes.nvml.clocks import BEGIN_NS

TICK_NS: Final = 250_000_000
"""As the probe ticks."""
_KINDS: Final = (collector.SourceInfo, collector.Batch, collector.Hole, collector.Note, collector.Delivered)
_BY_NAME: Final[Mapping[str, type[Any]]] = {kind.__name__: kind for kind in _KINDS}


def run(
    seconds: float,
    *devices: Mapping[str, Any],
    jitter: float = 0.0,
    seed: int = 0,
    begin: float = 0.0,
    pids: Sequence[int] = (),
    wall_steps: Mapping[float, float] | None = None,
    without: Sequence[str] = (),
    calls: Path | None = None,
    state: Path | None = None,
    **config: Any,
) -> list[Line]:
    """What NvmlDevices says in so many virtual seconds, as watch.py prints it (and see clockwork.py).

    ``jitter``: each sample comes late by up to so many seconds. ``begin``: seconds of the play that are over when the
    devices are opened (their rings hold them). ``wall_steps``: when the wall clock is set, and by how much. ``state``:
    the folder that NvmlDevices gets.
    """
    clocks = {"virtual": True, "start_ns": BEGIN_NS - round(begin * 1e9)}
    environment = build.environment({**clocks, **config, "devices": devices}, without=without, calls=calls)
    how = {"seconds": seconds, "jitter": jitter, "seed": seed, "pids": list(pids), "wall_steps": wall_steps or {}}
    how |= {"state": str(state) if state else None}
    command = [sys.executable, "-m", "tests.fakes.nvml.clockwork", json.dumps(how)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the child ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(text) for text in done.stdout.splitlines()]


def message(line: Line) -> collector.Message:
    """The collector's message that was printed as this line."""
    fields = {key: value for key, value in line.items() if key != "is"}
    made: collector.Message = _BY_NAME[line["is"]](**fields)
    return made


def stream(lines: Sequence[Line], origin_ns: int = BEGIN_NS) -> Iterator[RecordingLine]:
    """The lines that the probe would have written: a header, then what the messages become, with its ticks between.

    Time 0 is the opening. Each line has been through its wire form, as on the way to a reader.
    """
    translator = Translator(origin_ns)
    host: dict[str, Json] = {"name": "testhost", "kernel": "6", "cores": 2}
    yield _sent(Header(FORMAT, VERSION, "0", "2026-01-01T00:00:00+00:00", origin_ns, host))
    waiting: list[Line] = []
    tick_ns = origin_ns
    for line in lines:
        if line["is"] == "CollectorError":
            return
        if line["is"] != "Sampled":
            waiting.append(line)
            continue
        while tick_ns < line["time_ns"]:
            yield _sent(Tick(translator.seconds(tick_ns)))
            tick_ns += TICK_NS
        for one in waiting:
            for sent in translator.translate(message(one), line["time_ns"]):
                yield _sent(sent)
        waiting = []
    yield _sent(Tick(translator.seconds(tick_ns)))


def _sent(line: RecordingLine) -> RecordingLine:
    decoded = decode(encode(line))
    assert decoded is not None
    return decoded


def main() -> None:
    config = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {"devices": [{}]}
    for line in run(float(sys.argv[1]), *config.pop("devices"), **config):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
