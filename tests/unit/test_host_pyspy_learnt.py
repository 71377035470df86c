"""What a py-spy source states of its clock: the worst of its newest windows, and not of a start long ago."""

from __future__ import annotations

from typing import cast

from gaptop_collectors.host.pyspy_learnt import Learnt
from gaptop_collectors.host.pyspy_recorder import Recorder

from .pyspy_world import FakeRecorder

MS = 1_000_000


def test_one_starved_start_is_stated_for_some_windows_and_no_longer() -> None:
    learnt, recorder = Learnt(), FakeRecorder(lambda: 0, 10)
    recorder.code = 0
    stated = []
    for error_ns in (1 * MS, 617 * MS, *[1 * MS] * 12):
        learnt.window(cast(Recorder, recorder), 4.0, error_ns, 0.01)
        stated.append(learnt.clock_error)
    assert stated[0] == 0.01
    assert stated[1:5] == [0.62] * 4, "valleys of that time are still being judged"
    assert stated[-1] == 0.01
