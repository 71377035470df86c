"""From what was named, or from nothing, to the servers that are watched: each once, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gaptop.cli import simulated
from gaptop.cli.addresses import MOST, too_many
from gaptop.cli.exits import Exit, Sentences, Stop

if TYPE_CHECKING:
    from gaptop_collectors.discovery import DiscoveryError
    from gaptop_collectors.target import HttpOptions, Server


def found_here(http: HttpOptions, say: Callable[[str], None], *, gpu: bool) -> tuple[Server, ...]:
    """All servers of this host; several are told. Raises DiscoveryError, and Stop: none (exit 3), too many (exit 2)."""
    from gaptop_collectors.discovery import describe_choice, discover

    servers = discover(None, None, http)
    if gpu and not _settled(servers):
        servers = _with_gpus(servers, http)
    left_out = simulated.left_out()
    if not servers:
        nothing = (
            "no LLM server found on this host, so there is nothing to watch; start one, name it "
            "(gaptop http://HOST:PORT, or gaptop PID), or try gaptop demo."
        )
        raise Stop(Sentences.of(nothing, *filter(None, [left_out])), Exit.NOTHING_TO_OBSERVE)
    if left_out:
        say(left_out)
    example = f"for example gaptop {servers[0].url}"
    if len(servers) > MOST:
        refused = f"{too_many(len(servers))} Name them, {example}"
        raise Stop(Sentences.of(refused, *describe_choice(servers).split("\n")), Exit.USAGE)
    if len(servers) > 1:
        found = f"{len(servers)} servers found on this host, and all are watched; name one to watch it alone, {example}"
        say(Sentences.of(found, *describe_choice(servers).split("\n")))
    return tuple(servers)


def named(
    addresses: Sequence[str], http: Callable[[str], HttpOptions], say: Callable[[str], None]
) -> tuple[Server, ...]:
    """The server of each address, URL or PID. Of several, one that does not answer yet is watched all the same where
    another one does, and that is told, as is one server under two names.

    Raises Stop (exit 3): one of them cannot be watched, or none answers. It has a sentence on each that does not
    answer, which names its address.
    """
    from gaptop_collectors.discovery import DiscoveryError

    with ThreadPoolExecutor(len(addresses)) as pool:
        answers = list(pool.map(lambda address: _ask(address, http(address)), addresses))
    errors = [answer for answer in answers if isinstance(answer, DiscoveryError)]
    bad = [error for error in errors if error.silent is None]
    if bad or len(errors) == len(answers):
        # All at once, also those that would be waited for: whoever mends one should not meet the next one then.
        silent = [error for error in errors if error.silent is not None]
        raise Stop(Sentences.of(*(str(error) for error in [*bad, *silent])), Exit.NOTHING_TO_OBSERVE)
    servers = []
    for answer in answers:
        if not isinstance(answer, DiscoveryError):
            servers.append(answer)
        elif answer.silent is not None:
            servers.append(answer.silent)
    kept = _each_once(servers, say)
    for server in kept:
        if len(kept) > 1 and server.says.startswith(server.url):  # what its answer was, not what cannot be seen
            say(f"{server.says} The others are watched from now on, and this one as soon as it answers.")
    return kept


def _ask(address: str, http: HttpOptions) -> Server | DiscoveryError:
    from gaptop_collectors.discovery import DiscoveryError, discover

    url, pid = (None, int(address)) if address.isdigit() else (address, None)
    try:
        return discover(url, pid, http)[0]
    except DiscoveryError as error:
        return error


def _each_once(servers: Sequence[Server], say: Callable[[str], None]) -> tuple[Server, ...]:
    """Of one server under two names the one that answers, else the first, where the first one stood."""
    from gaptop_collectors.discovery import same_server

    kept: list[Server] = []
    for server in servers:
        place = next((place for place, other in enumerate(kept) if same_server(server, other)), None)
        if place is None:
            kept.append(server)
            continue
        first = kept[place]
        if first.engine == "unknown":
            kept[place] = server
        names = first.url if first.url == server.url else f"{first.url} and {server.url}"
        say(f"{names}: this is one server that was named twice; it is watched once.")
    return tuple(kept)


def _settled(servers: Sequence[Server]) -> bool:
    """The command lines have told everything: one server, and nothing to say against it."""
    return len(servers) == 1 and not servers[0].says


def _with_gpus(servers: list[Server], http: HttpOptions) -> list[Server]:
    """Looks again at what is on the GPUs: a server that no command line gives away, as inside a user's own program."""
    from gaptop_collectors.devices.nvml_pids import compute_pids
    from gaptop_collectors.discovery import discover

    pids = compute_pids()
    return discover(None, None, http, pids) if pids else servers
