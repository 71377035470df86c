"""One look at a process's Python stacks with `py-spy dump`, and what its threads wait for. Only when a person asks.

Without ``native`` the process is not stopped: its memory is read while it runs, so that threads are seen at moments up
to some milliseconds apart. With ``native`` py-spy stops it for the whole look: 0.04 s a small process, 0.2 s one with
PyTorch in it.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gaptop_collectors.collector import CollectorError, Frame
from gaptop_collectors.host.pyspy_command import check_right, environment, explain, find_pyspy, make_launcher
from gaptop_collectors.host.wait_channels import waits_on

_PATIENCE: Final = 20.0
_PROC: Final = Path("/proc")
_FUTEX: Final = {"x86_64": "202", "aarch64": "98"}
"""The number of the system call by which a thread sleeps on a lock."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread does for the kernel. ``state`` is the letter of /proc (R, S, D, T …), ``on`` one of
    :data:`gaptop_collectors.signals.WAITING_ON` for a thread that sleeps; both are "" where they cannot be read.
    ``lock`` is the address of the lock that it sleeps on: threads with the same one wait for the same."""

    state: str = ""
    on: str = ""
    lock: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread; the innermost frame first. ``tid`` is null where py-spy does not know it."""

    tid: int | None
    name: str
    active: bool
    owns_gil: bool
    frames: Sequence[Frame]
    wait: Wait


def dump(pid: int, *, native: bool = False) -> list[ThreadStack]:
    """The threads of a process. Raises :class:`CollectorError`."""
    launcher = make_launcher(find_pyspy())
    refused = check_right(pid)
    if refused is not None:
        raise refused
    command = [*launcher.command, *dump_arguments(pid, native=native)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**environment(), "RUST_LOG": "off"},
            preexec_fn=launcher.in_child,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CollectorError(
            f"py-spy did not answer within {_PATIENCE:g} s and was ended, so the stacks of process {pid} are not "
            "known: try again when the machine is less busy."
        ) from None
    except OSError as error:
        raise CollectorError(f"py-spy could not be started ({error}), so stacks cannot be shown.") from error
    if done.returncode != 0:
        raise explain(pid, (done.stdout + done.stderr).decode("utf-8", "replace"), done.returncode)
    return parse(done.stdout, pid)


def dump_arguments(pid: int, *, native: bool) -> list[str]:
    """py-spy's own words: ``--native`` is the one mode that it cannot do without stopping the process."""
    return ["dump", "--pid", str(pid), "--json", "--native" if native else "--nonblocking"]


def parse(body: bytes, pid: int, proc: Path = _PROC) -> list[ThreadStack]:
    """py-spy's JSON, with what each thread waits for by now. Raises :class:`CollectorError`."""
    try:
        threads = json.loads(body)
        return [_thread(item, proc / str(pid) / "task") for item in threads]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CollectorError(
            f"py-spy's answer about process {pid} cannot be read ({error!r}), so its stacks are not shown: another "
            "version of py-spy is installed than gaptop was made for (0.4)."
        ) from None


def _thread(item: Mapping[str, Any], tasks: Path) -> ThreadStack:
    tid = item["os_thread_id"]
    frames = [Frame(str(frame["name"]), str(frame["filename"]), int(frame["line"] or 0)) for frame in item["frames"]]
    wait = Wait() if tid is None else _wait(tasks / str(int(tid)))
    return ThreadStack(tid, str(item["thread_name"] or ""), bool(item["active"]), bool(item["owns_gil"]), frames, wait)


def _wait(task: Path) -> Wait:
    state = _read(task / "stat").rpartition(")")[2].split()[:1]
    letter = state[0] if state else ""
    channel = _read(task / "wchan")
    if letter != "S" and letter != "D":
        return Wait(letter)
    call = _read(task / "syscall").split()
    lock = int(call[1], 16) if len(call) > 1 and call[0] == _FUTEX.get(platform.machine()) else None
    return Wait(
        letter, waits_on(channel.encode()) if channel not in ("", "0") else "futex" if lock else "unknown", lock
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
