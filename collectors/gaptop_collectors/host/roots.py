"""Which process trees of this host are servers, and which process in them has which role."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gaptop_collectors.commandline import CommandLine, is_python, recognise, vllm_role
from gaptop_collectors.engines.address import printable
from gaptop_collectors.host.proctable import Listener, Row, ancestors, descendants, read_argv
from gaptop_collectors.target import Role, ServerProcess


@dataclass(frozen=True, slots=True)
class Root:
    """The topmost process of a server; ``command`` is None where only the names of its children gave it away."""

    pid: int
    engine: str
    command: CommandLine | None


def find_roots(rows: Mapping[int, Row]) -> list[Root]:
    """The servers among these processes, by command line or by vLLM's process names; oldest first."""
    commands: dict[int, CommandLine] = {}
    titled: list[int] = []
    for pid in rows:
        argv = read_argv(pid)
        command = recognise(argv)
        if command is not None:
            commands[pid] = command
        elif vllm_role(argv) is not None:
            titled.append(pid)
    roots = {
        pid: Root(pid, command.engine, command)
        for pid, command in commands.items()
        if not any(above in commands and commands[above].engine == command.engine for above in ancestors(rows, pid))
    }
    for pid in titled:
        above = ancestors(rows, pid)
        if any(parent in roots and roots[parent].engine == "vllm" for parent in above):
            continue
        # A program of somebody's own that embeds vLLM: the parent of the topmost renamed process is the front end.
        top = next((p for p in reversed(above) if p in titled), pid)
        parent = rows[top].ppid
        start = parent if parent in rows and is_python(read_argv(parent)) else top
        roots.setdefault(start, Root(start, "vllm", None))
    return sorted(roots.values(), key=lambda root: (rows[root.pid].started, root.pid))


def root_of(rows: Mapping[int, Row], roots: Sequence[Root], pid: int) -> Root | None:
    """The server that a process belongs to."""
    line = [pid, *ancestors(rows, pid)]
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
    pids = descendants(rows, root)
    argvs = {pid: read_argv(pid) for pid in pids}
    roles = {pid: vllm_role(argvs[pid]) for pid in pids}
    found = []
    for pid in pids:
        row = rows.get(pid)
        if row is None:
            continue
        role = roles[pid] or (_root_role(set(roles.values()), engine) if pid == root else "other")
        name = argvs[pid][0] if roles[pid] and argvs[pid] else row.comm
        found.append(ServerProcess(pid, role, printable(name, 40), is_python(argvs[pid]), row.started))
    return tuple(found)


def _root_role(below: Collection[Role | None], engine: str) -> Role:
    if engine != "vllm":
        return "server"
    if "api" in below:
        return "other"  # with several API servers their parent serves nothing itself
    return "api" if "engine" in below else "server"
