"""The process table of this host, read from /proc: who is whose parent, with what command line, listening where."""

from __future__ import annotations

import os
import re
import socket
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import psutil

_ANEW: Final = 32
"""Scans in which every row is read again once: its pid may be another process by now."""
_HOSTS_PIDS: Final = "pid:[4026531836]"
"""The number that the kernel gives to the host's own pid namespace."""


@dataclass(frozen=True, slots=True)
class Row:
    """One process. ``started`` is field 22 of /proc/PID/stat (clock ticks since boot)."""

    pid: int
    ppid: int
    comm: str
    started: int


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP socket that listens. ``pid`` is None where the owner may not be seen (another user's process)."""

    host: str
    port: int
    pid: int | None


def read_row(pid: int) -> Row | None:
    """The row of one process, None when it is gone (or a zombie: it runs nothing any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    opening, closing = text.find("("), text.rfind(")")
    fields = text[closing + 2 :].split()
    if opening < 0 or len(fields) < 20 or fields[0] in "ZX":
        return None
    return Row(pid, int(fields[1]), text[opening + 1 : closing], int(fields[19]))


class ProcessTable:
    """Reads all processes again and again, for less: of those that were there before, only the wanted ones anew. Any
    other can only become somebody's child by being born.
    """

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._looks = 0

    def scan(self, wanted: Collection[int]) -> dict[int, Row]:
        """All processes by pid; the rows of those that are not ``wanted`` may be up to 32 scans old."""
        self._looks += 1
        turn = self._looks % _ANEW
        rows = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                pid = int(name)
                row = self._rows.get(pid)
                if row is None or pid in wanted or pid % _ANEW == turn:
                    row = read_row(pid)
                if row is not None:
                    rows[pid] = row
        self._rows = rows
        return rows


def scan() -> dict[int, Row]:
    """All processes by pid; about 10 µs each."""
    rows = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (row := read_row(int(name))) is not None:
            rows[row.pid] = row
    return rows


def read_argv(pid: int) -> tuple[str, ...]:
    """The command line, () where it cannot be read. It may hold secrets: keep nothing of it but recognised facts."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(131072).decode("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return ()
    return tuple(words) if words != [""] else ()


def descendants(rows: Mapping[int, Row], root: int) -> list[int]:
    """The root and everything below it, parents first."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows.values():
        children[row.ppid].append(row.pid)
    found = [root]
    for pid in found:
        found.extend(child for child in sorted(children.get(pid, ())) if child not in found)
    return found


def ancestors(rows: Mapping[int, Row], pid: int) -> list[int]:
    """Parent, grandparent … of a process, without pid 1 and the kernel."""
    found: list[int] = []
    row = rows.get(pid)
    while row is not None and row.ppid > 1 and row.ppid in rows and row.ppid not in found:
        found.append(row.ppid)
        row = rows[row.ppid]
    return found


def hidden_by(mountinfo: str, namespace: str) -> str:
    """What keeps processes out of gaptop's sight here, with the remedy; "" where nothing does. ``mountinfo`` is that
    file's text, ``namespace`` the link of gaptop's pid namespace."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[4:5] == ["/proc"] and re.search(r"hidepid=([12]|noaccess|invisible)", line):
            return "/proc is mounted with hidepid and shows other users' processes to root alone: run gaptop as root"
    if namespace and namespace != _HOSTS_PIDS:
        return (
            "gaptop runs in a container that shows only its own processes: start it on the host, or with --pid=host or "
            "--pid=container:NAME (in Kubernetes shareProcessNamespace)"
        )
    return ""


def hidden_here() -> str:
    """:func:`hidden_by` of this process."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            return hidden_by(file.read(), os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""


def listeners() -> list[Listener]:
    """Every listening TCP socket of this network namespace; [] where the system forbids even that."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return []
    found = []
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr:
            host, port = connection.laddr[0], connection.laddr[1]
            found.append(Listener(str(host), int(port), connection.pid))
    return found


def is_local(host: str) -> bool:
    """Whether a host name or address means this host."""
    if host in ("localhost", "127.0.0.1", "::1"):
        return True
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    own = {a.address.partition("%")[0] for some in psutil.net_if_addrs().values() for a in some}
    return any(address.startswith("127.") or address in own for address in addresses)
