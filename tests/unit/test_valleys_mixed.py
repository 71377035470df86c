"""A valley whose parts all have one cause has that verdict, also where the numbers over several parts are mixed."""

from __future__ import annotations

from typing import Final

import pytest

from gaptop.timeline.timeline import Timeline
from gaptop.valleys import episode, segments
from gaptop.valleys.episode import Episode
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.gather import Stretch
from gaptop.valleys.model import Cause, Finding
from gaptop.valleys.progress import Stall
from gaptop.valleys.scope import Scope

SCOPE: Final = Scope(metrics=(), engine="vllm", devices=(), stacks=(), states=(), host=())


@pytest.mark.parametrize("longest", [0.6, 1.6])
def test_the_verdict_is_the_main_cause_of_the_parts(monkeypatch: pytest.MonkeyPatch, longest: float) -> None:
    def gathered(timeline: Timeline, scope: Scope, stretch: Stretch, before: object) -> Evidence:
        return Evidence(kind=stretch.kind, engine="vllm", start=stretch.start, end=stretch.end)

    def judged(evidence: Evidence) -> tuple[Finding, ...]:
        """Plain in short parts only: what follows one another inside longer ones looks like nothing known."""
        plain = evidence.length <= longest
        return (Finding("host_starvation", 0.8) if plain else Finding("unknown", 0.3),)

    monkeypatch.setattr(episode, "gather", gathered)
    monkeypatch.setattr(segments, "gather", gathered)
    monkeypatch.setattr(episode, "judge", judged)
    monkeypatch.setattr(segments, "judge", judged)
    monkeypatch.setattr("gaptop.valleys.verdict.judge", judged)
    found = Episode("1", "progress", SCOPE, "server", 10.0, 0.2, ())
    found.stall = Stall(level=10.0, start=10.0, end=13.0, start_error=0.1, end_error=0.1, last=13.0)
    valley = found.judge(Timeline(), final=True)
    assert {part.cause for part in valley.verdict.segments} == {"host_starvation"}
    assert valley.verdict.cause == "host_starvation"


@pytest.mark.parametrize(("slow", "main"), [(60.0, "stalled_busy"), (20.0, "admission_stall")])
def test_the_main_cause_is_what_cost_most_not_what_lasted_longest(
    monkeypatch: pytest.MonkeyPatch, slow: float, main: Cause
) -> None:
    """A second without any token, and then two at a reduced rate of the usual 100."""

    def gathered(timeline: Timeline, scope: Scope, stretch: Stretch, before: object) -> Evidence:
        rate = 0.0 if stretch.end <= 11.0 else slow
        return Evidence(
            stretch.kind, "vllm", stretch.start, stretch.end, decode_rate=rate, decode_before=100.0, step_rate=1.0
        )

    def judged(evidence: Evidence) -> tuple[Finding, ...]:
        return (Finding("stalled_busy" if evidence.end <= 11.0 else "admission_stall", 0.8),)

    monkeypatch.setattr(episode, "gather", gathered)
    monkeypatch.setattr(segments, "gather", gathered)
    monkeypatch.setattr(episode, "judge", judged)
    monkeypatch.setattr(segments, "judge", judged)
    monkeypatch.setattr("gaptop.valleys.verdict.judge", judged)
    found = Episode("1", "progress", SCOPE, "server", 10.0, 0.2, ())
    found.stall = Stall(level=100.0, start=10.0, end=13.0, start_error=0.1, end_error=0.1, last=13.0)
    valley = found.judge(Timeline(), final=True)
    assert [(part.cause, part.end_s) for part in valley.verdict.segments] == [
        ("stalled_busy", 11.0),
        ("admission_stall", 13.0),
    ]
    assert valley.verdict.cause == main
