"""Which collectors watch what the configuration names. Modules are imported on the collectors' own threads, so that one
that lacks a dependency, or takes long to load, is a health line of its own and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gaptop.probe.config import ProbeConfig, WatchedServer
from gaptop.probe.pace import SHARE
from gaptop.probe.runner import Plan
from gaptop.probe.tellers import Tellers
from gaptop.probe.told import ToldProcesses, told
from gaptop_collectors.collector import Collector, Message
from gaptop_collectors.target import HttpOptions, Processes, Server, ServerProcess

if TYPE_CHECKING:
    from gaptop_collectors.devices.nvml import NvmlDevices

_NVML_PATIENCE: Final = 3.0
"""Seconds that the CPU device waits to hear who is on the GPUs: a server there is not to be shown as a CPU at first."""

_NVML_STRETCH: Final = 2
"""A GPU without a ring is polled each half window: twice that still sees each of them, more would tear holes. What the
driver itself is asked for too dearly, the collector asks for less often on its own."""


def plans(config: ProbeConfig) -> Sequence[Plan]:
    """The plans for a configuration, the device first. Never raises for what the host lacks."""
    http = HttpOptions(headers=config.headers, ca_file=config.ca, insecure=config.insecure)
    trees = [_Tree(server) for server in config.servers]
    every, gpus = _Every(trees) if trees else None, _Gpus(config.gpu)
    made = [Plan("devices.feed", _feed(path)) for path in config.feeds]
    if config.gpu:
        made.append(Plan("devices.nvml", lambda: _nvml(every, gpus, config.state), gpus.share, _NVML_STRETCH))
    for number, address in enumerate(config.dcgm, 1):
        name = "devices.dcgm" if number == 1 else f"devices.dcgm:{number}"
        made.append(Plan(name, _dcgm(address, replace(http, headers={}), gpus)))
    for tree in trees:
        made.extend(_for_server(config, tree, http, gpus))
    return made


def _for_server(config: ProbeConfig, tree: _Tree, http: HttpOptions, gpus: _Gpus) -> Sequence[Plan]:
    made = [Plan("engines." + tree.watched.engine, lambda: _engine(tree, http, config.host))]
    if not config.host:
        return made
    if not config.feeds:
        # Whether the server computes on its CPU or on a GPU, this collector finds out itself: a host with GPUs may
        # also have servers that use none.
        made.append(Plan("devices.cpu", lambda: _cpu(tree, gpus)))
    if config.threads != "off":
        fast = config.threads == "fast"
        made.append(Plan("host.threads_pyspy", lambda: _pyspy(tree, fast), recorder=True))
    if config.gil:
        made.append(Plan("host.gil", lambda: _gil(tree)))
    made.append(Plan("host.threads_proc", lambda: _proc(tree)))
    made.append(Plan("host.process", lambda: _process(tree)))
    # Host-wide pressure is one source, however many servers are watched.
    first = tree.watched is config.servers[0]
    made.append(Plan("host.cgroup", lambda: _cgroup(tree, first)))
    return made


class _Tree:
    """One server's process tree, made on first use (by whichever thread needs it first) and shared."""

    def __init__(self, watched: WatchedServer) -> None:
        self.watched = watched
        self._lock = threading.Lock()
        self._tree: Processes | None = None

    def server(self) -> Server:
        """The server with its processes as they are now."""
        from gaptop_collectors.host.proctable import scan
        from gaptop_collectors.host.roots import processes_of

        watched = self.watched
        if watched.processes:
            processes = told(watched.processes, python=watched.engine != "llamacpp")
        else:
            processes = processes_of(scan(), watched.pids[0], watched.engine) if watched.pids else ()
        return Server(
            url=watched.url,
            engine=watched.engine,
            version=watched.version,
            model=watched.model,
            processes=processes,
            sequence_cap=watched.sequence_cap,
        )

    def tree(self) -> Processes:
        """Raises ImportError where a dependency is missing."""
        from gaptop_collectors.host.tree import ProcessTree

        with self._lock:
            if self._tree is None:
                server = self.server()
                self._tree = ToldProcesses(server.processes) if self.watched.processes else ProcessTree(server)
            return self._tree


class _Every:
    """The processes of all watched servers, for the collectors that watch whole devices."""

    def __init__(self, trees: Sequence[_Tree]) -> None:
        self._trees = trees

    def current(self) -> Sequence[ServerProcess]:
        return [process for tree in self._trees for process in tree.tree().current()]

    def why_empty(self) -> str:
        return next((says for tree in self._trees if (says := tree.tree().why_empty())), "")


class _Gpus:
    """What NVML has seen so far of who is on a GPU, for the collector of the other kind of device."""

    def __init__(self, asked: bool) -> None:
        self.seen: NvmlDevices | None = None
        self.looked = threading.Event()
        self.tellers = Tellers()
        if not asked:
            self.looked.set()

    def share(self) -> float:
        """Of a core, what reading them may take."""
        seen = self.seen
        return SHARE if seen is None else SHARE * seen.share

    def have(self, pid: int) -> bool:
        seen = self.seen
        return seen is not None and seen.have(pid)


def _feed(path: str) -> Callable[[], Collector]:
    def make() -> Collector:
        from gaptop_collectors.devices.feed import FeedDevice

        return FeedDevice(path)

    return make


def _nvml(processes: Processes | None, gpus: _Gpus, state: str | None) -> Collector:
    try:
        from gaptop_collectors.devices.nvml import NvmlDevices
    except ImportError:
        gpus.looked.set()
        raise

    class Heard(NvmlDevices):
        # What it delivers is not taken from an exporter as well.
        def open(self) -> Sequence[Message]:
            return gpus.tellers.hear(super().open())

        def sample(self) -> Sequence[Message]:
            return gpus.tellers.hear(super().sample())

    gpus.seen = Heard(processes, gpus.looked.set, None if state is None else Path(state))
    return gpus.seen


def _dcgm(address: str, http: HttpOptions, gpus: _Gpus) -> Callable[[], Collector]:
    def make() -> Collector:
        from gaptop_collectors.devices.dcgm import DcgmExporter

        gpus.looked.wait(_NVML_PATIENCE)
        exporter = DcgmExporter(address, http, lambda uuid, parent: gpus.tellers.told_by(address, uuid, parent))
        gpus.tellers.exporters[address] = exporter
        return exporter

    return make


def _engine(tree: _Tree, http: HttpOptions, host: bool) -> Collector:
    from gaptop_collectors.engines.registry import make_engine

    return make_engine(tree.server(), http, tree.tree() if host else None)


def _cpu(tree: _Tree, gpus: _Gpus) -> Collector:
    from gaptop_collectors.devices.cpu import CpuDevice

    gpus.looked.wait(_NVML_PATIENCE)
    return CpuDevice(tree.tree(), on_gpu=gpus.have)


def _pyspy(tree: _Tree, fast: bool) -> Collector:
    from gaptop_collectors.host.threads_pyspy import PySpyThreads

    return PySpyThreads(tree.tree(), fast)


def _gil(tree: _Tree) -> Collector:
    from gaptop_collectors.host.pyspy_gil import GilShares

    return GilShares(tree.tree())


def _proc(tree: _Tree) -> Collector:
    from gaptop_collectors.host.threads_proc import ProcThreads

    return ProcThreads(tree.tree())


def _process(tree: _Tree) -> Collector:
    from gaptop_collectors.host.process import ServerProcesses

    return ServerProcesses(tree.tree(), tree.watched.url)


def _cgroup(tree: _Tree, host: bool) -> Collector:
    from gaptop_collectors.host.cgroup import Cgroup

    return Cgroup(tree.tree(), tree.watched.url, host=host)
