"""What kind of machine this is, as far as NVML answers otherwise there. Looks at a few files, and asks no driver."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_FIRST_PID_NAMESPACE: Final = "pid:[4026531836]"
"""The kernel gives the first process namespace this fixed number."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``container``: process numbers here are not those of the host, which NVML lists."""

    wsl: bool = False
    container: bool = False

    @property
    def away(self) -> bool:
        """NVML's list of processes cannot be believed to be whole, and of our numbers."""
        return self.wsl or self.container


ORDINARY: Final = Machine()


def look(
    exists: Callable[[str], bool] = os.path.exists,
    release: Callable[[], str] = lambda: os.uname().release,
    link: Callable[[str], str] = os.readlink,
) -> Machine:
    """This machine. A file that cannot be read says nothing."""
    try:
        namespace = link("/proc/self/ns/pid")
    except OSError:
        namespace = _FIRST_PID_NAMESPACE
    wsl = exists("/dev/dxg") or "microsoft" in release().lower()
    return Machine(wsl, not wsl and namespace != _FIRST_PID_NAMESPACE)
