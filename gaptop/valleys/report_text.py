"""The report for people: what a tired person needs first, first. Plain text of a given width."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gaptop.recording.printable import printable
from gaptop.valleys.coverage import UNDERSTOOD
from gaptop.valleys.hot_paths import place
from gaptop.valleys.model import CAUSE_NAMES, LETTERS
from gaptop.valleys.report_events import event_lines
from gaptop.valleys.report_ledger import device_names, ledger_lines
from gaptop.valleys.report_recurring import recurring_lines
from gaptop.valleys.report_words import doubtful, idle_seconds, longest_gap, name, resolution
from gaptop_collectors.target import place_of

SHOWN: Final = 12
"""Valleys listed; the rest is counted."""

ARGUED: Final = 3
"""Valleys whose whole argument is printed."""

NARROWEST: Final = 40
ASCII: Final = {"·": "-", "–": "-", "±": "+/-", "▸": ">", "…": "...", "—": "-", "×": "x", "≥": ">=", "≤": "<="}


def render(report: Mapping[str, Any], *, ascii: bool, width: int) -> str:
    """The whole report; every line fits ``width`` (40 at least) where its words do."""
    width = max(NARROWEST, width)
    lines: list[str] = []
    if report["source"]["simulated"]:
        lines += ["SIMULATED: everything below comes from gaptop's own lab, not from a real server.", ""]
    lines += [*_where(report), ""]
    lines += [*_wrap(f"In one sentence: {report['sentence']}", width), ""]
    lines += [*_sources(report, width), ""]
    names = device_names(report["source"]["devices"])
    lines += [*ledger_lines(report["ledger"], names), ""]
    lines += recurring_lines(report, names, width)
    lines += event_lines(report["events"], width, {item["source"]: item["says"] for item in report["health"]})
    lines += _plateaus(report, width)
    lines += _valleys(report, width)
    lines += _dips(report, names, width)
    lines += _cost(report)
    text = "\n".join(printable(line).rstrip() for line in lines).rstrip() + "\n"
    return _to_ascii(text) if ascii else text


def _to_ascii(text: str) -> str:
    for char, plain in ASCII.items():
        text = text.replace(char, plain)
    return text.encode("ascii", "replace").decode("ascii")


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    following = indent + "  "
    return textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=following) or [indent]


def _where(report: Mapping[str, Any]) -> list[str]:
    seen, source = report["window"], report["source"]
    lines = [f"gaptop {report['gaptop']}: {seen['seconds']:.1f} s from {seen['start_utc'] or 'an unknown time'}"]
    for server in source["servers"]:
        words = [server["engine"], server["version"], server["model"]]
        named = " ".join(name(word) for word in words if word)
        lines.append(f"server  {name(server['url'])}  {named}".rstrip())
    if not source["servers"]:
        lines.append("server  none seen")
    names = device_names(source["devices"])
    for device in source["devices"]:
        window = device["window_seconds"]
        how = "measured" if device["window_measured"] else "stated"
        shown = "" if window is None else f"  window {resolution(window)} ({how})"
        if device["busy_unsupported"]:
            shown = "  utilisation N/A"
        lines.append(f"device  {names[device['uuid']]}  {name(device['kind'] or '')}{shown}")
    if not source["devices"]:
        lines.append("device  none seen: only the server's progress tells of valleys")
    return lines


def _sources(report: Mapping[str, Any], width: int) -> list[str]:
    lines = ["Sources"]
    for item in report["health"]:
        coverage = item["coverage_ratio"]
        seen = "" if coverage is None else f", seen {coverage:.0%} of the time"
        age = item["age_seconds"]
        old = "" if age is None else f", newest {age:.1f} s old"
        lines += _wrap(f"{item['state']:9}{item['source']}{seen}{old}", width, "  ")
        if item["says"] and item["state"] not in ("ok", "starting"):
            lines += _wrap(item["says"], width, "           ")
    if len(lines) == 1:
        lines.append("  none delivered anything")
    return lines + _coverage(report["coverage"], width)


def _coverage(coverage: Mapping[str, Any], width: int) -> list[str]:
    """How much of the stacks was understood; what was not, where that is a good part."""
    ratio, critical = coverage["matched_ratio"], coverage["critical_matched_ratio"]
    if ratio is None:
        return []
    says = f"stacks   rules name {ratio:.0%} of what the threads did when not idle"
    if critical is not None:
        says += f", {critical:.0%} on those that the device waits for"
    lines = _wrap(says, width, "  ")
    if min(ratio, 1.0 if critical is None else critical) < UNDERSTOOD and coverage["unmatched"]:
        most = [f"{item['function']} ({item['file']}) {item['seconds']:.1f} s" for item in coverage["unmatched"]]
        remedy = "rules of your own can name them (--activities FILE)"
        lines += _wrap(f"not named: {', '.join(most)}; {remedy}", width, "           ")
    return lines


def _plateaus(report: Mapping[str, Any], width: int) -> list[str]:
    found = sorted(report["plateaus"], key=lambda item: item["start_s"] - item["end_s"])[:ARGUED]
    if not found:
        return []
    lines = ["Plateaus (steady, with gaps shorter than the window)"]
    for item in found:
        each = item["idle_per_step_s"]
        step = "" if each is None else f", {each * 1000:.2f} ms idle a step"
        length = item["end_s"] - item["start_s"]
        before = "" if item["continues"] is None else f"; goes on from valley {item['continues']}"
        lines += _wrap(
            f"{length:.1f} s at {item['busy_ratio']:.0%} busy{step}  (at {item['start_s']:.1f} s{before})", width, "  "
        )
    return [*lines, ""]


def _dips(report: Mapping[str, Any], names: Mapping[str, str], width: int) -> list[str]:
    """One line a device: gaps shorter than a window, too little for a valley."""
    found = [item for item in report["dip_counts"] if item["dips"]]
    if not found:
        return []
    lines = ["Dips (a few windows, so a gap shorter than a window or several; in the spread idle above)"]
    for item in found:
        count, sure = item["dips"], item["confirmed"]
        second = f"{sure} with a second signal, " if 0 < sure < count else ""
        seen = "a second signal agrees" if sure == count else f"{second}suspected: one signal alone"
        told = f"{count} dip{'s' if count != 1 else ''}, {idle_seconds(item['idle_s'], item['idle_error_s'], 1)}"
        lines += _wrap(f"{names.get(item['device']) or name(item['device'])}: {told}; {seen}", width, "  ")
    return [*lines, ""]


def _weight(valley: Mapping[str, Any]) -> tuple[bool, float, float]:
    """Worst first: what is no fault comes last, then by what it cost."""
    return (
        valley["cause"] in ("no_demand", "artefact"),
        -(valley["idle_s"] if valley["kind"] == "utilisation" and valley["idle_s"] is not None else _length(valley)),
        valley["start_s"],
    )


def _length(valley: Mapping[str, Any]) -> float:
    end = valley["end_s"] if valley["end_s"] is not None else valley["segments"][-1]["end_s"]
    return float(end - valley["start_s"])


def _valleys(report: Mapping[str, Any], width: int) -> list[str]:
    found: Sequence[Mapping[str, Any]] = sorted(report["valleys"], key=_weight)
    if not found:
        return ["Valleys: none", ""]
    lines = [f"Valleys: {len(found)}, worst first (UTC, and seconds since the start of the stream)"]
    for valley in found[:SHOWN]:
        lines += _headline(valley, width, ended=report["ended"], several=len(report["source"]["servers"]) > 1)
    if len(found) > SHOWN:
        rest: dict[str, int] = {}
        for valley in found[SHOWN:]:
            rest[valley["cause"]] = rest.get(valley["cause"], 0) + 1
        counted = ", ".join(f"{count} {CAUSE_NAMES.get(cause, cause)}" for cause, count in sorted(rest.items()))
        lines += _wrap(f"... and {len(found) - SHOWN} more: {counted}", width, "  ")
    lines.append("")
    argued: dict[tuple[str, str], Mapping[str, Any]] = {}
    for valley in found:
        argued.setdefault((valley["cause"], valley["detail"]), valley)
    for valley in list(argued.values())[:ARGUED]:
        lines += [*_argument(valley, width), ""]
    return lines


def _clock(valley: Mapping[str, Any]) -> str:
    """The wall clock at its start (UTC, to a tenth of a second), or dashes where the stream does not tell it."""
    return valley["start_utc"][11:21] if valley["start_utc"] else "--:--:--.-"


def _headline(valley: Mapping[str, Any], width: int, *, ended: bool, several: bool) -> list[str]:
    """When, how long, why, and what it cost; of several servers also whose it is."""
    cause = CAUSE_NAMES.get(valley["cause"], valley["cause"])
    detail = f" ({valley['detail']})" if valley["detail"] else ""
    marks = [valley["confidence"], "confirmed" if valley["confirmed"] else "suspected"]
    marks += [] if valley["final"] else ["provisional"]
    tokens, others = valley["tokens_lost"], ", ".join(valley["tokens_shared_with"])
    cost = "tokens lost not known" if tokens is None else f"{tokens:.0f} tokens lost" if tokens else "no tokens lost"
    cost += f" besides those of {others}" if others else ""
    idle = (
        ""
        if valley["idle_s"] is None
        else f", {idle_seconds(valley['idle_s'], valley['idle_error_s'] or 0.0, len(valley['devices']))}"
    )
    if valley["longest_gap_s"] is not None:
        low, high = valley["longest_gap_s"]
        idle += f" ({longest_gap(low, high)})"
    still = ""
    if valley["end_s"] is None:
        still = ", still open when watching ended" if ended else " and goes on"
    elif valley["became_level"]:
        still = " until it became the usual level"
    error = doubtful(valley["start_error_s"])
    when = f"{_clock(valley)} {valley['start_s']:8.2f} s ±{error} {_length(valley):6.2f} s long"
    at = f" at {name(place_of(valley['server']))}" if several and valley["server"] else ""
    lines = _wrap(f"{when}  {LETTERS[valley['cause']]} {cause}{detail}{at}", width, "  ")
    return lines + _wrap(f"{' ' * 10} {valley['kind']}{still}; {', '.join(marks)}{idle}; {cost}", width, "  ")


def _argument(valley: Mapping[str, Any], width: int) -> list[str]:
    cause = CAUSE_NAMES.get(valley["cause"], valley["cause"])
    detail = f", {valley['detail']}" if valley["detail"] else ""
    lines = _wrap(f"▸ {_clock(valley)} {valley['id']}: {cause}{detail} (score {valley['score']:.2f})", width)
    states = {"fine": "ok", "blocked": "BLOCKED", "not_seen": "not seen"}
    chain = " ▸ ".join(f"{item['link']} {states[item['state']]}" for item in valley["chain"])
    lines += _wrap(f"chain      {chain}", width, "  ")
    said = "; ".join(item["says"] for item in valley["evidence"])
    lines += _wrap(f"for        {said or 'nothing'}", width, "  ")
    lines += _stacks(valley, width)
    for item in valley["excluded"]:
        lines += _wrap(f"not        {CAUSE_NAMES.get(item['cause'], item['cause'])}: {item['because']}", width, "  ")
    runner = valley["runner_up"]
    if runner is not None:
        lines += _wrap(
            f"runner-up  {CAUSE_NAMES.get(runner['cause'], runner['cause'])} {runner['score']:.2f}", width, "  "
        )
    if valley["unseen"]:
        lines += _wrap(f"unseen     {'; '.join(valley['unseen'])}", width, "  ")
    if valley["advice"]:
        lines += _wrap(f"try        {valley['advice']}", width, "  ")
    return lines


def _stacks(valley: Mapping[str, Any], width: int) -> list[str]:
    """One line at most: where the thread was that the device waited for; the whole is in the JSON form."""
    if not valley["stacks"]:
        return []
    thread = valley["stacks"][0]
    where = [f"{path['share_ratio']:.0%} {place(**path['frames'][-1])}" for path in thread["paths"]]
    said = printable(f"{thread['role']} {thread['thread']}: {where[0] if where else 'stacks without frames'}")
    for more in map(printable, where[1:3]):
        if len(said) + len(more) + 2 <= width - 13 and not more.startswith("0%"):
            said += f", {more}"
    return ["  stacks     " + textwrap.shorten(said, width - 13, placeholder=" ...")]


def _cost(report: Mapping[str, Any]) -> list[str]:
    cost = report["self"]
    if cost["cpu_seconds"] is None:
        return ["gaptop's own cost: not measured"]
    share = "" if cost["cpu_ratio"] is None else f" ({cost['cpu_ratio']:.1%} of a core)"
    memory = "" if cost["rss_bytes"] is None else f", {cost['rss_bytes'] / 1e6:.0f} MB"
    return [f"gaptop's own cost: {cost['cpu_seconds']:.2f} s of CPU{share}{memory}"]
