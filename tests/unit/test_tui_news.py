"""What makes a frame of its own: verdicts do, the seconds that a sentence counts do not."""

from __future__ import annotations

from dataclasses import replace

from gaptop.recording.lines import Line, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.tui.session import Session
from gaptop.valleys.model import Assessment
from tests.screenshots.canned import CannedFeed, stream
from tests.screenshots.judged import CannedAnalysis


class Counting(CannedAnalysis):
    """From a minute on its valleys stay as they are, and its sentence counts seconds."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self._held: Assessment | None = None

    def apply(self, line: Line) -> Assessment | None:
        if self._held is None or not isinstance(line, Tick) or line.t <= 60.0:
            self._held = super().apply(line) or self._held
            return self._held
        return replace(self._held, now=line.t, sentence=f"it has lasted {line.t:.1f} s")


def test_a_sentence_that_counts_is_no_news_and_a_verdict_is() -> None:
    feed = CannedFeed(list(stream(60.0)))
    session = Session(feed, None, Counting)
    while session.pump(1.0):
        pass
    said, news = session.assessment.sentence, session.headline
    feed.add(Tick(60.5))
    session.pump(1.0)
    assert session.assessment.sentence != said
    assert session.headline == news
    newest = session.assessment.valleys[-1]
    session.assessment = replace(session.assessment, valleys=(replace(newest, final=not newest.final),))
    assert session.headline != news
