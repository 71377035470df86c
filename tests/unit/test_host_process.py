"""The processes as a whole: counters, compilers, connections, and what is noted when they come and go."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Message, Note, SourceInfo
from gaptop_collectors.host.process import ServerProcesses
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


def test_connections_that_the_server_does_not_look_at_are_told(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    table = TcpTable(port)
    here = os.getpid()

    def client(said: bytes) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", port))
        made.sendall(said)
        return made

    # These are our own, which are left out: as somebody else's they must be another process's.
    script = (
        "import socket, sys; made = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(3)];"
        "made[0].sendall(b'GET'); made[1].sendall(b'GET'); print('there', flush=True); sys.stdin.read()"
    )
    with (
        client(b"GET"),
        subprocess.Popen(
            [sys.executable, "-c", script, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
    ):
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        waiting = table.count(here)
        accepted = [listener.accept()[0] for _ in range(4)]
        taken = table.count(here)
        for server in accepted:
            server.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                server.recv(100)
        read = table.count(here)
        for server in accepted:
            server.close()
        assert other.stdin is not None
        other.stdin.close()
    assert (waiting.others, waiting.unaccepted, waiting.unread) == (3, 3, 0)
    assert (taken.others, taken.unaccepted, taken.unread) == (3, 0, 2)
    assert (read.others, read.unaccepted, read.unread) == (3, 0, 0)


def test_children_that_have_ended_leave_their_time(listener: socket.socket) -> None:
    collector = ServerProcesses(Tree(described(os.getpid())), f"http://127.0.0.1:{listener.getsockname()[1]}")
    collector.open()
    key = f"host.children_seconds{{pid={os.getpid()}}}"
    before = values(list(collector.sample()))[key]
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True, timeout=60)
    after = values(list(collector.sample()))[key]
    assert before is not None
    assert after is not None
    assert after - before >= 0.28


def test_threads_and_allowed_cores_are_the_process_s_own(listener: socket.socket) -> None:
    collector = ServerProcesses(Tree(described(os.getpid())), f"http://127.0.0.1:{listener.getsockname()[1]}")
    collector.open()
    found = values(list(collector.sample()))
    assert found[f"host.threads{{pid={os.getpid()}}}"] == len(os.listdir("/proc/self/task"))
    assert found[f"host.allowed_cores{{pid={os.getpid()}}}"] == len(os.sched_getaffinity(0))
