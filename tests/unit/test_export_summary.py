"""The sentence beside an export: how much was seen, why the rest was not."""

from __future__ import annotations

from gaptop.export.summary import summary, unseen
from gaptop.timeline.types import StackTime, StackTimes

STEP = StackTime(1, "schedule", (("run", "/srv/x/a.py", 1), ("step", "/srv/x/core/b.py", 20)), 6.0)
WAIT = StackTime(2, "idle", (("run", "/srv/x/a.py", 1), ("wait", "/srv/x/c.py", 3)), 2.0)


def test_it_tells_what_was_seen_why_not_the_rest_and_where_most_of_it_went() -> None:
    times = StackTimes(10.0, 20.0, (STEP, WAIT), hole=1.5, pending=0.5)
    assert summary([times], folded=True) == (
        "1 thread from 10.00 s to 20.00 s (weights are milliseconds), seen 80.0% of that time (the rest: 15.0% "
        "declared holes, 5.0% not delivered); most of it in 75% step in core/b.py:20, 25% wait in x/c.py:3."
    )


def test_several_threads_share_the_time() -> None:
    half = StackTimes(10.0, 20.0, (STEP,), absent=4.0)
    said = summary([half, StackTimes(10.0, 20.0, (), dropped=10.0)], folded=False)
    assert said.startswith("2 threads from 10.00 s to 20.00 s (times are seconds of the stream), seen 30.0% of")
    assert "20.0% their recorder ran but did not show them, 50.0% more than memory keeps" in said


def test_nothing_is_said_of_what_is_whole_or_not_known() -> None:
    whole = StackTimes(0.0, 8.0, (STEP, WAIT))
    assert unseen([whole]) == ""
    assert "(the rest" not in summary([whole], folded=True)
    said = summary([StackTimes(0.0, 1.0, (StackTime(-1, "other", (), 1.0),))], folded=True)
    assert said.endswith("most of it in stacks without frames.")
