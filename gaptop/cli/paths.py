"""Where gaptop keeps its things: XDG folders of the user who runs it. Each may be missing; gaptop works without."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import platformdirs

_REMEDY: Final = "set XDG_STATE_HOME to a folder that you may write to"


def state_dir() -> Path:
    """For what a screen keeps on disk and has to survive it: the user's own folder, made on first use for the user
    alone, or where that cannot be the temporary one. Never raises."""
    folder, _ = _own_folder()
    if folder is not None:
        return folder
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        # Whoever writes there will say that it cannot.
        return Path("/tmp")


def kept_dir() -> Path | None:
    """For what the probe has learnt of this machine; None where the user has no folder of their own: what stands in the
    temporary one, anybody may have put there."""
    return _own_folder()[0]


def log_path() -> Path | None:
    """The log file; None where none can be written, and :func:`no_log` says why."""
    return _log()[0]


def no_log() -> str:
    """Why there is no log and what to do about it; "" when there is one."""
    return _log()[1]


def activities_file() -> Path | None:
    """The user's own stack-to-activity rules, if there are any."""
    folder = _user_folder(platformdirs.user_config_path)
    # Path.is_file() would raise for a folder that may not be entered.
    return folder / "activities.toml" if folder is not None and os.path.isfile(folder / "activities.toml") else None


def config_file() -> Path | None:
    """Where the user's configuration is looked for, whether it is there or not; None for a user without a home."""
    folder = _user_folder(platformdirs.user_config_path)
    return folder / "config.toml" if folder is not None else None


def places() -> list[Path]:
    """Where a screen puts what it writes, the best first: the working directory if it is still there and may be written
    to, then the state folder. Never raises."""
    try:
        here = Path.cwd()
    except OSError:
        return [state_dir()]
    return [here, state_dir()] if os.access(here, os.W_OK | os.X_OK) else [state_dir()]


def new_recording(host: str, directory: Path | None = None) -> Path:
    """A name that tells when and where: ``gaptop-HOST-20260131-140312.gaptop`` in the working directory."""
    name = re.sub(r"[^A-Za-z0-9.-]", "_", host) or "host"
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return (directory or Path.cwd()) / f"gaptop-{name}-{stamp}.gaptop"


def start_log() -> Path | None:
    """Send this process's log to the log file; None where it cannot be written (gaptop works without it)."""
    from gaptop.cli.log_file import log_to  # not for a command that only shows its help

    path = log_path()
    return path if path is not None and log_to(path) else None


def _log() -> tuple[Path | None, str]:
    folder, why = _own_folder()
    if folder is None:
        return None, why
    path = folder / "gaptop.log"
    if os.path.lexists(path) and not os.access(path, os.W_OK):
        return None, f"{path} cannot be written by this user; remove it, or {_REMEDY}."
    return path, ""


def _own_folder() -> tuple[Path | None, str]:
    """The folder, or why there is none."""
    path = _user_folder(platformdirs.user_state_path)
    if path is None:
        return None, f"this user has no home folder; {_REMEDY}."
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        return None, f"the folder {path} cannot be made ({error.strerror}); {_REMEDY}."
    if not os.access(path, os.W_OK | os.X_OK):
        return None, f"the folder {path} cannot be written by this user; {_REMEDY}."
    return path, ""


def _user_folder(find: Callable[..., Path]) -> Path | None:
    """None for a user without a home folder: some versions of platformdirs raise then, others give a relative path."""
    try:
        path = find("gaptop", appauthor=False)
    except RuntimeError:
        return None
    return path if path.is_absolute() else None
