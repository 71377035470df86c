"""A live stream without a screen: the probe's lines fed into the timeline and the analysis."""

from __future__ import annotations

import time
from collections.abc import Callable

from gaptop.cli.ending import Ending
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.own_rules import Classify, Rules, rules
from gaptop.cli.probe_lines import LiveLines, decoded
from gaptop.recording.lines import Header
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment


def classifier() -> Classify:
    """Stack → activity, with the user's own rules first (see :func:`gaptop.cli.own_rules.rules`)."""
    return rules().classify


def watch(
    lines: LiveLines,
    seconds: float,
    rules: Rules,
    ending: Ending,
    on_assessment: Callable[[Timeline, Assessment], None],
) -> tuple[Timeline, Assessment]:
    """Watch for so many seconds, or until a signal; then stop the probe and take in what it still has to say.
    ``on_assessment`` also gets the last assessment, in which a valley may still be open.

    Raises Stop (exit 3) when the probe gives up, and KeyboardInterrupt where nothing had come before the signal.
    """
    timeline = Timeline(rules.classify)
    analyst = Analyst(timeline)

    def apply(raw: bytes) -> None:
        line = decoded(raw)
        if line is None:
            return
        timeline.apply(line)
        if rules.notice is not None and isinstance(line, Header):
            timeline.apply(rules.notice)
        assessment = analyst.apply(line)
        if assessment is not None:
            on_assessment(timeline, assessment)

    end = time.monotonic() + seconds
    while not ending.wanted and (left := end - time.monotonic()) > 0:
        raw = lines.take(min(left, 0.25))
        if raw is None:
            if reason := lines.ended():
                raise Stop(reason, Exit.NOTHING_TO_OBSERVE)
            continue
        apply(raw)
    if ending.wanted and timeline.header is None:
        raise KeyboardInterrupt
    for raw in lines.rest():
        apply(raw)
    last = analyst.finish()
    on_assessment(timeline, last)
    return timeline, last
