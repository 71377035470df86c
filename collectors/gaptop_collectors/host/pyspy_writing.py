"""The recorders of one process that are to write and end: waited for in their order, since a window's part that an
older one may yet cover cannot be cut off before that one has told."""

from __future__ import annotations

from gaptop_collectors.host.pyspy_budget import writing_ns
from gaptop_collectors.host.pyspy_recorder import Recorder


class Writing:
    """``recorders``: the oldest first."""

    def __init__(self) -> None:
        self.recorders: list[Recorder] = []

    def add(self, recorder: Recorder) -> None:
        """It was asked to write, or has ended by itself; it began after those that are here."""
        self.recorders.append(recorder)

    def patience(self) -> list[int]:
        """When a silent one is to be ended."""
        return [_patience_ns(item) for item in self.recorders if item.code is None]

    def written(self, now: int) -> list[Recorder]:
        """Take out those that have ended, the oldest first, up to the first one that has yet to write; end those that
        have been silent for too long."""
        for recorder in self.recorders:
            if not recorder.poll() and now >= _patience_ns(recorder):
                recorder.kill()
        done = []
        while self.recorders and self.recorders[0].poll():
            done.append(self.recorders.pop(0))
        return done


def _patience_ns(recorder: Recorder) -> int:
    """Counted from its last word: while its trace comes in it is not stuck, nor when we were late to read."""
    return max(recorder.asked_ns or recorder.started_ns, recorder.heard_ns) + writing_ns(recorder.rate)
