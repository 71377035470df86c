"""Which collectors watch what the configuration names. Modules are imported on the collectors' own threads, so that one
that lacks a dependency, or takes long to load, is a health line of its own and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gaptop.probe.announced import Announced
from gaptop.probe.config import ProbeConfig, WatchedServer
from gaptop.probe.pace import SHARE
from gaptop.probe.runner import Plan
from gaptop.probe.tellers import Tellers
from gaptop.probe.told import ToldProcesses, told
from gaptop_collectors.collector import Collector, Message
from gaptop_collectors.target import HttpOptions, Processes, Server, ServerProcess, place_of

if TYPE_CHECKING:
    from gaptop_collectors.devices.nvml import NvmlDevices

_NVML_PATIENCE: Final = 3.0
"""Seconds that the CPU device waits to hear who is on the GPUs: a server there is not to be shown as a CPU at first."""

_NVML_STRETCH: Final = 2
"""A GPU without a ring is polled each half window: twice that still sees each of them, more would tear holes. What the
driver itself is asked for too dearly, the collector asks for less often on its own."""


def plans(config: ProbeConfig) -> Sequence[Plan]:
    """The plans for a configuration, the device first. Never raises for what the host lacks."""
    http = HttpOptions(ca_file=config.ca, insecure=config.insecure)
    trees = [_Tree(server, "" if len(config.servers) == 1 else place_of(server.url)) for server in config.servers]
    every, gpus = _Every(trees) if trees else None, _Gpus(config.gpu)
    made = [Plan(_numbered("devices.feed", place), _feed(path)) for place, path in enumerate(config.feeds, 1)]
    if config.gpu:
        made.append(Plan("devices.nvml", lambda: _nvml(every, gpus, config.state), gpus.share, _NVML_STRETCH))
    for number, address in enumerate(config.dcgm, 1):
        made.append(Plan(_numbered("devices.dcgm", number), _dcgm(address, http, gpus)))
    for tree in trees:
        own = replace(http, headers={**config.headers, **tree.watched.headers})
        made.append(Plan(tree.named(f"engines.{tree.watched.engine}"), _engine(tree, own, config.host)))
    if config.host and every is not None:
        made.extend(_on_host(config, trees, every, gpus))
    return made


def _on_host(config: ProbeConfig, trees: Sequence[_Tree], every: _Every, gpus: _Gpus) -> Sequence[Plan]:
    """What is seen of the servers on this host. Threads are read for all of them at once: the share of a core that this
    may take is one, however many servers there are."""
    made = []
    if not config.feeds:
        # Whether a server computes on its CPU or on a GPU, this collector finds out itself: a host with GPUs may also
        # have servers that use none.
        made += [Plan(tree.named("devices.cpu"), partial(_cpu, tree, gpus)) for tree in trees]
    if config.threads != "off":
        made.append(Plan("host.threads_pyspy", partial(_pyspy, every, config.threads == "fast"), recorder=True))
    if config.gil:
        made += [Plan(tree.named("host.gil"), partial(_gil, tree)) for tree in trees]
    made.append(Plan("host.threads_proc", partial(_proc, every)))
    made += [Plan(tree.named("host.process"), partial(_process, tree)) for tree in trees]
    # Host-wide pressure is one source, however many servers are watched.
    made += [Plan(tree.named("host.cgroup"), partial(_cgroup, tree, tree is trees[0])) for tree in trees]
    return made


def _numbered(collector: str, number: int) -> str:
    return collector if number == 1 else f"{collector}:{number}"


class _Tree:
    """One server's process tree, made on first use (by whichever thread needs it first) and shared. ``place`` tells it
    apart from others, "" where it is the only one."""

    def __init__(self, watched: WatchedServer, place: str) -> None:
        self.watched = watched
        self.place = place
        self._lock = threading.Lock()
        self._tree: Processes | None = None

    def named(self, collector: str) -> str:
        """The name of that collector of this server."""
        return f"{collector}:{self.place}" if self.place else collector

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
        says = [tree.tree().why_empty() for tree in self._trees]
        return says[0] if all(says) else ""


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


def _engine(tree: _Tree, http: HttpOptions, host: bool) -> Callable[[], Collector]:
    def make() -> Collector:
        from gaptop_collectors.engines.registry import make_engine

        return make_engine(tree.server(), http, tree.tree() if host else None)

    return (lambda: Announced(tree.server(), make)) if tree.place else make


def _cpu(tree: _Tree, gpus: _Gpus) -> Collector:
    from gaptop_collectors.devices.cpu import CpuDevice

    gpus.looked.wait(_NVML_PATIENCE)
    return CpuDevice(tree.tree(), tree.place, on_gpu=gpus.have)


def _pyspy(processes: Processes, fast: bool) -> Collector:
    from gaptop_collectors.host.threads_pyspy import PySpyThreads

    return PySpyThreads(processes, fast)


def _gil(tree: _Tree) -> Collector:
    from gaptop_collectors.host.pyspy_gil import GilShares

    return GilShares(tree.tree())


def _proc(processes: Processes) -> Collector:
    from gaptop_collectors.host.threads_proc import ProcThreads

    return ProcThreads(processes)


def _process(tree: _Tree) -> Collector:
    from gaptop_collectors.host.process import ServerProcesses

    return ServerProcesses(tree.tree(), tree.watched.url)


def _cgroup(tree: _Tree, host: bool) -> Collector:
    from gaptop_collectors.host.cgroup import Cgroup

    return Cgroup(tree.tree(), tree.watched.url, host=host)
