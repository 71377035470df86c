"""Which process trees of this host are servers, and which process in them has which role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaptop_collectors.commandline import CommandLine, is_python, recognise, titled
from gaptop_collectors.engines.address import printable
from gaptop_collectors.host.proctable import Listener, Row, ancestors, descendants, read_argv
from gaptop_collectors.host.roles import Member, roles_of
from gaptop_collectors.target import ServerProcess


@dataclass(frozen=True, slots=True)
class Root:
    """The topmost process of a server; ``command`` is None where only the names of its children gave it away."""

    pid: int
    engine: str
    command: CommandLine | None


def find_roots(rows: Mapping[int, Row]) -> list[Root]:
    """The servers among these processes, by command line or by an engine's process titles; oldest first."""
    commands: dict[int, CommandLine] = {}
    renamed: dict[int, str] = {}
    for pid in rows:
        argv = read_argv(pid)
        command = recognise(argv)
        if command is not None:
            commands[pid] = command
        elif (found := titled(argv)) is not None:
            renamed[pid] = found[0]
    roots = {
        pid: Root(pid, command.engine, command)
        for pid, command in commands.items()
        if not any(above in commands and commands[above].engine == command.engine for above in _above(rows, pid))
    }
    for pid, engine in renamed.items():
        above = _above(rows, pid)
        if any(parent in roots and roots[parent].engine == engine for parent in above):
            continue
        # A program of somebody's own that embeds the engine: the topmost renamed process's parent is the front end.
        top = next((p for p in reversed(above) if renamed.get(p) == engine), pid)
        parent = rows[top].ppid
        start = parent if parent in rows and is_python(read_argv(parent)) else top
        roots.setdefault(start, Root(start, engine, None))
    return sorted(roots.values(), key=lambda root: (rows[root.pid].started, root.pid))


def root_of(rows: Mapping[int, Row], roots: Sequence[Root], pid: int) -> Root | None:
    """The server that a process belongs to."""
    line = [pid, *_above(rows, pid)]
    return next((root for above in line for root in roots if root.pid == above), None)


def root_at_port(rows: Mapping[int, Row], roots: Sequence[Root], sockets: Sequence[Listener], port: int) -> Root | None:
    """The server that listens on a port; where owners are hidden, the one whose command line says that port."""
    owners = {socket.pid for socket in sockets if socket.port == port and socket.pid is not None}
    for owner in sorted(owners):
        root = root_of(rows, roots, owner)
        if root is not None:
            return root
    if owners:
        return None
    said = [root for root in roots if root.command is not None and root.command.port == port]
    return said[0] if len(said) == 1 else None


def processes_of(rows: Mapping[int, Row], root: int, engine: str) -> tuple[ServerProcess, ...]:
    """The server's tree with roles, the root first."""
    pids = [pid for pid in descendants(rows, root) if pid in rows]
    members = {pid: Member(pid, rows[pid].ppid, rows[pid].comm, read_argv(pid)) for pid in pids}
    roles = roles_of(engine, root, members)
    found = []
    for pid in pids:
        argv = members[pid].argv
        name = argv[0] if titled(argv) is not None else rows[pid].comm
        found.append(ServerProcess(pid, roles[pid], printable(name, 40), is_python(argv), rows[pid].started))
    return tuple(found)


def _above(rows: Mapping[int, Row], pid: int) -> list[int]:
    """Parent, grandparent … with pid 1: in a container that may be the server itself."""
    found = ancestors(rows, pid)
    top = rows.get(found[-1] if found else pid)
    return [*found, 1] if top is not None and top.ppid == 1 and 1 in rows else found
