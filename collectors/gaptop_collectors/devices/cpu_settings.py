"""How a server's compute threads were told to wait: its environment and its OpenMP library.

Of the environment three named variables are looked at, and kept only where they have the form of a setting: it holds
secrets. (llama-server's ``--poll`` is not looked at: it changed nothing in builds with and without OpenMP.)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gaptop_collectors.devices.cpu_spin import Sleep
from gaptop_collectors.devices.cpu_threads import PROC

_VARIABLES: Final = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY")
_VALUE: Final = re.compile(r"[A-Za-z0-9_.]{1,20}")
_LIBRARY: Final = re.compile(rb"/(libgomp|libiomp5|libomp)[^/]*\.so[^/]*$")


class Waiting:
    """One process. ``words`` are the settings that its OpenMP library heeds, for people: ``OMP_WAIT_POLICY=active``."""

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        self._folder = proc / str(pid)
        self._told = self._variables()
        self._libraries: set[str] = set()
        self._code: list[tuple[int, int]] = []
        self.words = ""

    def look(self) -> None:
        """Find the OpenMP library; a server may load it long after its start."""
        self._libraries, self._code = set(), []
        for line in self._read("maps").splitlines():
            if found := _LIBRARY.search(line):
                self._libraries.add(found[1].decode())
                start, _, end = line.split()[0].partition(b"-")
                self._code.append((int(start, 16), int(end, 16)))
        told = ", ".join(f"{name}={value}" for name, value in self._told.items())
        self.words = told if self._libraries else ""

    def sleep(self, before: int | None, now: int | None) -> Sleep:
        """Where the main thread sleeps, from the program addresses at two instants (None: awake, or not to be seen).

        libgomp sleeps in its own code; Intel's and LLVM's libraries do in the C library, as everybody else does. (A
        pool of ggml's own never sleeps in a region.)
        """
        if now is not None and self._in_library(now):
            return "pool"
        if before is None or now is None or self._in_library(before):
            return ""
        return "elsewhere" if self._libraries <= {"libgomp"} else "unclear"

    def never_spins(self) -> bool:
        """Whether its OpenMP was told to sleep at once; False where there is none, or this user may not know."""
        return bool(self._libraries) and all(self._passive(library) for library in self._libraries)

    def _in_library(self, address: int) -> bool:
        return any(start <= address < end for start, end in self._code)

    def _passive(self, library: str) -> bool:
        own = self._told.get("GOMP_SPINCOUNT" if library == "libgomp" else "KMP_BLOCKTIME")
        if own is not None:
            return own == "0"
        return self._told.get("OMP_WAIT_POLICY", "").lower() == "passive"

    def _variables(self) -> dict[str, str]:
        told = {}
        for word in self._read("environ").split(b"\0"):
            name, _, value = word.decode(errors="replace").partition("=")
            if name in _VARIABLES and _VALUE.fullmatch(value):
                told[name] = value
        return dict(sorted(told.items()))

    def _read(self, name: str) -> bytes:
        """Empty where the process is gone or this user may not look."""
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return b""
