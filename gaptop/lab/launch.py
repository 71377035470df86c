"""Start and stop the lab's live server from another process (the command line's ``demo``)."""

from __future__ import annotations

import json
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.view import Dialect

START_SECONDS = 15.0


class LabError(Exception):
    """The lab did not come up: one sentence for people."""


def needs_processes(scenario: Scenario) -> bool:
    """Whether it is about a server's several processes, which llama-server has not: ranks, two engines, a stopped front
    end, or a core that all of them want."""
    engine, places = scenario.engine, {fault.place for fault in scenario.faults}
    return (
        engine.tensor_parallel_size > 1 or engine.disaggregated or not places.isdisjoint({"stop", "oversubscription"})
    )


@dataclass(frozen=True, slots=True)
class LabProcess:
    """``role`` is a word of ``target.Role``."""

    pid: int
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class LabInfo:
    """What the live server says of itself when it is ready. ``feed`` is the device feed's path."""

    url: str
    feed: str
    processes: tuple[LabProcess, ...]
    model: str
    scenario: str
    engine: str
    version: str
    sequence_cap: int


class Lab:
    """A live server in its own processes and temporary folder. Start it from a thread that stays."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def start(
        self,
        scenario: str = "tour",
        seed: int = 1,
        *,
        dialect: Dialect = "vllm",
        meanwhile: Callable[[], None] = lambda: None,
    ) -> LabInfo:
        """Wait until it is ready; ``meanwhile`` is called while it comes up. Raises LabError where it is not within
        15 s."""
        # The server makes the folder and removes it, so that nothing is left even where we are killed.
        self._folder = Path(tempfile.gettempdir()) / f"gaptop-lab-{secrets.token_hex(8)}"
        command = [sys.executable, "-m", "gaptop.lab.live", "--scenario", scenario, "--seed", str(seed)]
        command += ["--dialect", dialect]
        pipe = subprocess.PIPE
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(
                [*command, "--dir", str(self._folder)], stdin=pipe, stdout=pipe, stderr=log
            )
            meanwhile()
            line = self._first_line(self._process)
            log.seek(0)
            says = log.read().decode(errors="replace").strip().splitlines()
        if line is None:
            self.stop()
            because = says[-1] if says else f"no answer within {START_SECONDS:.0f} s"
            raise LabError(
                f"The simulated server did not come up ({because}), so there is nothing to show; "
                f"try `{' '.join(command[1:])} --dir FOLDER` by hand to see why."
            )
        return _info(json.loads(line))

    def stop(self) -> None:
        """End it and remove its folder; safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @staticmethod
    def _first_line(process: subprocess.Popen[bytes]) -> bytes | None:
        """The ready line, or None where the process ends or stays silent."""
        assert process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(max(deadline - time.monotonic(), 0)):
                return None
        line = process.stdout.readline()
        return line if line.endswith(b"\n") else None


def _info(said: dict[str, Any]) -> LabInfo:
    processes = tuple(LabProcess(**each) for each in said.pop("processes"))
    return LabInfo(processes=processes, **said)
