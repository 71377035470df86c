"""The processes as a whole: counters, compilers, connections, and what is noted when they come and go."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Message, Note, SourceInfo
from gaptop_collectors.host.cgroup import Cgroup
from gaptop_collectors.host.cgroup_files import places, throttled_seconds
from gaptop_collectors.host.process import ServerProcesses, is_compiler
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.tcp_table import TcpTable
from gaptop_collectors.target import Role, ServerProcess


class Tree:
    def __init__(self, *processes: ServerProcess) -> None:
        self.processes = list(processes)

    def current(self) -> list[ServerProcess]:
        return list(self.processes)

    def why_empty(self) -> str:
        return "" if self.processes else "The server has ended."


def described(pid: int, role: Role = "server") -> ServerProcess:
    usage = read_usage(pid)
    assert usage is not None
    return ServerProcess(pid, role, "target", False, usage.started)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def values(messages: list[Message]) -> dict[str, float | None]:
    return {key: column[0] for m in messages if isinstance(m, Batch) for key, column in m.values.items()}


def notes(messages: list[Message]) -> list[tuple[str, object]]:
    return [(m.what, m.data["pid"]) for m in messages if isinstance(m, Note)]


@pytest.mark.parametrize(
    "name",
    ["nvcc", "ptxas", "ptxas-blackwell", "cicc", "cc1plus", "cc1", "g++", "g++-12", "x86_64-linux-gnu-g++-12", "gcc",
     "clang-17", "clang++", "ninja", "ld", "ld.lld", "/usr/bin/c++", "triton-compile"],
)  # fmt: skip
def test_compilers_are_known_by_name(name: str) -> None:
    assert is_compiler(name)


@pytest.mark.parametrize(
    "name",
    [
        "python3",
        "VLLM::Worker",
        "ldconfig",
        "accelerate",
        "cat",
        "sh",
        "bash",
        "gdb",
        "tritonserver",
        "triton_python_backend_stub",
        "triton-server",
    ],
)
def test_other_programs_are_no_compilers(name: str) -> None:
    assert not is_compiler(name)


def test_the_counters_are_the_process_s_own(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    compiler = ServerProcess(1, "other", "cc1plus", False, 0)
    collector = ServerProcesses(Tree(described(os.getpid()), compiler), f"http://me:secret@127.0.0.1:{port}/metrics")
    collector.open()
    messages = list(collector.sample())
    pid = os.getpid()
    found = values(messages)
    times = os.times()
    assert found[f"host.cpu_seconds{{pid={pid}}}"] == pytest.approx(times.user + times.system, abs=0.5)
    memory = found[f"host.memory{{pid={pid}}}"]
    assert memory is not None
    assert memory > 5_000_000
    assert found["host.compilers"] == 1.0
    assert found["host.connections"] == 0.0
    assert found[f"host.stopped{{pid={pid}}}"] == 0.0
    info = messages[0]
    assert isinstance(info, SourceInfo)
    assert info.source == f"process/http://127.0.0.1:{port}"
    assert "secret" not in str(messages)


def test_a_port_that_nobody_listens_on_is_not_zero_connections() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        collector = ServerProcesses(Tree(described(os.getpid())), f"http://127.0.0.1:{taken.getsockname()[1]}")
        collector.open()
        messages = list(collector.sample())
    assert "host.connections" not in values(messages)
    info = messages[0]
    assert isinstance(info, SourceInfo)
    assert "nobody listens" in info.unsupported["host.connections"]
    assert "host.connections" not in info.signals


TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 500 1
   1: 0100007F:1F40 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 501 1
   2: 0100007F:C001 0100007F:1F40 01 00000000:00000000 00:00000000 00000000     0        0 601 1
   3: 0100007F:1F40 0100007F:C002 01 00000000:00000000 00:00000000 00000000     0        0 502 1
   4: 0100007F:C002 0100007F:1F40 01 00000000:00000000 00:00000000 00000000     0        0 602 1
   5: 0100007F:1F40 0100007F:C003 06 00000000:00000000 00:00000000 00000000     0        0 503 1
   6: 0100007F:1F41 0100007F:C004 01 00000000:00000000 00:00000000 00000000     0        0 504 1
"""
TABLE6 = """  sl  local_address                         remote_address  st tx rx tr when retr uid timeout inode
   0: 0000000000000000FFFF00000100007F:1F40 0000000000000000FFFF00000200007F:D001 01 0:0 0:0 0 0 0 505 1
"""


def test_each_connection_counts_once_and_our_own_not_at_all(tmp_path: Path) -> None:
    net = tmp_path / "7" / "net"
    net.mkdir(parents=True)
    (net / "tcp").write_text(TABLE)
    (net / "tcp6").write_text(TABLE6)
    fds = tmp_path / "self" / "fd"
    fds.mkdir(parents=True)
    os.symlink("socket:[602]", fds / "5")
    os.symlink("/dev/null", fds / "0")
    found = TcpTable(8000, tmp_path).count(7)
    assert found.listening
    assert found.others == 2, "C001 and the IPv6 client; not ours, not the closing one, not the other port's"


def test_a_stop_is_noted_once_and_its_end_too(sleeper: subprocess.Popen[bytes]) -> None:
    collector = ServerProcesses(Tree(described(sleeper.pid)), "http://127.0.0.1:9")
    collector.open()
    assert notes(list(collector.sample())) == []
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    stopped = list(collector.sample())
    assert notes(stopped) == [("process_stopped", sleeper.pid)]
    assert values(stopped)[f"host.stopped{{pid={sleeper.pid}}}"] == 1.0
    assert notes(list(collector.sample())) == []
    os.kill(sleeper.pid, signal.SIGCONT)
    until = time.monotonic() + 5
    seen: list[tuple[str, object]] = []
    while not seen and time.monotonic() < until:
        seen = notes(list(collector.sample()))
    assert seen == [("process_continued", sleeper.pid)]


def test_an_end_and_a_restart_are_noted(sleeper: subprocess.Popen[bytes]) -> None:
    tree = Tree(described(sleeper.pid, "engine"))
    collector = ServerProcesses(tree, "http://127.0.0.1:9")
    collector.open()
    collector.sample()
    tree.processes.clear()
    assert notes(list(collector.sample())) == [("process_ended", sleeper.pid)]
    with pytest.raises(CollectorError, match="The server has ended"):
        collector.sample()
    tree.processes.append(described(os.getpid(), "engine"))
    messages = list(collector.sample())
    assert notes(messages) == [("pid_changed", os.getpid())]
    assert next(m for m in messages if isinstance(m, Note)).data["before"] == sleeper.pid


def test_a_pid_that_is_used_again_is_not_read_as_the_old_process() -> None:
    other = ServerProcess(os.getpid(), "server", "gone", False, 1)
    collector = ServerProcesses(Tree(other), "http://127.0.0.1:9")
    collector.open()
    with pytest.raises(CollectorError):
        collector.sample()


def proc_with(folder: Path, cgroup: str, mounts: str) -> Path:
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "7").mkdir()
    (proc / "7/cgroup").write_text(cgroup)
    (proc / "self/mountinfo").write_text(mounts.replace("ROOT", str(folder)))
    (proc / "stat").write_text("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2 3\n")
    return proc


V2 = "30 24 0:26 / ROOT/cg rw - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 / ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 31 0:30 / ROOT/mem rw - cgroup cgroup rw,memory\n"


def test_throttling_of_version_2_counts_the_parents_too(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/pod/box\n", V2)
    (tmp_path / "cg/pod/box").mkdir(parents=True)
    (tmp_path / "cg/cpu.stat").write_text("usage_usec 9\n")
    (tmp_path / "cg/pod/cpu.stat").write_text("usage_usec 9\nnr_throttled 3\nthrottled_usec 1500000\n")
    (tmp_path / "cg/pod/box/cpu.stat").write_text("usage_usec 9\nthrottled_usec 250000\n")
    found = places(7, proc)
    assert [place.version for place in found] == [2]
    assert throttled_seconds(found[0]) == pytest.approx(1.75)


def test_throttling_of_version_1_is_in_nanoseconds(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "4:memory:/box\n3:cpuacct,cpu:/box\n0::/\n", V1)
    (tmp_path / "cpu/box").mkdir(parents=True)
    (tmp_path / "cpu/box/cpu.stat").write_text("nr_periods 4\nnr_throttled 2\nthrottled_time 2500000000\n")
    found = places(7, proc)
    assert [place.version for place in found] == [1]
    assert throttled_seconds(found[0]) == pytest.approx(2.5)


def test_a_path_that_leads_out_of_the_container_stays_inside(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/../../other\n", V2)
    (tmp_path / "cg").mkdir()
    (tmp_path / "cg/cpu.stat").write_text("throttled_usec 7000000\n")
    assert throttled_seconds(places(7, proc)[0]) == pytest.approx(7.0)


def test_no_quota_is_said_and_not_zero(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/\n", V2)
    (tmp_path / "cg").mkdir()
    (tmp_path / "cg/cpu.stat").write_text("usage_usec 9\n")
    collector = Cgroup(Tree(ServerProcess(7, "server", "x", False, 1)), "http://127.0.0.1:8000", proc=proc)
    collector.open()
    messages = list(collector.sample())
    infos = {m.source: m for m in messages if isinstance(m, SourceInfo)}
    assert "no CPU quota" in infos["cgroup/http://127.0.0.1:8000"].unsupported["host.throttled"]
    assert "CONFIG_PSI" in infos["host"].unsupported["host.pressure"]
    assert "host.throttled" not in values(messages)


def test_the_host_s_share_and_pressure(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/\n", V2)
    (proc / "pressure").mkdir()
    (proc / "pressure/cpu").write_text("some avg10=1.00 avg60=0.5 avg300=0.1 total=2500000\nfull avg10=0 total=0\n")
    collector = Cgroup(Tree(), proc=proc)
    collector.open()
    assert "host.busy" not in values(list(collector.sample())), "a share needs two readings some time apart"
    (proc / "stat").write_text("cpu  160 0 70 900 40 5 5 20 0 0\n")
    found = values(list(collector.sample()))
    assert found["host.busy"] == pytest.approx(80 / 200)
    assert found["host.pressure{resource=cpu}"] == pytest.approx(2.5)


def test_of_several_servers_only_one_speaks_for_the_host(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/\n", V2)
    collector = Cgroup(Tree(), "http://127.0.0.1:8001", host=False, proc=proc)
    collector.open()
    assert {m.source for m in collector.sample() if isinstance(m, SourceInfo)} == {"cgroup/http://127.0.0.1:8001"}
