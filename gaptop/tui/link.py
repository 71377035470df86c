"""Whether the connection that a screen is seen through keeps up with what is written to it.

Asking the terminal and timing its answer would be answered by a multiplexer on this side, and an answer that arrives in
pieces is taken for keys. The kernel knows what of our connection is not acknowledged, and it costs 0.1 ms to ask.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Final

PATIENCE: Final = 4.0
"""Seconds. Until it is over, a slow first frame (some 15 KB) and an answer that is held back are no slow link."""

_SOCK_DIAG: Final = 4
"""The netlink protocol and, in a message of it, the question by family: linux/inet_diag.h."""
_BY_FAMILY: Final = 20
_ESTABLISHED: Final = 1
_ANY: Final = 0xFFFFFFFF
_HEADER, _ASKED, _ENDS = "=IHHII", "=BBBBI", "!HH16s16s"
_ANSWERED: Final = "=BBBB48xIIIII"

Queued = Callable[[], int | None]
"""Bytes that were sent and are not acknowledged, or wait to be sent; None where nobody knows."""


class Link:
    """Slow is a link whose queue was not seen empty for a while: a frame was still under way when the next one was due.

    Seen is the last hop only: behind a jump host the screen cannot tell.
    """

    def __init__(self, queued: Queued) -> None:
        self._queued = queued
        self._busy_since: float | None = None

    def is_slow(self, now: float) -> bool:
        """To be asked before each frame."""
        if not self._queued():
            self._busy_since = None
            return False
        if self._busy_since is None:
            self._busy_since = now
        return now - self._busy_since >= PATIENCE


def remote(environ: Mapping[str, str]) -> Link | None:
    """The SSH connection that this screen is seen through; None where there is none."""
    ends = environ.get("SSH_CONNECTION", "").split()
    if len(ends) != 4 or not sys.platform.startswith("linux"):
        return None
    client, client_port, server, server_port = ends
    if not (client_port.isdecimal() and server_port.isdecimal()):
        return None
    return Link(lambda: _unacknowledged((server, int(server_port)), (client, int(client_port))))


def _unacknowledged(own: tuple[str, int], peer: tuple[str, int]) -> int | None:
    """Bytes in the send queue of an established connection of this host."""
    try:
        question = _question(own, peer)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as asked:
            asked.settimeout(0.05)
            asked.send(question)
            answer = asked.recv(8192)
        if struct.unpack_from(_HEADER, answer)[1] != _BY_FAMILY:
            return None
        _, state, _, _, _, _, queued, _, _ = struct.unpack_from(_ANSWERED, answer, struct.calcsize(_HEADER))
    except (OSError, struct.error):
        return None
    return int(queued) if state == _ESTABLISHED else None


def _question(own: tuple[str, int], peer: tuple[str, int]) -> bytes:
    family = socket.AF_INET6 if ":" in own[0] else socket.AF_INET
    addresses = (socket.inet_pton(family, address) for address, _ in (own, peer))
    ends = struct.pack(_ENDS, own[1], peer[1], *addresses) + struct.pack("=III", 0, _ANY, _ANY)
    body = struct.pack(_ASKED, family, socket.IPPROTO_TCP, 0, 0, _ANY) + ends
    return struct.pack(_HEADER, struct.calcsize(_HEADER) + len(body), _BY_FAMILY, 1, 1, 0) + body
