"""Which server to watch: the options that name it, and the choice among those found."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gaptop.cli import addresses
from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.file_names import FileName
from gaptop.cli.of_command import config_option, counts

if TYPE_CHECKING:
    from gaptop_collectors.target import HttpOptions, Server

_Command = TypeVar("_Command", bound=Callable[..., Any])
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LONGEST_SECRET: Final = 16_384
_SECRET_WORDS: Final = ("auth", "token", "key", "cookie", "secret", "password")


@dataclass(frozen=True, slots=True)
class Target:
    """What the user asked for. ``addresses`` are URLs and PIDs of servers; none: those of this host.

    ``headers`` are secrets; they travel to the probe on its standard input only, as does a user and password in one of
    the addresses ``dcgm``. They are for every server, and for no exporter; ``own_headers`` (by base URL) are for that
    server alone, instead of those of the same name.
    """

    addresses: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    own_headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ca_file: str | None = None
    insecure: bool = False
    threads: str = "auto"
    gil: bool = False
    gpu: bool = True
    host: bool = True
    dcgm: tuple[str, ...] = ()

    def http(self, address: str = "") -> HttpOptions:
        """How to talk to the server at this base URL."""
        from gaptop_collectors.target import HttpOptions

        headers = {**self.headers, **self.own_headers.get(address, {})}
        return HttpOptions(headers=headers, ca_file=self.ca_file, insecure=self.insecure)


def target_options(command: _Command) -> _Command:
    """The options shared by every command that measures; the command receives them as one ``target``."""

    def wrapped(*args: Any, **options: Any) -> Any:
        headers = dict(_header(text) for text in counts(options, "header"))
        token_file = counts(options, "token_file")
        if token_file:
            headers["Authorization"] = f"Bearer {_secret_file(token_file)}"
        given = addresses.servers(counts(options, "addresses", "url"))
        if len(given.named) == 1:
            headers = {**given.secrets.get(given.named[0], {}), **headers}
        dcgm = addresses.exporters(counts(options, "dcgm"))
        target = Target(
            addresses=given.named,
            headers=headers,
            own_headers=given.secrets if len(given.named) > 1 else {},
            ca_file=_readable(counts(options, "ca")),
            insecure=counts(options, "insecure"),
            threads=counts(options, "threads"),
            gil=counts(options, "gil"),
            gpu=counts(options, "gpu"),
            host=counts(options, "host"),
            dcgm=dcgm,
        )
        return command(*args, target=target, **options)

    functools.update_wrapper(wrapped, command)
    for decorate in reversed(
        [
            click.argument("addresses", metavar="[URL|PID]...", nargs=-1),
            click.option(
                "--header",
                multiple=True,
                metavar="NAME=VALUE",
                help="Header for the server's endpoint, or that of each. A secret must not stand in a command line, "
                "so its VALUE is @FILE or env:VARIABLE. Repeatable.",
            ),
            click.option(
                "--token-file",
                type=FileName(),
                metavar="FILE",
                help="File with the bearer token of the server's endpoint.",
            ),
            click.option(
                "--dcgm",
                multiple=True,
                metavar="URL",
                help="Take GPUs that NVML does not show here from this dcgm-exporter (port 9400 unless given). "
                "Repeatable.",
            ),
            click.option("--ca", type=FileName(), metavar="FILE", help="CA certificate of an https endpoint."),
            click.option("--insecure/--secure", help="Do not check the certificate of an https endpoint."),
            click.option(
                "--threads",
                type=click.Choice(["auto", "fast", "off"]),
                default="auto",
                show_default=True,
                help="Sampling of the server's threads: within 4 % of a core, closer, or not at all.",
            ),
            click.option(
                "--gil/--no-gil",
                help="Also tell who holds Python's GIL in the process that the device waits for: about 1.5 % of a core "
                "for each server, on top of --threads.",
            ),
            click.option("--gpu/--no-gpu", default=True, help="Ask the GPU's driver, or leave it alone."),
            click.option("--host/--no-host", default=True, help="Look at the processes of this host, or at none."),
        ]
    ):
        wrapped = decorate(wrapped)
    return config_option(wrapped)  # type: ignore[return-value]


def _readable(ca_file: str) -> str | None:
    """Whether it holds certificates is found out by who uses it."""
    try:
        if ca_file:
            open(ca_file, "rb").close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "that is no name of a file"
        raise click.BadParameter(
            f"cannot read the certificate {ca_file}: {reason}, so no https endpoint could be trusted; correct "
            "the path, or the file's rights.",
            param_hint="--ca",
        ) from None
    return ca_file or None


def _header(text: str) -> tuple[str, str]:
    name, value = _named_value(text)
    if not _HEADER_NAME.fullmatch(name) or not all(" " <= letter <= "~" for letter in value):
        raise click.BadParameter(
            f"{name} cannot be sent, because the name of a header is one word, and its value one line of ASCII; "
            "correct it, or leave it out.",
            param_hint="--header",
        )
    return name, value


def _named_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if name and not _HEADER_NAME.fullmatch(name):
        # Only what stands before: after "Authorization: " as curl takes it comes the secret itself.
        begins = re.split(r"[^A-Za-z0-9_-]", name, maxsplit=1)[0]
        raise click.BadParameter(
            f"what begins with {begins!r} names no header; write --header NAME=VALUE, or NAME=@FILE for a secret.",
            param_hint="--header",
        )
    if not equals or not name:
        raise click.BadParameter(f"{name or text!r} has no value; write --header NAME=VALUE.", param_hint="--header")
    if value.startswith("@"):
        return name, _secret_file(value[1:])
    if value.startswith("env:"):
        variable = value[4:]
        if variable not in os.environ:
            raise click.BadParameter(f"the environment has no variable {variable}.", param_hint="--header")
        return name, os.environ[variable]
    if any(word in name.lower() for word in _SECRET_WORDS):
        raise click.BadParameter(
            f"{name} looks like a secret, and every user of this host can read a command line; "
            f"write --header {name}=@FILE or --header {name}=env:VARIABLE.",
            param_hint="--header",
        )
    return name, value


def _secret_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.read(_LONGEST_SECRET).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text, or no name of a file"
        raise click.BadParameter(
            f"cannot read the secret from {path}: {reason}, so the server would be asked without; correct the path, or "
            "the file's rights."
        ) from None
    if not secret or not all(" " <= letter <= "~" for letter in secret) or len(secret) >= _LONGEST_SECRET:
        raise click.BadParameter(
            f"{path} holds no secret that can be sent; write one line of ASCII into it, the secret itself."
        )
    return secret


def choose(target: Target, say: Callable[[str], None] = tell) -> tuple[Server, ...]:
    """The servers to watch: those that were named, or all of this host; what there is to tell of them is said.

    Raises Stop: none, or one that cannot be watched (exit 3), or too many (exit 2, listed).
    """
    from gaptop.cli.found import found_here, named
    from gaptop_collectors.discovery import DiscoveryError

    if target.addresses:
        return named(target.addresses, target.http, say)
    try:
        return found_here(target.http(), say, gpu=target.gpu)
    except DiscoveryError as error:
        raise Stop(str(error), Exit.NOTHING_TO_OBSERVE) from None


def probe_config(target: Target, servers: Sequence[Server], *, duration: float | None = None) -> dict[str, Any]:
    """The probe's configuration for these servers (or none: the devices and the host alone)."""
    from gaptop.cli.paths import kept_dir, log_path

    log, kept = log_path(), kept_dir()
    return {
        "servers": [_told(server, target.own_headers.get(server.url, {})) for server in servers],
        "headers": dict(target.headers),
        "ca": target.ca_file,
        "insecure": target.insecure,
        "feeds": [],
        "dcgm": list(target.dcgm),
        "simulated": False,
        "threads": target.threads,
        "gil": target.gil,
        "gpu": target.gpu,
        "host": target.host,
        "log": None if log is None else str(log),
        "state": None if kept is None else str(kept),
        "duration": duration,
    }


def _told(server: Server, headers: Mapping[str, str]) -> dict[str, Any]:
    own = {"headers": dict(headers)} if headers else {}
    return {
        "url": server.url,
        "engine": server.engine,
        "version": server.version,
        "model": server.model,
        "sequence_cap": server.sequence_cap,
        "pids": [process.pid for process in server.processes],
        **own,
    }
