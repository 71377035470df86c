"""Whose processes are on a device, as far as their numbers can be told apart. Pure but for one look into /proc."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Occupants:
    """``pids``: the watched server's on the device; ``foreign``: how many others. None: cannot be known, and why."""

    pids: tuple[int, ...] | None
    foreign: int | None
    why: str = ""


def exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def occupants(listed: Collection[int], ours: Collection[int], known: Callable[[int], bool] = exists) -> Occupants:
    """NVML lists host pids, also inside a container: one that does not exist here means that the numbers differ.

    ``ours`` empty: the server's processes are not known, so nobody can be called foreign.
    """
    if any(not known(pid) for pid in listed):
        return Occupants(None, None, "NVML lists the host's process numbers, and here they are others (a container)")
    if listed and not ours:
        return Occupants(None, None, "the server's processes are not known")
    return Occupants(tuple(sorted(set(listed) & set(ours))), len(set(listed) - set(ours)))
