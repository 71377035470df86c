"""Build and drive the OpenMP program of openmp.c, whose threads tell how long they really worked."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

SOURCE: Final = Path(__file__).with_suffix(".c")


class NoCompiler(Exception):
    """There is no C compiler with OpenMP to build the program with."""


def build(folder: Path) -> Path:
    """The program, compiled into ``folder``. Raises NoCompiler, or CalledProcessError with the compiler's text."""
    compiler = next((found for name in ("gcc", "cc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler("no C compiler (gcc, cc or clang) to build the OpenMP program with: apt install gcc libc6-dev")
    probe = subprocess.run(
        [compiler, "-fopenmp", "-x", "c", "-o", os.devnull, "-"],
        input=b"int main(void) { return 0; }",
        capture_output=True,
    )
    if probe.returncode != 0:
        raise NoCompiler("the C compiler cannot link OpenMP programs")
    program = folder / "openmp"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp"]
    subprocess.run([compiler, *flags, "-o", str(program), str(SOURCE)], check=True, capture_output=True, text=True)
    return program


@dataclass(frozen=True, slots=True)
class Told:
    """Seconds of CPU time and of work of each thread so far, when it fell idle or went on."""

    what: str
    cpu: tuple[float, ...]
    work: tuple[float, ...]


class Running:
    """The program, idle at first."""

    def __init__(self, program: Path, *arguments: object, environment: Mapping[str, str], cores: set[int]) -> None:
        self._process = subprocess.Popen(
            [str(program), *map(str, arguments)],
            env={name: value for name, value in os.environ.items() if name[:4] not in ("OMP_", "GOMP")}
            | dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def told(self) -> Told | None:
        """The next line, where it has been said."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], 0)[0]:
            return None
        line = bytearray()
        while not line.endswith(b"\n"):
            line += self._process.stdout.read(1)
        what, *numbers = line.decode().split()
        seconds = [int(number) / 1e9 for number in numbers]
        return Told(what, tuple(seconds[::2]), tuple(seconds[1::2]))
