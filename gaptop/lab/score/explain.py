"""One case for people: what was set up, what was true, and what the report said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gaptop.lab.score.match import Judged
from gaptop.lab.score.run import Ran
from gaptop.valleys.model import Valley

SHORT: Final = 0.2
"""Seconds under which a stretch that need not be seen is not shown."""


def explain(ran: Ran, *, argue: bool) -> str:
    """The matched table; ``argue`` adds the argument of each wrong verdict."""
    case = ran.case
    lines = [f"case {case.seed}: {case.seconds:.0f} s, {case.says}", f"  {case.view}", ""]
    lines.append("true valleys (! must be seen)")
    for item, found in ran.matched.sure:
        lines.append(
            _true("!", item.start, item.end, item.device, item.seconds.items(), "found" if found else "MISSED")
        )
    for item in ran.truth.stretches:
        if not item.sure and item.end - item.start >= SHORT:
            lines.append(_true(" ", item.start, item.end, item.device, item.seconds.items(), ""))
    lines += ["", "reported valleys"]
    by_id = {valley.id: valley for valley in ran.assessment.valleys}
    for judged in ran.matched.judged:
        lines.append(_said(judged))
        if argue and not judged.right:
            lines += _argument(by_id[judged.valley])
    score = ran.score
    lines += ["", f"found {score.found}, missed {len(score.missed)}; {score.seconds:.2f} s to run"]
    for told in score.booked:
        lines.append(f"ledger {told.ledger_s:.2f} s idle of {told.true_s:.2f} true in {told.seen_s:.1f} s")
    return "\n".join(lines) + "\n"


def _true(
    mark: str, start: float, end: float, device: int | None, seconds: Iterable[tuple[str, float]], note: str
) -> str:
    what = ", ".join(f"{cause} {value:.2f} s" for cause, value in sorted(seconds, key=lambda item: -item[1]))
    where = "stall" if device is None else f"device {device}"
    return f"{mark} {start:7.2f} to {end:7.2f} ({end - start:5.2f} s) {where:<9} {what}  {note}".rstrip()


def _said(item: Judged) -> str:
    right = "invented" if item.truth is None else "right" if item.right else "WRONG"
    what = ", ".join(f"{cause} {value:.2f}" for cause, value in sorted(item.seconds.items(), key=lambda x: -x[1]))
    detail = f" ({item.detail})" if item.detail else ""
    return (
        f"  {item.start:7.2f} to {item.end:7.2f} {item.kind:<11} {item.said}{detail}, {item.confidence}: "
        f"{right}; true {what or 'nothing'}; {item.right_s:.2f} of {item.true_s:.2f} s right"
    )


def _argument(valley: Valley) -> list[str]:
    said = valley.verdict
    lines = [f"      score {said.score}, runner-up {said.runner_up}, valley {valley.id}"]
    lines += [f"      for   {fact.says}" for fact in said.evidence]
    lines += [f"      not   {item.cause}: {item.because}" for item in said.excluded]
    lines += [f"      blind {text}" for text in said.unseen]
    lines += [f"      part  {part.start_s:.2f} to {part.end_s:.2f} {part.cause}" for part in said.segments]
    return lines
