"""The simulated machine: its processes and threads, named as the real engines name theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gaptop.lab.core.model import EngineConfig
from gaptop.lab.fast.view import Dialect
from gaptop_collectors.target import Role, ServerProcess

URL: Final = "http://127.0.0.1:8000"
CORES: Final = 8
CORE_HERTZ: Final = 4.5e9
MODEL: Final = "simulated-8b (lab)"
VERSIONS: Final[dict[Dialect, str]] = {"vllm": "0.32.0", "vllm-0.8": "0.8.5", "llamacpp": "b6500"}
API, ENGINE, PREFILL, WORKERS, SERVER = 4100, 4180, 4200, 4240, 4100
STARTED: Final = 900_000
"""Clock ticks since boot."""
_FRONTS: Final = 0.4
_IDLE_TIDS: Final = 1000

Kind = Literal["engine", "split_engine", "worker", "front", "pool", "input", "output", "monitor", "native"]
"""What a thread is for: ``split_engine`` has its model in worker processes, ``native`` has no Python stack."""


@dataclass(frozen=True, slots=True)
class ThreadOf:
    """One thread. ``says`` is the name of the simulation's thread whose spans are its own ("": it only waits)."""

    tid: int
    name: str
    comm: str
    kind: Kind
    says: str = ""


@dataclass(frozen=True, slots=True)
class ProcessOf:
    """One process; its first thread is the main one. ``idle``: threads beside them, that only wait."""

    pid: int
    role: Role
    name: str
    python: bool
    threads: tuple[ThreadOf, ...]
    memory: float
    idle: tuple[ThreadOf, ...] = ()

    @property
    def seen(self) -> ServerProcess:
        """As gaptop's own process tree has it."""
        return ServerProcess(self.pid, self.role, self.name, self.python, STARTED + self.pid)


def processes(dialect: Dialect, config: EngineConfig) -> tuple[ProcessOf, ...]:
    """The server's processes: the front end first, and last one that runs the model. Ranks have processes of their own
    where there is more than one, and so has the engine of a prefill device."""
    ranks, pool = config.tensor_parallel_size, config.tokenizer_workers
    if dialect == "llamacpp":
        return (_llama(config),)
    if config.single_process and ranks <= 1 and not config.disaggregated:
        return (_all_in_one(pool),)
    # Engines that old do not rename their processes: they keep the command's name.
    name, title = ("VLLM::EngineCore", "VLLM::Worker_TP{}") if dialect == "vllm" else ("vllm", "vllm")
    front = [ThreadOf(API, "MainThread", "vllm", "front", "output")]
    front += _pool(API, pool)
    front.append(ThreadOf(API + 9, "MPClientEngineMonitor", "vllm", "monitor"))
    found = [ProcessOf(API, "api", "vllm", True, tuple(front), 0.64e9)]
    engines = [(ENGINE, "engine"), *([(PREFILL, "engine/prefill")] if config.disaggregated else [])]
    for pid, says in engines:
        threads = (
            ThreadOf(pid, "MainThread", name[:15], "engine" if ranks <= 1 else "split_engine", says),
            ThreadOf(pid + 3, "Thread-1 (process_input_sockets)", name[:15], "input"),
            ThreadOf(pid + 4, "Thread-2 (process_output_sockets)", name[:15], "output"),
        )
        found.append(ProcessOf(pid, "engine", name, True, threads, 1.7e9 if ranks <= 1 else 0.6e9))
    for rank in range(ranks if ranks > 1 else 0):
        pid = WORKERS + 10 * rank
        own = title.format(rank)
        main = ThreadOf(pid, "MainThread", own[:15], "worker", f"worker/{rank}")
        found.append(ProcessOf(pid, "worker", own, True, (main,), 1.8e9))
    return tuple(found)


def crowded(found: Sequence[ProcessOf], idle_threads: int) -> tuple[ProcessOf, ...]:
    """The same with so many more Python threads, that all wait: two in five are the front end's, whose libraries keep
    pools of their own, the others are spread evenly."""
    front = round(idle_threads * _FRONTS) if len(found) > 1 else idle_threads
    others = max(1, len(found) - 1)
    shares = [front, *((idle_threads - front + place) // others for place in range(len(found) - 1))]
    return tuple(replace(process, idle=_idle(process.pid, count)) for process, count in zip(found, shares, strict=True))


def _idle(pid: int, count: int) -> tuple[ThreadOf, ...]:
    return tuple(
        ThreadOf(pid * _IDLE_TIDS + number, f"ThreadPoolExecutor-0_{number}", "vllm", "pool") for number in range(count)
    )


def _all_in_one(pool: int) -> ProcessOf:
    """vLLM without processes of its own: the front end's threads share the engine's interpreter."""
    threads = [ThreadOf(ENGINE, "MainThread", "vllm", "engine", "engine")]
    threads.append(ThreadOf(ENGINE + 5, "output_handler", "vllm", "front", "output"))
    threads += _pool(ENGINE, pool)
    return ProcessOf(ENGINE, "server", "vllm", True, tuple(threads), 2.1e9)


def _pool(pid: int, count: int) -> list[ThreadOf]:
    return [
        ThreadOf(pid + 17 + n, f"ThreadPoolExecutor-3_{n}", "vllm", "pool", "tokenizer" if n == 0 else f"tokenizer/{n}")
        for n in range(count)
    ]


def _llama(config: EngineConfig) -> ProcessOf:
    """One process without Python: the inference thread is the main one, HTTP has a pool. What other engines do in
    processes of their own is done by threads here."""
    ranks, pool = config.tensor_parallel_size, config.tokenizer_workers
    name = "llama-server"
    threads = [ThreadOf(SERVER, name, name, "native", "engine"), ThreadOf(SERVER + 11, name, name, "native", "output")]
    threads += [
        ThreadOf(SERVER + 12 + n, name, name, "native", "tokenizer" if n == 0 else f"tokenizer/{n}")
        for n in range(pool)
    ]
    others = [f"worker/{rank}" for rank in range(ranks if ranks > 1 else 0)]
    others += ["engine/prefill"] if config.disaggregated else []
    threads += [ThreadOf(SERVER + 60 + n, name, name, "native", says) for n, says in enumerate(others)]
    return ProcessOf(SERVER, "server", name, False, tuple(threads), 17e9)


def owners(found: Sequence[ProcessOf], config: EngineConfig) -> list[list[int]]:
    """The processes on each device, by the device's number."""
    pids = [process.pid for process in found if process.role == "worker"]
    if found[0].role == "server":
        pids = [found[0].pid] * (2 if config.disaggregated else config.tensor_parallel_size)
    if not pids:
        # The prefill device is number 0, where there is one.
        pids = sorted((process.pid for process in found if process.role == "engine"), reverse=True)
    return [[pid] for pid in pids]
