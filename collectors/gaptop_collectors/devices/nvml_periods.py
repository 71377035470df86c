"""What was learnt of each GPU on earlier runs: its window, and how its driver rounds. A small file that may be missing.

Keyed by UUID and driver version, for another driver may do otherwise. Whatever is wrong with the file (damaged,
foreign, not to be read or written) only means that it is learnt again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gaptop_collectors.collector import Rounding

FILE_NAME: Final = "nvml-periods.json"
FORMAT: Final = "gaptop nvml periods 1"
ENTRIES: Final = 64
"""The oldest are dropped: a host has a handful of GPUs, a shared home folder some dozens."""
_MOST_BYTES: Final = 65536
_PLAUSIBLE_S: Final = (0.05, 2.0)
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """``window`` and ``jitter`` in seconds (None: not measured); ``rounding``: ``nearest``, ``down``, "" (not told)."""

    window: float | None = None
    jitter: float = 0.0
    rounding: Rounding = ""


class Periods:
    """The file in ``folder``; None: nothing is kept. Never raises for what is wrong with it."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE_NAME
        self._writable = True

    def get(self, uuid: str, driver: str) -> Kept:
        """What was kept for this GPU with this driver; an empty Kept where there is nothing, or nothing plausible."""
        entry = self._read().get((uuid, driver))
        return Kept() if entry is None else entry

    def put(self, uuid: str, driver: str, kept: Kept) -> None:
        """Replaces the file as a whole. A file that cannot be written is not tried again."""
        if self._path is None or not self._writable or not driver:
            return
        entries = self._read()
        entries.pop((uuid, driver), None)
        entries[uuid, driver] = kept
        try:
            _replace(self._path, list(entries.items())[-ENTRIES:])
        except OSError as error:
            self._writable = False
            _log.info("%s is not written (%s): GPUs' periods are measured anew by each run", self._path, error)

    def _read(self) -> dict[tuple[str, str], Kept]:
        """Ordered from the oldest to the newest."""
        if self._path is None:
            return {}
        try:
            text = _bytes(self._path)
            body = json.loads(text)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            _log.info("%s is ignored (%s)", self._path, error)
            return {}
        if not isinstance(body, dict) or body.get("format") != FORMAT or not isinstance(body.get("gpus"), list):
            return {}
        return dict(entry for item in body["gpus"][-ENTRIES:] if (entry := _entry(item)) is not None)


def _entry(item: Any) -> tuple[tuple[str, str], Kept] | None:
    if not isinstance(item, dict):
        return None
    uuid, driver, rounding = item.get("uuid"), item.get("driver"), item.get("rounding")
    if not isinstance(uuid, str) or not isinstance(driver, str):
        return None
    window, jitter = _seconds(item.get("window")), _seconds(item.get("jitter"))
    if window is None or not _PLAUSIBLE_S[0] <= window <= _PLAUSIBLE_S[1]:
        window, jitter = None, 0.0
    elif jitter is None or not 0 <= jitter < window:
        jitter = 0.0
    told: Rounding = rounding if rounding in ("nearest", "down") else ""
    return (uuid, driver), Kept(window, jitter, told)


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # JSON's whole numbers have no end
        return None


def _bytes(path: Path) -> bytes:
    """Of a plain file of a moderate size; anything else raises OSError, and a pipe does not make us wait."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError("it is not a plain file")
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise OSError("it is too long to be ours")
    return text


def _replace(path: Path, entries: Iterable[tuple[tuple[str, str], Kept]]) -> None:
    gpus = [
        {"uuid": uuid, "driver": driver, "window": kept.window, "jitter": kept.jitter, "rounding": kept.rounding}
        for (uuid, driver), kept in entries
    ]
    number, partial = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=path.parent)  # made for its owner alone (0600)
    try:
        with open(number, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "gpus": gpus}, file, indent=1)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
