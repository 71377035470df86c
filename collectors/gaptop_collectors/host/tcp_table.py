"""Established connections to one port, counted from the kernel's table of a network namespace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ESTABLISHED: Final = "01"
_LISTEN: Final = "0A"
_LOOK_AGAIN: Final = 16
_UNOWNED: Final = "0"
"""The inode of a connection that waits to be accepted."""
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class _Socket:
    local_port: int
    remote_port: int
    state: str
    inode: str
    unread: bool


@dataclass(frozen=True, slots=True)
class Connections:
    """``listening``: whether anybody listens on the port there. The rest leaves our own connections out: ``others`` are
    established; of them ``unaccepted`` wait for the server to take them, and ``unread`` are taken and hold bytes that
    it has not read.
    """

    listening: bool
    others: int
    unaccepted: int
    unread: int


class TcpTable:
    """Counts the server's side of each connection only, so that a loopback client is not counted twice."""

    def __init__(self, port: int, proc: Path = _PROC) -> None:
        self._port = port
        self._proc = proc
        self._names: tuple[str, ...] = ()
        self._counted = 0
        self._foreign: set[str] = set()
        self._own: set[str] = set()

    def count(self, pid: int) -> Connections:
        """Connections in the network namespace of ``pid``; raises OSError where its table cannot be read.

        The kernel walks its whole hash table for each file (milliseconds), so that of IPv6 is read only now and then
        while nobody listens there.
        """
        if not self._names or self._counted % _LOOK_AGAIN == 0:
            self._names = ("tcp", "tcp6") if (self._proc / str(pid) / "net/tcp6").exists() else ("tcp",)
        self._counted += 1
        by_name = {name: list(self._sockets(pid, name)) for name in self._names}
        sockets = [item for found in by_name.values() for item in found]
        if not any(item.state == _LISTEN and item.local_port == self._port for item in by_name.get("tcp6", ())):
            self._names = ("tcp",)
        clients = {item.inode: item.local_port for item in sockets if item.remote_port == self._port}
        self._sort_out(set(clients))
        ours = {port for inode, port in clients.items() if inode in self._own}
        served = [item for item in sockets if item.local_port == self._port]
        others = [item for item in served if item.state == _ESTABLISHED and item.remote_port not in ours]
        return Connections(
            listening=any(item.state == _LISTEN for item in served),
            others=len(others),
            unaccepted=sum(item.inode == _UNOWNED for item in others),
            unread=sum(item.unread and item.inode != _UNOWNED for item in others),
        )

    def _sockets(self, pid: int, name: str) -> Iterator[_Socket]:
        with open(self._proc / str(pid) / "net" / name, encoding="ascii") as table:
            next(table, None)
            for line in table:
                fields = line.split()
                if fields[3] in (_ESTABLISHED, _LISTEN):
                    unread = fields[4].rpartition(":")[2].strip("0") != ""
                    yield _Socket(_port(fields[1]), _port(fields[2]), fields[3], fields[9], unread)

    def _sort_out(self, current: set[str]) -> None:
        """Which client sockets are ours: our own scraping must not look like somebody's request."""
        self._own &= current
        self._foreign &= current
        unknown = current - self._own - self._foreign
        if unknown:
            own = self._own_inodes()
            self._own |= unknown & own
            self._foreign |= unknown - own

    def _own_inodes(self) -> set[str]:
        found = set()
        folder = self._proc / "self/fd"
        for name in os.listdir(folder):
            try:
                target = os.readlink(folder / name)
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
        return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
