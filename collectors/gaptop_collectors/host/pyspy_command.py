"""How py-spy is found and started, and what its refusals mean in words."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gaptop_collectors.collector import CollectorError

_PR_SET_PDEATHSIG: Final = 1
_CAP_SYS_PTRACE: Final = 19
_REMOTE: Final = "`sudo gaptop record -o - | gaptop open -`"
_CANNOT_RUN: Final = 126
"""setpriv's and the shell's exit code for a program that is there and does not start."""
_ROOT_OF_PROC: Final = Path("/proc")
_LONGEST: Final = 60
"""Seconds after which a recorder ends in any case. None is meant to get there: this is for one whose parent was killed
and that did not hear of it (a py-spy with file capabilities loses the parent-death signal)."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """How a recorder is started: words before py-spy's own, and what the child does before it becomes py-spy."""

    command: tuple[str, ...]
    in_child: Callable[[], None] | None


def find_pyspy() -> Path:
    """py-spy beside this Python first: it is our own dependency, and a tool environment is not on PATH.

    Raises :class:`CollectorError` (absent).
    """
    there = None
    for folder in (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent):
        found = folder / "py-spy"
        if os.access(found, os.X_OK):
            return found
        there = there or (found if found.is_file() else None)
    onpath = shutil.which("py-spy")
    if onpath is not None:
        return Path(onpath)
    effect = "so Python stacks are not seen and no host cause can be proved"
    if there is not None:
        raise CollectorError(
            f"{there} is there but may not be executed, {effect}: run `chmod +x {there}`; if that does not help, its "
            "file system is mounted noexec, so install gaptop on another one.",
            state="refused",
        )
    raise CollectorError(
        f"py-spy is not installed, {effect}: run `{sys.executable} -m pip install py-spy`.", state="absent"
    )


def stack_arguments(pid: int, rate: int) -> list[str]:
    """py-spy's own words for the stacks of one process: never ``--subprocesses`` (it mixes up the stacks of forked
    children), always ``--nonblocking`` (it never stops the server)."""
    common = ["record", "-p", str(pid), "-r", str(rate), "-d", str(_LONGEST), "--nonblocking"]
    return [*common, "-f", "chrometrace", "-i", "-t"]


def gil_arguments(pid: int, rate: int, seconds: int) -> list[str]:
    """For who holds the GIL: rate times seconds ticks, the last of which py-spy throws away."""
    common = ["record", "-p", str(pid), "-r", str(rate), "-d", str(seconds), "--nonblocking"]
    return [*common, "-f", "raw", "-t", "--gil"]


def make_launcher(pyspy: Path) -> Launcher:
    """A py-spy whose parent was killed goes on sampling: let it die with the thread that starts it."""
    setpriv = shutil.which("setpriv")
    if setpriv is not None and _knows_pdeathsig(setpriv):
        return Launcher((setpriv, "--pdeathsig", "KILL", str(pyspy)), None)
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return Launcher((str(pyspy),), die_with_parent)


@functools.cache
def _knows_pdeathsig(setpriv: str) -> bool:
    try:
        done = subprocess.run([setpriv, "--help"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--pdeathsig" in done.stdout


def environment() -> dict[str, str]:
    """Two log lines bracket py-spy's time zero; a back trace would only blur its messages."""
    wanted = {"RUST_BACKTRACE": "0", "RUST_LOG": "py_spy::config=info,py_spy::python_process_info=info"}
    return {**os.environ, **wanted}


def check_right(pid: int, proc: Path = _ROOT_OF_PROC) -> CollectorError | None:
    """Whether we may read the process's memory: the kernel's own check (uid, capability, Yama), without attaching."""
    try:
        os.close(os.open(proc / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return refusal(pid, proc)
    except OSError:
        return None
    return None


def refusal(pid: int, proc: Path = _ROOT_OF_PROC) -> CollectorError:
    """The sentence for a process that we may not attach to."""
    blind = f"The stacks of process {pid} may not be read"
    effect = "so no host cause can be proved there"
    owner, own = _owner(pid, proc), os.geteuid()
    scope = _ptrace_scope(proc)
    if scope == 3:
        says = f"{blind} because kernel.yama.ptrace_scope is 3, {effect}: it can be changed only by a reboot."
    elif _capable(proc):
        says = (
            f"{blind} although gaptop has CAP_SYS_PTRACE, {effect}: the process lives in another user namespace, or a "
            "security module (SELinux, AppArmor, seccomp) forbids it; run gaptop on the host itself, or in the "
            "server's container."
        )
    elif own == 0:
        says = (
            f"{blind} even as root, {effect}: this container lacks a capability; start it with "
            "`--cap-add SYS_PTRACE` (Kubernetes: securityContext.capabilities.add [SYS_PTRACE]), or run gaptop on the "
            "host."
        )
    elif owner is not None and owner != own:
        says = f"{blind} because it belongs to user id {owner} and we are {own}, {effect}: run {_REMOTE}."
    elif scope:
        who = "its own parent" if scope == 1 else "a process with CAP_SYS_PTRACE"
        says = (
            f"{blind} because kernel.yama.ptrace_scope is {scope} (only {who} may), {effect}: run {_REMOTE}, or allow "
            "it with `sudo sysctl kernel.yama.ptrace_scope=0`; in a container, start it with `--cap-add SYS_PTRACE`."
        )
    else:
        says = f"{blind}, {effect}: run {_REMOTE}; in a container, start it with `--cap-add SYS_PTRACE`."
    return CollectorError(says, state="refused")


def explain(pid: int, output: str, code: int | None) -> CollectorError:
    """What py-spy's last words about a process mean (messages of py-spy 0.4)."""
    if "Permission Denied" in output or "Permission denied" in output or "Operation not permitted" in output:
        return refusal(pid)
    if "Failed to find python version" in output:
        return CollectorError(
            f"Process {pid} is no Python that py-spy knows, or has only just started, so its stacks are not seen: "
            "gaptop tries again, and reads its threads from /proc.",
            state="absent",
        )
    if "No such file or directory" in output or "No such process" in output or "process exited" in output:
        return CollectorError(
            f"Process {pid} has ended, so its stacks end here: restart the server and gaptop follows it.",
            state="absent",
        )
    if code == _CANNOT_RUN or "Exec format error" in output:
        return CollectorError(
            "py-spy cannot be executed on this machine (built for another processor, or its file system is mounted "
            "noexec), so stacks are not seen: reinstall it here with "
            f"`{sys.executable} -m pip install --force-reinstall py-spy`.",
            state="refused",
        )
    errors = [line.strip() for line in output.splitlines() if line.startswith("Error:") or "panicked" in line]
    said = errors[0][:200] if errors else f"exit code {code}, no message"
    return CollectorError(
        f"py-spy failed on process {pid} ({said}), so its stacks are missing: gaptop goes on trying; "
        f"`py-spy dump --nonblocking --pid {pid}` shows the same by hand."
    )


def nothing_written(code: int | None, errors: int) -> str:
    """Why a recorder that was asked to write has brought no window, as the reason for a hole."""
    if code == -signal.SIGKILL:
        return "py-spy did not write in time what it had sampled, and was ended"
    return f"all {errors} samples of a py-spy failed" if errors else "a py-spy was ended before its first sample"


def _owner(pid: int, proc: Path) -> int | None:
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None


def _ptrace_scope(proc: Path) -> int:
    try:
        return int((proc / "sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0


def _capable(proc: Path) -> bool:
    try:
        status = (proc / "self/status").read_text()
    except OSError:
        return False
    words = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")]
    return bool(words) and bool(int(words[0], 16) >> _CAP_SYS_PTRACE & 1)
