"""One case for people: what was set up, what was true, and what the report said of it. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from gaptop.lab.fast.view import View
from gaptop.lab.score.match import Judged
from gaptop.lab.score.run import Ran
from gaptop.valleys.model import Valley

SHORT: Final = 0.2
"""Seconds under which a stretch that need not be seen is not shown."""


WIDTH: Final = 116
FACTS: Final = 3
"""Numbers told of a valley whose verdict is right."""


def explain(ran: Ran, *, argue: bool) -> str:
    """What was set up, what was true, what was said; ``argue`` adds the whole argument of each wrong verdict."""
    lines = [*_setup(ran), ""]
    lines.append("True valleys (! must be seen), and what most of each is called")
    for item, told in ran.matched.sure:
        note = "MISSED" if told is None else told if told == item.cause else f"WRONG: {told}"
        lines.append(_true("!", item.start, item.end, item.device, item.seconds.items(), note))
    for item in ran.truth.stretches:
        if not item.sure and item.end - item.start >= SHORT:
            note = f"need not be seen: {item.excuse}"
            lines.append(_true(" ", item.start, item.end, item.device, item.seconds.items(), note))
    lines += ["", "Reported valleys"]
    by_id = {valley.id: valley for valley in ran.assessment.valleys}
    for judged in ran.matched.judged:
        lines += _said(judged)
        lines += _argument(by_id[judged.valley], whole=argue and not judged.right)
    score = ran.score
    lines += ["", f"Found {score.found}, missed {len(score.missed)}; {score.seconds:.1f} s to run."]
    for book in score.booked:
        lines.append(f"Ledger: {book.ledger_s:.2f} s idle of {book.true_s:.2f} true in {book.seen_s:.1f} s seen.")
        lines += [
            f"  {seconds:6.2f} s of {true} booked under {row}"
            for (true, row), seconds in sorted(book.matrix.items(), key=lambda item: -item[1])
            if true != row and seconds >= SHORT
        ]
    return "\n".join(part for line in lines for part in _folded(line)) + "\n"


def _folded(line: str) -> list[str]:
    """A long line as several, the later ones further to the right."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, initial_indent="", subsequent_indent=indent, drop_whitespace=True) or [""]


def _setup(ran: Ran) -> list[str]:
    """The server, the conditions and when they begin, and through what all of it is seen."""
    case = ran.case
    server, _, conditions = case.says.partition(": ")
    lines = [f"Case {case.seed}, {case.seconds:.0f} s", f"Server: {server}", "Conditions (seconds of the stream):"]
    lines += [f"  {text}" for text in conditions.split("; ")]
    lines.append("Seen through:")
    lines.append(f"  {', '.join(_sources(case.view))}")
    return lines


def _sources(view: View) -> Iterator[str]:
    if view.nvml:
        yield f"NVML windows of {view.window_s * 1e3:.0f} ms ({view.rounding}), drained each {view.drain_s:g} s"
        yield "power" if view.power else "no power"
        yield "activity counters (GPM)" if view.gpm else "no activity counters"
    else:
        yield "no NVML"
    refresh = "with each step" if view.refresh == "step" else f"every {view.refresh[1]:g} {view.refresh[0]}"
    yield f"{view.dialect} metrics each {view.scrape_s:g} s, moving {refresh}"
    yield "no stacks" if view.stacks_hz is None else f"stacks at {view.stacks_hz:.0f} Hz"
    yield "run states" if view.states else "no run states"
    yield "processes and host" if view.host else "nothing of processes and host"


def _true(
    mark: str, start: float, end: float, device: int | None, seconds: Iterable[tuple[str, float]], note: str
) -> str:
    what = ", ".join(f"{cause} {value:.2f} s" for cause, value in sorted(seconds, key=lambda item: -item[1]))
    where = "stall" if device is None else f"device {device}"
    return f"{mark} {start:7.2f} to {end:7.2f} ({end - start:5.2f} s) {where:<9} {what}  {note}".rstrip()


def _said(item: Judged) -> list[str]:
    right = "INVENTED" if item.truth is None else "right" if item.right else f"WRONG: {item.truth}"
    what = ", ".join(f"{cause} {value:.2f} s" for cause, value in sorted(item.seconds.items(), key=lambda x: -x[1]))
    detail = f" ({item.detail})" if item.detail else ""
    return [
        f"  {item.start:7.2f} to {item.end:7.2f} {item.kind:<11} {item.said}{detail}, confidence {item.confidence}: "
        f"{right}",
        f"      true: {what or 'nothing'}; {item.right_s:.2f} of {item.true_s:.2f} s right",
    ]


def _argument(valley: Valley, *, whole: bool) -> list[str]:
    said = valley.verdict
    lines = [f"      seen: {fact.says}" for fact in said.evidence[: None if whole else FACTS]]
    if not whole:
        return lines
    if said.runner_up is not None:
        lines.append(f"      score {said.score:.2f}, runner-up {said.runner_up[0]} {said.runner_up[1]:.2f}")
    lines += [f"      not {item.cause}: {item.because}" for item in said.excluded]
    lines += [f"      not seen: {text}" for text in said.unseen]
    lines += [f"      part {part.start_s:.2f} to {part.end_s:.2f}: {part.cause}" for part in said.segments]
    return lines
