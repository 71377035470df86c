"""gaptop comes to a real llama-server at any moment of its steady load: no false rate, and no valley out of nothing."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from gaptop.recording.lines import Batch, Header
from gaptop.recording.reader import OpenError, open_stream
from tests.real import servers
from tests.real.conftest import installed, warm_up
from tests.real.load import Client, drive
from tests.real.watch import recording, report

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ROUNDS: Final = 2
READINGS: Final = 14
"""Seven seconds of them at the default."""
FEWEST: Final = 11
"""Fewer say nothing of a steady load: a level takes half of them to be learnt."""
PATIENCE_S: Final = 15.0
OUTPUT: Final = 100
CLIENTS: Final = 3
SPAN_S: Final = 0.4
"""Tokens come in lumps of a step: rates are compared over spans of no less."""
SLOWER: Final = 0.75
"""Of its usual rate, or of that just before: under that the server itself was slow, and a valley is no false one."""
BEFORE_S: Final = 2.0


@dataclass(slots=True)
class Attached:
    """Two recordings a round, begun at random moments, and the client's own count of tokens over time."""

    paths: list[Path] = field(default_factory=list)
    seen: list[tuple[float, int]] = field(default_factory=list)

    def between(self, start: float, end: float) -> float:
        """Tokens a second that the clients got between two moments (CLOCK_MONOTONIC)."""
        first, low = max((item for item in self.seen if item[0] <= start), default=self.seen[0])
        last, high = min((item for item in self.seen if item[0] >= end), default=self.seen[-1])
        return (high - low) / max(last - first, 1e-3)

    def slowest(self, start: float, end: float, seconds: float) -> float:
        """The lowest rate over so many seconds between two moments: a valley's place is known to its edges' error."""
        starts = [t for t, _ in self.seen if start <= t <= max(start, end - seconds)] or [start]
        return min(self.between(first, first + seconds) for first in starts)

    def fastest(self, seconds: float) -> float:
        rates = []
        first = 0
        for t, tokens in self.seen:
            while t - self.seen[first][0] > seconds:
                first += 1
            if t - self.seen[first][0] > 0.8 * seconds:
                rates.append((tokens - self.seen[first][1]) / (t - self.seen[first][0]))
        return max(rates)


def begun(path: Path) -> float:
    header = next(line for line in open_stream(path) if isinstance(line, Header))
    return header.start_monotonic_ns / 1e9


def readings(path: Path) -> list[tuple[float, float]]:
    found = [
        pair
        for line in open_stream(path)
        if isinstance(line, Batch) and "tokens.decode" in line.values
        for pair in zip(line.t, line.values["tokens.decode"], strict=True)
    ]
    return [(t, value) for t, value in found if value is not None]


def enough(path: Path) -> bool:
    """Whether a recording that is being written holds all the readings that are wanted."""
    try:
        return len(readings(path)) >= READINGS
    except OpenError:  # it has not begun yet
        return False


def stalls(path: Path) -> list[dict[str, Any]]:
    return [valley for valley in report(path)["valleys"] if valley["kind"] == "progress"]


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Attached:
    installed(servers.LLAMA)
    folder = tmp_path_factory.mktemp("llama-attached")
    moments = random.Random(4711)
    result = Attached()
    with servers.llama(folder, "--metrics") as server:
        warm_up(server.url, "llamacpp")

        def record(path: Path, after: float) -> None:
            time.sleep(after)
            with recording(path, server.url):
                end = time.monotonic() + PATIENCE_S
                while time.monotonic() < end and not enough(path):
                    time.sleep(1.0)

        async def count(client: Client) -> None:
            while True:
                result.seen.append((time.monotonic(), client.drive.tokens))
                await asyncio.sleep(0.02)

        async def script(client: Client) -> None:
            counting = asyncio.create_task(count(client))
            stop = asyncio.Event()

            async def one_client() -> None:
                while not stop.is_set():
                    await client.one(40, OUTPUT)

            load = [asyncio.create_task(one_client()) for _ in range(CLIENTS)]
            for number in range(ROUNDS):
                paths = [folder / f"attached-{number}-{screen}.gaptop" for screen in range(2)]
                result.paths += paths
                waits = [moments.uniform(0.0, 2.0) for _ in paths]
                await asyncio.gather(*(asyncio.to_thread(record, *item) for item in zip(paths, waits, strict=True)))
            stop.set()
            await asyncio.gather(*load)
            counting.cancel()

        seen = asyncio.run(drive(server.url, "llamacpp", script, limit=180))
        assert seen.failed == 0
    fewest = min(len(readings(path)) for path in result.paths)
    if fewest < FEWEST:
        pytest.skip(f"this machine was too slow: a recording has {fewest} readings after {PATIENCE_S:.0f} s")
    return result


def test_no_rate_is_told_that_the_clients_did_not_see(attached: Attached) -> None:
    most = attached.fastest(SPAN_S)
    for path in attached.paths:
        told = readings(path)
        start = 0
        for index, (t, tokens) in enumerate(told):
            if t - told[start][0] >= SPAN_S:
                rate = (tokens - told[start][1]) / (t - told[start][0])
                assert rate <= 2 * most, f"{path.name}: {rate:.0f} tokens/s at {t:.1f} s, the clients saw {most:.0f}"
                start = index


def test_all_that_is_told_was_made_while_it_was_watched(attached: Attached) -> None:
    for path in attached.paths:
        told, origin = readings(path), begun(path)
        (first, low), (last, high) = told[0], told[-1]
        made = attached.between(origin + first, origin + last) * (last - first)
        assert high - low == pytest.approx(made, rel=0.1, abs=0.2 * CLIENTS * OUTPUT)


def test_steady_load_is_no_valley_wherever_one_begins_to_look(attached: Attached) -> None:
    usual = attached.between(attached.seen[0][0], attached.seen[-1][0])
    for path in attached.paths:
        origin = begun(path)
        for valley in stalls(path):
            begins = origin + valley["start_s"] - valley["start_error_s"]
            end = readings(path)[-1][0] if valley["end_s"] is None else valley["end_s"] + valley["end_error_s"]
            length = max(SPAN_S, end - valley["start_s"] - valley["end_error_s"])
            rate = attached.slowest(begins, origin + end, length)
            before = max(usual, attached.between(begins - BEFORE_S, begins))
            said = f"{path.name}: {valley['cause']} from {valley['start_s']} to {valley['end_s']} s"
            assert rate < SLOWER * before, f"{said}, never under {rate:.0f} of {before:.0f} tokens/s"
