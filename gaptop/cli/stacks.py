"""``gaptop stacks PID|URL``: one look at what every Python thread does now, who holds the GIL, who waits for locks."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gaptop.cli.exits import Exit, Stop, tell
from gaptop.cli.target import Target, choose, target_options
from gaptop.recording.printable import printable

if TYPE_CHECKING:
    from gaptop_collectors.host.pyspy_dump import ThreadStack

_ROLES: Final = ("engine", "worker", "server", "api")
_SLEEPS: Final = {
    "futex": "waits for a lock or the GIL",
    "pipe": "waits for a pipe",
    "poll": "waits for its sockets",
    "disk": "waits for the disk",
    "sleep": "sleeps",
    "other": "waits in the kernel",
    "unknown": "waits (for what may not be read here)",
}
_FUTEXES: Final = (
    ({"take_gil", "PyEval_RestoreThread"}, "waits for the GIL"),
    ({"PyThread_acquire_lock_timed"}, "waits for a lock"),
)
"""Functions of the interpreter's own, and what a thread inside them sleeps for."""
_STATES: Final = {"R": "runs or wants a core", "T": "is stopped", "t": "is stopped by a debugger", "Z": "has ended"}


@click.command(short_help="Show what every Python thread of a process does now.")
@target_options
@click.option("--native", is_flag=True, help="Frames of C code too. This stops the process for about 0.2 s; see --yes.")
@click.option("--locks", is_flag=True, help="Also list which threads wait for the same lock.")
@click.option("--yes", is_flag=True, help="Stop the process for --native without asking.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def stacks(*, target: Target, native: bool, locks: bool, yes: bool, as_json: bool) -> None:
    """Show once what every Python thread of a server (or of one process, by its PID) does: its stack, who holds the
    GIL, who waits for what. Takes 10 ms of CPU and does not stop the process, unless --native is given."""
    from gaptop_collectors.collector import CollectorError
    from gaptop_collectors.host.pyspy_dump import dump

    processes = _processes(target)
    if native and not yes and not _agreed([pid for pid, _, _ in processes]):
        tell("nothing was looked at.")
        return
    found, errors = [], []
    for pid, role, name in processes:
        try:
            found.append(_described(pid, role, name, dump(pid, native=native), native))
        except CollectorError as error:
            errors.append(error.says)
    if not found:
        raise Stop(errors[0], Exit.NOTHING_TO_OBSERVE)
    for says in errors:
        tell(says)
    click.echo(
        json.dumps({"processes": found}, indent=2) if as_json else "\n\n".join(_text(one, locks) for one in found)
    )


def _processes(target: Target) -> list[tuple[int, str | None, str]]:
    """(pid, role, name) of those to look at. Raises Stop."""
    if len(target.addresses) == 1 and target.addresses[0].isdigit():
        pid = int(target.addresses[0])
        try:
            return [(pid, None, Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n"))]
        except OSError:
            raise Stop(
                f"no process has the PID {pid}, so there are no stacks to show; look it up again.",
                Exit.NOTHING_TO_OBSERVE,
            ) from None
    servers = choose(target)
    found = [item for server in servers for item in server.processes if item.python and item.role in _ROLES]
    if not found:
        names = " and ".join(server.url for server in servers)
        raise Stop(
            next((server.says for server in servers if server.says), "")
            or f"no process of {names} is Python, so there are no Python stacks; `gaptop` shows its threads.",
            Exit.NOTHING_TO_OBSERVE,
        )
    return [(item.pid, item.role, item.name) for item in sorted(found, key=lambda item: _ROLES.index(item.role))]


def _agreed(pids: Sequence[int]) -> bool:
    """Whether the person at the terminal lets the processes be stopped. Raises Stop where there is nobody to ask."""
    named = ", ".join(map(str, pids))
    cost = (
        f"--native stops process {named} while it looks, about 0.2 s each with PyTorch in it (0.04 s for a small one), "
        "and everything that it serves waits that long"
    )
    if not _asked_at_terminal():
        raise Stop(f"{cost}; add --yes to do that.", Exit.USAGE)
    return click.confirm(f"{cost}. Stop it now?", err=True)


def _asked_at_terminal() -> bool:
    return sys.stdin.isatty()


def _described(pid: int, role: str | None, name: str, threads: Sequence[ThreadStack], native: bool) -> dict[str, Any]:
    """As in the JSON; null: not known."""
    waiting = defaultdict(list)
    for thread in threads:
        if thread.wait.lock is not None:
            waiting[thread.wait.lock].append(thread.tid)
    return {
        "pid": pid,
        "role": role,
        "name": name,
        "stopped": native,
        "gil_holder": next((thread.tid for thread in threads if thread.owns_gil), None),
        "threads": [_thread_json(thread) for thread in threads],
        "locks": [{"address": f"{lock:#x}", "waiting": tids} for lock, tids in sorted(waiting.items())],
    }


def _thread_json(thread: ThreadStack) -> dict[str, Any]:
    return {
        "tid": thread.tid,
        "name": thread.name,
        "active": thread.active,
        "owns_gil": thread.owns_gil,
        "state": thread.wait.state or None,
        "waits_on": thread.wait.on or None,
        "lock": None if thread.wait.lock is None else f"{thread.wait.lock:#x}",
        "frames": [{"function": item.function, "file": item.file, "line": item.line} for item in thread.frames],
    }


def _text(process: dict[str, Any], with_locks: bool) -> str:
    threads = process["threads"]
    role = f", {process['role']}" if process["role"] else ""
    how = "stopped for it" if process["stopped"] else "not stopped"
    lines = [f"process {process['pid']} ({printable(process['name'])}{role}), {len(threads)} Python threads, {how}"]
    names = {thread["tid"]: f"{thread['tid']} {printable(thread['name'])}".rstrip() for thread in threads}
    holder = process["gil_holder"]
    lines.append(
        f"the GIL is held by thread {names[holder]}"
        if holder is not None
        else "nobody held the GIL at that moment, so who waits on a futex then waited for a lock"
    )
    for thread in threads:
        lines += ["", f"thread {names[thread['tid']]}: {_doing(thread)}"]
        lines += [
            f"    {printable(item['function'])} ({printable(item['file'])}{_line(item)})" for item in thread["frames"]
        ]
    if with_locks:
        lines += ["", "locks that threads wait for"]
        lines += [
            f"    {lock['address']}: thread {', '.join(names[tid] for tid in lock['waiting'])}"
            for lock in process["locks"]
        ] or ["    none that can be told from here"]
    return "\n".join(lines)


def _line(frame: dict[str, Any]) -> str:
    return f":{frame['line']}" if frame["line"] else ""


def _doing(thread: dict[str, Any]) -> str:
    doing = _SLEEPS.get(thread["waits_on"], "") or _STATES.get(thread["state"], "state not known")
    if thread["waits_on"] == "futex":
        # Only with --native can the two be told apart.
        inside = {item["function"] for item in thread["frames"]}
        doing = next((says for names, says in _FUTEXES if inside & names), doing)
    return f"holds the GIL, {doing}" if thread["owns_gil"] else doing
