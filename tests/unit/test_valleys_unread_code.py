"""Code that no rule knows on the critical thread: no verdict is sure beside it, and it is listed as unseen."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Verdict

from .valley_host import meanwhile, run_states
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Curve, Stream, only, stairs, valleys_of


def mixed(share: float, rest: str, **changes: Curve) -> Stream:
    """An engine in unknown code for a share of each second of its valley, else in ``rest``."""
    stream = Stream(END).device(quiet_between(1.0)).metrics(server(**{**stopped_progress(), **changes}))
    stream.stacks(API, "api", lambda t: "idle")

    def does(t: float) -> str:
        return ("other" if t % 1.0 < share else rest) if LOW <= t < BACK else "device_sync"

    return stream.stacks(ENGINE, "engine", does)


def said(stream: Stream) -> Verdict:
    return only(valleys_of(stream), kind="utilisation").verdict


@pytest.mark.parametrize(("share", "confidence"), [(0.1, "high"), (0.4, "medium")])
@pytest.mark.parametrize(("rest", "cause"), [("schedule", "host_starvation"), ("device_sync", "synchronisation")])
def test_much_unknown_code_keeps_a_verdict_from_being_sure(
    share: float, confidence: str, rest: str, cause: str
) -> None:
    ran = meanwhile(1.0 if rest == "schedule" else 0.3, 0.3)
    verdict = said(run_states(mixed(share, rest), ENGINE, "engine", running=ran))
    assert verdict.cause == cause
    listed = [text for text in verdict.unseen if "code that no rule knows, 40% of the time: other (a.py)" in text]
    assert bool(listed) == (share == 0.4)
    if cause == "host_starvation":
        assert verdict.confidence == confidence
    else:
        assert share == 0.1 or verdict.confidence != "high"


def test_a_valley_in_unknown_code_alone_is_host_starvation_and_not_sure() -> None:
    verdict = said(run_states(mixed(1.0, "idle"), ENGINE, "engine", running=meanwhile(1.0, 0.3)))
    assert (verdict.cause, verdict.detail) == ("host_starvation", "unrecognised code: other (a.py)")
    assert verdict.confidence == "medium"


def test_an_engine_that_sleeps_in_a_frame_of_its_own_without_requests_hides_nothing() -> None:
    stream = run_states(mixed(1.0, "idle", sched__running=quiet_between(8)), ENGINE, "engine", running=stairs((0, 0.1)))
    assert not [text for text in said(stream).unseen if "no rule knows" in text]
