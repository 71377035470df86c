"""One verdict as Markdown, to be pasted into an issue: what stands on the screen, with whatever is code marked so."""

from __future__ import annotations

import re
from typing import Final

from gaptop.valleys.model import CAUSE_NAMES, Valley

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")
"""What Markdown (and the HTML in it) would take for its own."""


def verdict_markdown(valley: Valley, when: str, server: str, now: float) -> str:
    """``when`` is its beginning as people read it, ``server`` what was watched; ``now`` ends an open one."""
    said = valley.verdict
    length = (now if valley.end_s is None else valley.end_s) - valley.start_s
    detail = f": {_plain(said.detail)}" if said.detail else ""
    lines = [
        f"### {CAUSE_NAMES[said.cause].capitalize()}{detail}",
        "",
        f"{_plain(when)}, {length:.1f} s{' so far' if valley.end_s is None else ''} "
        f"(edges ± {valley.start_error_s + valley.end_error_s:.2g} s), {_plain(server)}. "
        f"Confidence {said.confidence}{'' if valley.final else ', provisional'}, "
        f"{'confirmed by a second signal' if valley.confirmed else 'suspected: one signal alone'}. {_lost(valley)}",
        "",
    ]
    lines += _list("For", [fact.told for fact in said.evidence])
    lines += _list("Against others", [f"{CAUSE_NAMES[item.cause]}: {item.because}" for item in said.excluded])
    lines += _list("Not seen", list(said.unseen))
    if said.runner_up is not None:
        cause, score = said.runner_up
        lines += [f"Runner-up: {CAUSE_NAMES[cause]} ({score:.2f} against {said.score:.2f}).", ""]
    if said.advice:
        lines += [f"**Try:** {_plain(said.advice)}", ""]
    chain = " → ".join(f"{link.link} {_state(link.state)} {_plain(link.says)}".strip() for link in said.chain)
    return "\n".join([*lines, *([chain, ""] if chain else [])])


def _state(state: str) -> str:
    return {"fine": "ok", "blocked": "**BLOCKED**", "not_seen": "not seen"}[state]


def _list(title: str, items: list[str]) -> list[str]:
    return [f"{title}:", *(f"* {_plain(item)}" for item in items), ""] if items else []


def _lost(valley: Valley) -> str:
    if valley.verdict.cause == "no_demand":
        return "Nothing was asked for, so nothing was lost."
    idle = "" if valley.idle_s is None else f"{valley.idle_s:.2f} device-seconds idle"
    tokens = "tokens lost not known" if valley.tokens_lost is None else f"{valley.tokens_lost:.0f} tokens lost"
    return f"{', '.join(filter(None, (idle, tokens)))}.".capitalize()


def _plain(text: str) -> str:
    """Text from outside is neither markup nor a new line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
