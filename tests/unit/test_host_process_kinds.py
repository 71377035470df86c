"""Which helpers are compilers, which cores a process may use, and what hides processes from gaptop."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gaptop_collectors.host import proctable
from gaptop_collectors.host.compilers import Compilers, is_compiler
from gaptop_collectors.host.process_files import read_usage
from gaptop_collectors.host.process_place import Allowance, clock, read_allowance, shows_clocks
from gaptop_collectors.host.proctable import ProcessTable, Row, hidden_by, read_row
from gaptop_collectors.target import ServerProcess


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


def test_an_idle_compile_worker_compiles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "torch" / "_inductor" / "compile_worker"
    folder.mkdir(parents=True)
    (folder / "__main__.py").write_text(
        "import sys, time\nprint('up', flush=True)\nsys.stdin.readline()\nprint('busy', flush=True)\nwhile True: pass"
    )
    with subprocess.Popen(
        [sys.executable, str(folder / "__main__.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"up\n"
        usage = read_usage(worker.pid)
        assert usage is not None
        tree = [ServerProcess(worker.pid, "other", "python", True, usage.started)]
        compilers = Compilers()
        assert compilers.count(tree) == 0
        time.sleep(0.3)
        assert compilers.count(tree) == 0
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == b"busy\n"
        until = time.monotonic() + 30
        while not compilers.count(tree) and time.monotonic() < until:
            time.sleep(0.3)
        found = time.monotonic() < until
        worker.kill()
    assert found


STATUS = """Name:\t) R 1 (
State:\tR (running)
NSpid:\t4242\t17
Cpus_allowed:\tff,00000003
Cpus_allowed_list:\t0-1,32-39
"""


def test_affinity_and_the_container_s_own_pid_come_from_status(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_text(STATUS)
    assert read_allowance(7, tmp_path) == Allowance(10, 17)
    (tmp_path / "7/status").write_text("Name:\tx\nNSpid:\t7\n")
    assert read_allowance(7, tmp_path) == Allowance(None, None)
    with pytest.raises(OSError, match="No such file"):
        read_allowance(8, tmp_path)


def test_a_clock_that_is_not_told_is_missing(tmp_path: Path) -> None:
    assert not shows_clocks(tmp_path)
    folder = tmp_path / "cpu3/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_cur_freq").write_text("<unknown>\n")
    assert shows_clocks(tmp_path)
    assert clock(3, tmp_path) is None
    (folder / "scaling_cur_freq").write_text("1800000\n")
    assert clock(3, tmp_path) == (1.8e9, None)
    (folder / "cpuinfo_max_freq").write_text("3900000\n")
    assert clock(3, tmp_path) == (1.8e9, 3.9e9)
    assert clock(4, tmp_path) is None


PROC_MOUNT = "22 27 0:21 / /proc rw,nosuid shared:12 - proc proc rw"


@pytest.mark.parametrize("option", [",hidepid=2", ",hidepid=1", ",gid=4,hidepid=invisible"])
def test_hidepid_is_named_with_its_remedy(option: str) -> None:
    assert "run gaptop as root" in hidden_by(PROC_MOUNT + option, "pid:[4026531836]")


def test_a_pid_namespace_of_our_own_is_named_with_its_remedy() -> None:
    assert hidden_by(PROC_MOUNT, "pid:[4026531836]") == ""
    assert hidden_by(PROC_MOUNT + ",hidepid=0", "pid:[4026531836]") == ""
    assert "--pid=host" in hidden_by(PROC_MOUNT, "pid:[4026532201]")


def test_a_process_table_reads_anew_only_what_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(pid: int) -> Row | None:
        read.append(pid)
        return read_row(pid)

    monkeypatch.setattr(proctable, "read_row", counted)
    table = ProcessTable()
    first = table.scan({os.getpid()})
    assert os.getpid() in first
    read.clear()
    with subprocess.Popen(["sleep", "60"]) as born:
        second = table.scan({os.getpid()})
        assert second[born.pid].ppid == os.getpid()
        assert {os.getpid(), born.pid} <= set(read)
        assert len(read) < len(second)
        born.kill()
        born.wait()
    assert born.pid not in table.scan({os.getpid()})
    read.clear()
    for _ in range(32):
        table.scan(set())
    assert set(read) >= set(first) & set(table.scan(set())), "within 32 scans each is read once more"
