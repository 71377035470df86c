"""Which server to watch: the options that name it, and the choice among those found."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.in_force import config_option, counts
from gaptop.cli.paths import kept_dir, log_path

if TYPE_CHECKING:
    from gaptop_collectors.target import HttpOptions, Server

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SECRET_WORDS: Final = ("auth", "token", "key", "cookie", "secret", "password")
_DCGM_IN_ARGV: Final = (
    "the user and password of --dcgm stand in a command line, which every user of this host can read; give the URL in "
    "the environment variable GAPTOP_DCGM."
)
_IN_ARGV: Final = (
    "the URL's user and password stand in a command line, which every user of this host can read; put them into a file "
    "(--token-file FILE, --header Authorization=@FILE) or give the URL in the environment variable GAPTOP_URL."
)


@dataclass(frozen=True, slots=True)
class Target:
    """What the user asked for. ``headers`` are secrets; they travel to the probe on its standard input only, as does a
    user and password in one of the addresses ``dcgm``. The headers are the server's: no exporter gets them."""

    address: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    insecure: bool = False
    threads: str = "auto"
    gil: bool = False
    gpu: bool = True
    host: bool = True
    dcgm: tuple[str, ...] = ()

    def http(self) -> HttpOptions:
        from gaptop_collectors.target import HttpOptions

        return HttpOptions(headers=self.headers, ca_file=self.ca_file, insecure=self.insecure)


def target_options(command: _Command) -> _Command:
    """The options shared by every command that measures; the command receives them as one ``target``."""

    def wrapped(*args: Any, **options: Any) -> Any:
        headers = dict(_header(text) for text in counts(options, "header"))
        token_file = counts(options, "token_file")
        if token_file:
            headers["Authorization"] = f"Bearer {_secret_file(token_file)}"
        address, credentials = _address(counts(options, "address", "url") or None)
        typed = click.get_current_context().get_parameter_source("address") is ParameterSource.COMMANDLINE
        if credentials and typed:
            tell(_IN_ARGV)
        exporters = _exporters(counts(options, "dcgm"))
        target = Target(
            address=address,
            headers={**credentials, **headers},
            ca_file=counts(options, "ca") or None,
            insecure=counts(options, "insecure"),
            threads=counts(options, "threads"),
            gil=counts(options, "gil"),
            gpu=counts(options, "gpu"),
            host=counts(options, "host"),
            dcgm=exporters,
        )
        return command(*args, target=target, **options)

    functools.update_wrapper(wrapped, command)
    for decorate in reversed(
        [
            click.argument("address", metavar="[URL|PID]", required=False),
            click.option(
                "--header",
                multiple=True,
                metavar="NAME=VALUE",
                help="Header for the server's endpoint. A secret must not stand in a command line, "
                "so its VALUE is @FILE or env:VARIABLE. Repeatable.",
            ),
            click.option(
                "--token-file",
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
            click.option("--ca", metavar="FILE", help="CA certificate of an https endpoint."),
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
                "on top of --threads.",
            ),
            click.option("--gpu/--no-gpu", default=True, help="Ask the GPU's driver, or leave it alone."),
            click.option("--host/--no-host", default=True, help="Look at the processes of this host, or at none."),
        ]
    ):
        wrapped = decorate(wrapped)
    return config_option(wrapped)  # type: ignore[return-value]


def _address(text: str | None) -> tuple[str | None, dict[str, str]]:
    """A PID or a URL without its user and password, which become a header."""
    if text is None or text.isdigit():
        return text, {}
    from gaptop_collectors.engines.address import BadAddress, split_address

    try:
        return split_address(text)
    except BadAddress as error:
        raise click.BadParameter(str(error), param_hint="URL") from None


def _exporters(texts: Sequence[str]) -> tuple[str, ...]:
    """The addresses as given, each base URL once. Warns of a password that was typed out."""
    from gaptop_collectors.devices.dcgm_address import exporter_address
    from gaptop_collectors.engines.address import BadAddress

    found: dict[str, str] = {}
    secret = False
    for text in texts:
        try:
            base, credentials = exporter_address(text)
        except BadAddress as error:
            raise click.BadParameter(str(error), param_hint="--dcgm") from None
        found.setdefault(base, text)
        secret = secret or bool(credentials)
    typed = click.get_current_context().get_parameter_source("dcgm") is ParameterSource.COMMANDLINE
    if secret and typed:
        tell(_DCGM_IN_ARGV)
    return tuple(found.values())


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip()
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
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise click.BadParameter(f"cannot read the secret from {path}: {reason}.") from None
    if not secret or "\n" in secret:
        raise click.BadParameter(f"{path} must hold one line, the secret itself.")
    return secret


def choose(target: Target) -> Server:
    """The one server to watch. Raises Stop: none found (exit 3), or several (exit 2, listed)."""
    from gaptop_collectors.discovery import DiscoveryError, describe_choice, discover

    url = pid = None
    if target.address is not None:
        if target.address.isdigit():
            pid = int(target.address)
        else:
            url = target.address
    try:
        servers = discover(url, pid, target.http())
        if target.address is None and target.gpu and not _settled(servers):
            servers = _with_gpus(servers, target.http())
    except DiscoveryError as error:
        raise Stop(str(error), Exit.NOTHING_TO_OBSERVE) from None
    if not servers:
        raise Stop(
            "no LLM server found on this host, so there is nothing to watch; start one, name it "
            "(gaptop http://HOST:PORT, or gaptop PID), or try gaptop demo.",
            Exit.NOTHING_TO_OBSERVE,
        )
    if len(servers) > 1:
        found = f"{len(servers)} servers found; choose one by its URL or PID, for example gaptop {servers[0].url}\n"
        raise Stop(found + describe_choice(servers), Exit.USAGE)
    return servers[0]


def _settled(servers: Sequence[Server]) -> bool:
    """The command lines have told everything: one server, and nothing to say against it."""
    return len(servers) == 1 and not servers[0].says


def _with_gpus(servers: list[Server], http: HttpOptions) -> list[Server]:
    """Looks again at what is on the GPUs: a server that no command line gives away, as inside a user's own program."""
    from gaptop_collectors.devices.nvml_pids import compute_pids
    from gaptop_collectors.discovery import discover

    pids = compute_pids()
    return discover(None, None, http, pids) if pids else servers


def probe_config(target: Target, server: Server | None, *, duration: float | None = None) -> dict[str, Any]:
    """The probe's configuration for one server (or none: the devices and the host alone)."""
    servers = []
    log, kept = log_path(), kept_dir()
    if server is not None:
        servers.append(
            {
                "url": server.url,
                "engine": server.engine,
                "version": server.version,
                "model": server.model,
                "sequence_cap": server.sequence_cap,
                "pids": [process.pid for process in server.processes],
            }
        )
    return {
        "servers": servers,
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
