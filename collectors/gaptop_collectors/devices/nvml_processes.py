"""Whose processes are on a device, as far as their numbers can be told apart. Pure but for one look into /proc."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = "mapping unknown"


@dataclass(frozen=True, slots=True)
class Occupants:
    """``pids``: the watched server's on the device; ``foreign``: how many others. None: cannot be known, and why."""

    pids: tuple[int, ...] | None
    foreign: int | None
    why: str = ""


def exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def occupants(
    listed: Collection[int], ours: Collection[int], known: Callable[[int], bool] = exists, *, away: bool = False
) -> Occupants:
    """NVML lists host pids, also inside a container: one that does not exist here means that the numbers differ.

    ``away``: process numbers here are not the host's (a container), or NVML lists none here (WSL2). A list there is
    believed only when one of ``ours`` is on it: empty it may mean that nothing is shown.
    ``ours`` empty: the server's processes are not known, so nobody can be called foreign.
    """
    if any(not known(pid) for pid in listed):
        return Occupants(None, None, f"{UNKNOWN}: NVML lists the host's process numbers, and a container has others")
    seen = set(listed) & set(ours)
    if away and not seen:
        return Occupants(
            None, None, f"{UNKNOWN}: inside a container or WSL2 NVML does not list processes by these numbers"
        )
    if listed and not ours:
        return Occupants(None, None, f"{UNKNOWN}: the server's processes are not known")
    return Occupants(tuple(sorted(seen)), len(set(listed) - set(ours)))
