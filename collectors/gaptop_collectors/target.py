"""What is watched: a server, its processes, and how to talk to its endpoint. Plain immutable data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Role = Literal["api", "engine", "worker", "server", "other"]


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One process of a server's tree.

    ``role``: ``api`` (HTTP front end), ``engine`` (scheduler loop), ``worker`` (a rank that runs the model), ``server``
    (all in one process, e.g. llama-server), ``other`` (helpers, compilers). ``started`` is its start in clock ticks
    since boot (field 22 of /proc/PID/stat), so that (pid, started) never means two processes.
    """

    pid: int
    role: Role
    name: str
    python: bool
    started: int


@dataclass(frozen=True, slots=True)
class Server:
    """One server. ``engine`` is ``vllm``, ``llamacpp`` …, or ``unknown``; None fields are not known (yet).

    ``processes`` is empty where they cannot be seen (a remote URL, another user's sockets); ``says`` then tells why.
    """

    url: str
    engine: str
    version: str | None = None
    model: str | None = None
    processes: tuple[ServerProcess, ...] = ()
    sequence_cap: int | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How to talk to the endpoint. Header values are secrets: they are never logged nor written to a stream."""

    headers: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    insecure: bool = False
    timeout: float = 5.0


class Processes(Protocol):
    """The server's process tree as it is now; it follows restarts. Thread-safe, cheap to call often."""

    def current(self) -> Sequence[ServerProcess]: ...

    def why_empty(self) -> str:
        """The sentence that says why current() is empty; "" when it is not."""
        ...


def place_of(url: str) -> str:
    """A server's address in short, as in ``127.0.0.1:8000``."""
    return url.partition("://")[2] or url
