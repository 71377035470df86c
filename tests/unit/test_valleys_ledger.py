"""Each second that a device was watched stands in exactly one row of the ledger, whatever the stream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from gaptop.recording.lines import Batch, Line
from gaptop.timeline.timeline import Timeline
from gaptop.valleys import ledger, report
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import LedgerRow
from gaptop.valleys.rounding import centred

from . import valley_boxcar
from .valley_server import server
from .valley_streams import ENGINE, Stream, analyse, classify, stairs, total

SECONDS = 60.0
RANDOM = range(10)


def random_stream(seed: int) -> tuple[Stream, dict[str, tuple[str, float]]]:
    """One to three devices that fall for a while now and then, some together, with outages, at any window; and how each
    is rounded and how long its windows are."""
    chance = np.random.default_rng(seed)
    stream, known = Stream(SECONDS), {}
    begin = float(chance.choice([0.0, 0.3, 6.0]))
    common = _falls(chance, begin)
    for index in range(int(chance.integers(1, 4))):
        name, window = f"GPU-{index}", float(chance.choice([0.1, 0.167, 0.2, 0.23, 0.5]))
        falls = sorted([*common, *_falls(chance, begin)] if chance.random() < 0.7 else _falls(chance, begin))
        steps: list[tuple[float, float]] = [(0.0, 0.01), (begin, float(chance.uniform(0.8, 1.0)))]
        for start, end, low in falls:
            if start > steps[-1][0]:
                steps += [(start, low), (end, float(chance.uniform(0.6, 1.0)))]
        outages = [(a, a + float(chance.uniform(0.05, 4.0))) for a in chance.uniform(2, 50, int(chance.integers(0, 3)))]
        rounding = str(chance.choice(["nearest", "down", "percent"]))
        stream.device(stairs(*steps), source=f"nvml/{name}", window=window, rounding=rounding, outages=outages)
        known[name] = (rounding, window)
    low, back = 20.0, 20.0 + float(chance.uniform(1, 9))
    stream.metrics(
        server(
            sched__running=stairs((0, 8), (low, 0), (low + 1, 8)),
            tokens__decode=total((0, 800), (low, 100), (back, 800)),
            step__count=total((0, 100), (low, 12), (back, 100)),
        )
    )
    return stream.stacks(ENGINE, "engine", lambda t: "gc" if 30 < t < 40 else "device_sync"), known


def _falls(chance: np.random.Generator, begin: float) -> list[tuple[float, float, float]]:
    starts = np.sort(chance.uniform(begin + 1, SECONDS, int(chance.integers(1, 12))))
    return [(float(a), float(a + chance.exponential(0.8)), float(chance.choice([0.0, 0.2, 0.55]))) for a in starts]


def readings(lines: Iterable[Line]) -> dict[str, list[float]]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for line in lines:
        if isinstance(line, Batch) and "device.busy" in line.values:
            found[line.src.partition("/")[2]] += [float(value or 0.0) for value in line.values["device.busy"]]
    return found


def seconds(rows: Iterable[LedgerRow], device: str, no: Sequence[str] = ()) -> float:
    """Seconds of all rows of a device but these."""
    return sum(row.device_seconds for row in rows if row.device == device and row.cause not in no)


@pytest.mark.parametrize("seed", RANDOM)
def test_the_rows_of_a_device_add_up_to_the_time_that_it_was_watched_at_every_tick(seed: int) -> None:
    stream, known = random_stream(seed)
    timeline, lines, looked = Timeline(classify), stream.lines(), 0
    analyst = Analyst(timeline)
    for line in lines:
        timeline.apply(line)
        state = analyst.apply(line)
        for item in () if state is None else state.watched:
            looked += item.counted_to_s > 0.0
            assert seconds(analyst.assessment.ledger, item.device) == pytest.approx(item.reached_s - item.since_s)
    assert looked > 100
    rows, told = analyst.finish().ledger, readings(lines)
    for name, (rounding, window) in known.items():
        assert seconds(rows, name) == pytest.approx(SECONDS, abs=window + 0.06)
        # Idle of the readings themselves, but for those that an outage or the end cuts.
        values = np.array(told[name])
        idle = float((1.0 - np.minimum(centred(values, rounding), 1.0)).sum() * window)
        left_open = 4 * window + 0.0025 * len(values) * window
        assert seconds(rows, name, no=("busy", "unseen")) == pytest.approx(idle, abs=left_open)


@pytest.mark.parametrize("seed", RANDOM)
def test_the_parts_of_a_stream_add_up_to_the_whole(seed: int) -> None:
    timeline, state = analyse(random_stream(seed)[0].lines())
    cuts = [0.0, 11.03, 20.5, 33.3, SECONDS]
    added: defaultdict[tuple[str, str], float] = defaultdict(float)
    for start, end in zip(cuts, cuts[1:], strict=False):
        for row in report.build(timeline, state, window=(start, end))["ledger"]:
            added[row["device"], row["cause"]] += row["device_seconds"]
    whole = {
        (row["device"], row["cause"]): row["device_seconds"]
        for row in report.build(timeline, state, window=(0.0, SECONDS))["ledger"]
    }
    told = {key: value for key, value in added.items() if value > 1e-3 or key in whole}
    assert told == pytest.approx(whole, abs=1e-3)
    for row in state.ledger:
        # How readings were rounded may be learnt after they were counted.
        assert whole[row.device, row.cause] == pytest.approx(row.device_seconds, abs=0.02)


def test_what_each_device_of_a_valley_idled_is_its_own() -> None:
    """Two devices of one server fall together; one comes back after a second, the other after five."""
    stream = Stream(30.0).device(stairs((0, 1.0), (10, 0.0), (11, 1.0)), source="nvml/GPU-0")
    stream.device(stairs((0, 1.0), (10, 0.0), (15, 1.0)), source="nvml/GPU-1")
    _, state = analyse(stream.metrics(server()).lines())
    lost = {row.device: row.device_seconds for row in state.ledger if row.valleys}
    assert lost == pytest.approx({"GPU-0": 1.0, "GPU-1": 5.0}, abs=0.01)


def test_time_that_no_reading_tells_of_has_a_row_of_its_own() -> None:
    stream = Stream(30.0).device(stairs((0, 1.0)), outages=[(10.0, 14.0)]).metrics(server())
    timeline, state = analyse(stream.lines())
    (row,) = [row for row in state.ledger if row.cause == "unseen"]
    assert row.device_seconds == pytest.approx(4.0, abs=0.25)
    assert row.share_ratio is None
    (part,) = [row for row in report.build(timeline, state, window=(12.0, 20.0))["ledger"] if row["cause"] == "unseen"]
    assert part["device_seconds"] == pytest.approx(2.0, abs=0.25)


def test_a_device_that_a_second_source_takes_over_is_told_once() -> None:
    rows = ledger.rows([ledger.DeviceTime("a", 10, 9, 0, 1), ledger.DeviceTime("a", 5, 4, 1)], [])
    assert {row.cause: row.device_seconds for row in rows} == {
        "busy": 13,
        "spread_idle": 1,
        "idle_before_work": 1,
        "unseen": 1,
    }


@pytest.mark.parametrize(
    ("gaps", "window"),
    [
        # It falls right after it had worked for long enough to have a level: a cell of the valley lies before that.
        ([(0.46, 3.0)], 0.23),
        # Two valleys with one window of 95 % between them, whose cells both reach into.
        ([(6.619, 7.193), (7.578, 7.935)], 0.23),
    ],
)
def test_idle_time_that_two_rows_could_claim_is_told_once(gaps: Sequence[tuple[float, float]], window: float) -> None:
    _, state = analyse(valley_boxcar.stream(gaps, 12.0, window, "nearest", "nearest"))
    idle = sum(end - start for start, end in gaps)
    assert any(row.valleys for row in state.ledger)
    assert seconds(state.ledger, "GPU-a", no=("busy", "unseen")) == pytest.approx(idle, abs=0.002)
