"""Watching without a screen: what the probe says while it is stopped still counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from gaptop.cli.ending import Ending
from gaptop.cli.own_rules import Rules
from gaptop.cli.probe_lines import LiveLines
from gaptop.cli.session import watch
from gaptop.recording.lines import Line, Spans, Tick, Watermark, encode
from gaptop.valleys.model import Assessment

from .valley_server import END, LOW, server
from .valley_streams import ENGINE, Stream, classify, stairs, total


class Scripted:
    """Stands in for LiveLines: these lines while it is watched, those once the probe is told to stop."""

    def __init__(self, ending: Ending, live: list[Line], last: list[Line]) -> None:
        self._ending, self._live, self._last = ending, live, last

    def take(self, timeout: float) -> bytes | None:
        if self._live:
            return encode(self._live.pop(0))
        self._ending.wanted = True
        return None

    def rest(self) -> Iterator[bytes]:
        yield from map(encode, self._last)

    def ended(self) -> str | None:
        return None


def stuck(stacks_from: float) -> tuple[list[Line], list[Line]]:
    """A host that collects garbage until the end; the stacks of the valley come with the recorder's last window."""
    stream = Stream(END).device(stairs((0, 1.0), (LOW, 0.0)))
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 0)), step__count=total((0, 100), (LOW, 0))))
    lines = stream.stacks(ENGINE, "engine", lambda t: "gc" if t >= LOW else "device_sync", window=12.0).lines()
    late = [
        line
        for line in lines
        if (isinstance(line, Spans) and line.covered[1] > stacks_from)
        or (isinstance(line, Watermark) and line.src.startswith("threads/") and line.t > stacks_from)
    ]
    return [line for line in lines if line not in late], [*late, Tick(END + 0.2)]


@pytest.mark.parametrize(("drained", "cause"), [(True, "host_starvation"), (False, "unknown")])
def test_the_last_window_decides_the_verdict(drained: bool, cause: str) -> None:
    live, last = stuck(LOW)
    told: list[Assessment] = []
    with Ending() as ending:
        lines = cast(LiveLines, Scripted(ending, live, last if drained else []))
        _, state = watch(lines, 60.0, Rules(classify), ending, lambda _, said: told.append(said))
    assert told[-1] == state
    assert [said.ended for said in told].count(True) == 1
    (found,) = state.valleys
    assert found.verdict.cause == cause
    assert (found.end_s, found.final) == (None, False)
