"""The ledger's part of the report for people, and how its devices are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gaptop.valleys.model import CAUSE_NAMES
from gaptop.valleys.report_words import name

LEDGER_NAMES: Final = {
    "busy": "busy",
    "spread_idle": "spread idle (gaps shorter than a window)",
    "idle_before_work": "idle before the first work",
    "no_demand": "no demand (not a loss)",
    "unknown": "unexplained",
    "unseen": "not seen (no part of the shares)",
}


def device_names(devices: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """How each device is called, by UUID: by its model, and where several have that, by their numbers too."""
    plain = {device["uuid"]: _plain(device) for device in devices}
    shared = Counter(plain.values())
    numbered = {
        device["uuid"]: f"GPU {device['index']} {plain[device['uuid']]}"
        for device in devices
        if shared[plain[device["uuid"]]] > 1 and device["index"] is not None and device["kind"] != "cpu"
    }
    found = {**plain, **numbered}
    twice = Counter(found.values())
    return {uuid: text if twice[text] == 1 else f"{text} ({name(uuid)})" for uuid, text in found.items()}


def _plain(device: Mapping[str, Any]) -> str:
    part = f" {name(device['slice'])}" if device["slice"] else ""
    return f"{name(device['name'] or device['uuid'])}{part}"


def ledger_lines(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    """Where each device's time went."""
    lines = ["Where the time went"]
    last = None
    for row in rows:
        if row["device"] != last:
            last = row["device"]
            lines.append(f"  {names.get(last) or name(last)}")
        what = LEDGER_NAMES.get(row["cause"]) or CAUSE_NAMES.get(row["cause"], row["cause"])
        share = "      " if row["share_ratio"] is None else f"{row['share_ratio']:6.1%}"
        count = f"  {row['valleys']} valley{'s' if row['valleys'] != 1 else ''}" if row["valleys"] else ""
        lines.append(f"    {row['device_seconds']:9.2f} s {share}  {what}{count}{_tokens(row)}")
    if len(lines) == 1:
        lines.append("  nothing measured")
    return lines


def _tokens(row: Mapping[str, Any]) -> str:
    tokens, unknown = row["tokens_lost"], row["tokens_unknown"]
    if unknown:
        return (
            f"  at least {tokens:.0f} tokens lost, {unknown} times not known" if tokens else "  tokens lost not known"
        )
    return f"  {tokens:.0f} tokens lost" if tokens else ""
