"""The addresses that people type, of servers and of exporters: each once, and without the secrets in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import click
from click.core import ParameterSource

from gaptop.cli.exits import tell

MOST: Final = 8
"""Servers at once: each takes one to two per cent of a core to watch, and a tab to be looked at."""

_DCGM_IN_ARGV: Final = (
    "the user and password of --dcgm stand in a command line, which every user of this host can read; give the URL in "
    "the environment variable GAPTOP_DCGM."
)
_IN_ARGV: Final = (
    "the URL's user and password stand in a command line, which every user of this host can read; put them into a file "
    "(--token-file FILE, --header Authorization=@FILE) or give the URL in the environment variable GAPTOP_URL."
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """PIDs, and base URLs without user and password; those are headers in ``secrets``, by base URL."""

    named: tuple[str, ...] = ()
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def servers(texts: Sequence[str]) -> Addresses:
    """Each address once. Says so where one was given twice, and warns of a password that was typed out. Raises
    BadParameter for what is no address, naming each, and for more than :data:`MOST`."""
    from gaptop_collectors.engines.address import BadAddress, split_address

    found: dict[str, dict[str, str]] = {}
    bad: list[str] = []
    for text in texts:
        try:
            base, credentials = (text, {}) if text.isdigit() else split_address(text)
        except BadAddress as error:
            bad.append(str(error))
            continue
        if base in found:
            tell(f"{base} was given more than once; it is watched once.")
        found[base] = found.get(base) or credentials
    if bad:
        raise click.BadParameter(" ".join(dict.fromkeys(bad)), param_hint="URL")
    if len(found) > MOST:
        raise click.BadParameter(too_many(len(found)), param_hint="URL")
    secrets = {base: credentials for base, credentials in found.items() if credentials}
    if secrets and _typed("addresses"):
        tell(_IN_ARGV)
    return Addresses(tuple(found), secrets)


def too_many(count: int) -> str:
    """Why so many servers are not watched by one gaptop, and what to do."""
    return (
        f"{count} servers are more than one gaptop watches ({MOST} at most, because watching each has a cost of its "
        "own); name fewer, and start another gaptop for the rest."
    )


def exporters(texts: Sequence[str]) -> tuple[str, ...]:
    """The addresses as given, each base URL once. Warns of a password that was typed out. Raises BadParameter."""
    from gaptop_collectors.devices.dcgm_address import exporter_address
    from gaptop_collectors.engines.address import BadAddress

    found: dict[str, str] = {}
    secret = False
    bad: list[str] = []
    for text in texts:
        try:
            base, credentials = exporter_address(text)
        except BadAddress as error:
            bad.append(str(error))
            continue
        found.setdefault(base, text)
        secret = secret or bool(credentials)
    if bad:
        raise click.BadParameter(" ".join(dict.fromkeys(bad)), param_hint="--dcgm")
    if secret and _typed("dcgm"):
        tell(_DCGM_IN_ARGV)
    return tuple(found.values())


def _typed(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
