"""What goes to standard output without a screen: the report as text or JSON, and the findings' exit code."""

from __future__ import annotations

import json
import locale
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Final, get_args

import click

from gaptop.cli.exits import Exit

FAIL_ON: Final = "Exit 1 when a valley has one of these causes with medium or high confidence."
SURE_ENOUGH: Final = ("medium", "high")


class Causes(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of causes."""

    name = "causes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        from gaptop.valleys.model import Cause  # not for a command that only shows its help

        names = tuple(name.strip().replace("-", "_") for name in str(value).split(",") if name.strip())
        if not names:
            self.fail(f"{value!r} names no cause, so nothing could fail; choose from {', '.join(get_args(Cause))}.")
        for name in names:
            if name not in get_args(Cause):
                self.fail(f"{name!r} is no cause; choose from {', '.join(get_args(Cause))}.", param, ctx)
        return names


def plain_characters(wanted: bool) -> bool:
    """Whether to keep to ASCII: on request, or where the locale's encoding is not UTF-8."""
    # A closed standard output is None.
    encoding = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    return wanted or "utf" not in encoding.lower()


def print_report(report: Mapping[str, Any], *, as_json: bool, ascii_only: bool) -> None:
    """The report on standard output, as one JSON document or as text."""
    if as_json:
        # Escaped beyond ASCII: what a server named itself may hold controls that a terminal obeys.
        click.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    from gaptop.valleys.report_text import render

    width = max(80, min(shutil.get_terminal_size((100, 40)).columns, 120))
    click.echo(render(report, ascii=plain_characters(ascii_only), width=width))


def exit_code(report: Mapping[str, Any], fail_on: tuple[str, ...] | None) -> Exit:
    """FINDINGS when a valley has one of the causes of --fail-on, and that is more than a guess."""
    found = {valley["cause"] for valley in report["valleys"] if valley["confidence"] in SURE_ENOUGH}
    return Exit.FINDINGS if fail_on and found & set(fail_on) else Exit.FINE
