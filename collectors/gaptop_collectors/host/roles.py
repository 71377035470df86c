"""Which process of a server's tree has which role, and which of its threads the device waits for.

Told from command lines, process titles and the shape of the tree alone. Where these do not tell, the role is ``other``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from gaptop_collectors.commandline import is_python, titled
from gaptop_collectors.target import Role, ServerProcess

_SPAWNED: Final = "from multiprocessing.spawn import spawn_main"
_RANKS: Final = re.compile(r"(?<!MOE)_(DP|PP|TP)(\d+)(?=_|$)")
# TensorRT-LLM starts its executor's loop as a thread of the process that owns the device; Python names it so.
_LOOP: Final = re.compile(r"\(_event_loop_wrapper\)$")


@dataclass(frozen=True, slots=True)
class Member:
    """A process as the tree shows it. ``argv`` is () where it may not be read."""

    pid: int
    ppid: int
    comm: str
    argv: Sequence[str]


def roles_of(engine: str, root: int, members: Mapping[int, Member]) -> dict[int, Role]:
    """The role of every member of the tree below (and with) ``root``."""
    roles: dict[int, Role] = dict.fromkeys(members, "other")
    roles |= {pid: found[1] for pid, member in members.items() if (found := titled(member.argv)) is not None}
    if root in members:
        _BY_ENGINE.get(engine, _alone)(root, members, roles)
    return roles


def critical_tid(process: ServerProcess, threads: Mapping[int, str]) -> int:
    """The thread that every step has to pass: the main one, or the one whose name (by tid) says that it is the loop."""
    return next((tid for tid, name in sorted(threads.items()) if _LOOP.search(name)), process.pid)


def _alone(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    if titled(members[root].argv) is None:
        roles[root] = "server"


def _front_only(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    roles[root] = "api"


def _unknown_threads(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    """The model runs in some thread of this process that nothing names: its main thread would tell a wrong story."""


def _vllm(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    """Named by titles since 0.10. Before, the front end has one child, the engine, whose children are the workers."""
    if not set(roles.values()) & {"engine", "worker", "api"} and "--disable-frontend-multiprocessing" not in (
        members[root].argv
    ):
        engines = _forked(root, root, members)
        if len(engines) == 1:
            roles[engines[0]] = "engine"
            roles |= dict.fromkeys(_forked(engines[0], root, members), "worker")
    if titled(members[root].argv) is None:
        below = set(roles.values())
        # With several API servers their parent serves nothing itself.
        roles[root] = "other" if "api" in below else "api" if "engine" in below else "server"


def _sglang(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    """Each scheduler schedules and runs the model of its rank; the first of each data parallel rank leads."""
    leaders: dict[int, list[tuple[tuple[int, int], int]]] = defaultdict(list)
    for pid, role in roles.items():
        if role == "engine":
            ranks = {kind: int(number) for kind, number in _RANKS.findall(members[pid].argv[0])}
            leaders[ranks.get("DP", 0)].append(((ranks.get("PP", 0), ranks.get("TP", 0)), pid))
    for ranked in leaders.values():
        roles |= {pid: "worker" for _, pid in sorted(ranked)[1:]}
    if titled(members[root].argv) is None:
        roles[root] = "api"  # HTTP and the tokenizer manager


def _tgi(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    """The launcher starts a router (HTTP, queue and batches, in Rust) and a Python shard for each device."""
    for pid, member in members.items():
        words = [PurePath(word).name for word in member.argv[:3]]
        if words and words[0].startswith("text-generation-router"):
            roles[pid] = "api"
        elif "text-generation-server" in words and "serve" in words:
            roles[pid] = "worker"


def _trtllm(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    """The HTTP server hands requests to MPI processes, each of which schedules and runs its rank; or it does it all."""
    ranks = [pid for pid, member in members.items() if tuple(member.argv[-2:]) == ("-m", "mpi4py.futures.server")]
    roles |= dict.fromkeys(ranks, "worker")
    # A disaggregated server's own front end has no model.
    roles[root] = "api" if ranks or "disaggregated" in members[root].argv[1:4] else "server"


def _lmdeploy(root: int, members: Mapping[int, Member], roles: dict[int, Role]) -> None:
    """The engine is in the API server's own event loop, or in a process that renames its main thread. Workers have no
    name: they are told by their number only, as many as devices were asked for."""
    engine = next((pid for pid, member in members.items() if member.comm == "ZMQMPEngine"), root)
    roles[engine] = "engine"
    roles[root] = "server" if engine == root else "api"
    workers = [pid for pid in _children(engine, members) if _SPAWNED in " ".join(members[pid].argv[:3])]
    if 1 < len(workers) == _number_after("--tp", members[root].argv):
        roles |= dict.fromkeys(workers, "worker")


def _forked(parent: int, root: int, members: Mapping[int, Member]) -> list[int]:
    """Children that multiprocessing started to run a part of the program: with its command line, or spawned."""
    found = []
    for pid in _children(parent, members):
        argv = tuple(members[pid].argv)
        same = bool(argv) and is_python(argv) and argv == tuple(members[root].argv)
        if same or _SPAWNED in " ".join(argv[:3]):
            found.append(pid)
    return found


def _children(parent: int, members: Mapping[int, Member]) -> list[int]:
    return sorted(pid for pid, member in members.items() if member.ppid == parent)


def _number_after(option: str, argv: Sequence[str]) -> int | None:
    """The value of ``--option N`` or ``--option=N``."""
    for index, word in enumerate(argv):
        text = argv[index + 1] if word == option and index + 1 < len(argv) else word.removeprefix(f"{option}=")
        if (word == option or word != text) and text.isascii() and text.isdigit():
            return int(text)
    return None


_BY_ENGINE: Final[Mapping[str, Callable[[int, Mapping[int, Member], dict[int, Role]], None]]] = {
    "vllm": _vllm,
    "aphrodite": _vllm,
    "sglang": _sglang,
    "tgi": _tgi,
    "trtllm": _trtllm,
    "lmdeploy": _lmdeploy,
    "dynamo": _front_only,
    "ollama": _front_only,
    "llama_cpp_python": _unknown_threads,
    "mistralrs": _unknown_threads,
    "koboldcpp": _unknown_threads,
    "tabbyapi": _unknown_threads,
}
