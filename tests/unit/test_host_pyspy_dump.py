"""One look at the stacks: py-spy's answer joined with /proc, and the command around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gaptop.cli import stacks as command
from gaptop.cli.target import Target
from gaptop_collectors.collector import CollectorError, Frame
from gaptop_collectors.host import pyspy_dump
from gaptop_collectors.host.pyspy_dump import ThreadStack, Wait
from gaptop_collectors.target import Server, ServerProcess


def answer(*tids: int | None, **more: Any) -> bytes:
    frame = {"name": "step", "filename": "/x/core.py", "line": 3, "is_shim_entry": True, "module": None}
    one = {"thread_name": "Main\x1b[31m", "active": True, "owns_gil": False, "frames": [frame], **more}
    return json.dumps([{**one, "os_thread_id": tid} for tid in tids]).encode()


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    files = {
        71: ("S", "futex_do_wait", "202 0x7f00 0x80 0x0"),
        72: ("R", "0", "running"),
        73: ("S", "ep_poll", "232 0x5 0x1"),
        74: ("S", "0", "202 0x7f00 0x80 0x0"),
        75: ("S", "0", ""),
    }
    for tid, (state, channel, call) in files.items():
        task = tmp_path / "7/task" / str(tid)
        task.mkdir(parents=True)
        (task / "stat").write_text(f"{tid} (a) b) {state} 1 2 3")
        (task / "wchan").write_text(channel)
        if call:
            (task / "syscall").write_text(call)
    return tmp_path


def test_each_thread_is_told_with_what_it_waits_for(proc: Path) -> None:
    threads = pyspy_dump.parse(answer(71, 72, 73, 74, 75, 76, None), 7, proc)
    assert [thread.wait for thread in threads] == [
        Wait("S", "futex", 0x7F00),
        Wait("R"),
        Wait("S", "poll"),
        Wait("S", "futex", 0x7F00),  # a kernel that hides the channel, but not the call
        Wait("S", "unknown"),
        Wait(),
        Wait(),
    ]
    assert list(threads[0].frames) == [Frame("step", "/x/core.py", 3)]


@pytest.mark.parametrize("body", [b"", b"{", b"[3]", b'[{"os_thread_id": 7}]', b'{"a": 1}'])
def test_an_answer_that_cannot_be_read_is_said_to_be_one(body: bytes) -> None:
    with pytest.raises(CollectorError, match="cannot be read"):
        pyspy_dump.parse(body, 7)


def test_only_native_stops_the_process() -> None:
    assert pyspy_dump.dump_arguments(7, native=False) == ["dump", "--pid", "7", "--json", "--nonblocking"]
    assert pyspy_dump.dump_arguments(7, native=True) == ["dump", "--pid", "7", "--json", "--native"]


FRAMES = (Frame("schedule\x1b[2J", "/x/core.py", 3), Frame("run", "/x/core.py", 1))
LOOKED = [
    ThreadStack(71, "MainThread", True, True, FRAMES, Wait("R")),
    ThreadStack(72, "evil\x1b[31m\n", False, False, FRAMES[1:], Wait("S", "futex", 0x7F00)),
    ThreadStack(73, "other", False, False, (), Wait("S", "futex", 0x7F00)),
    ThreadStack(None, "", False, False, (Frame("x", "y", 0),), Wait()),
]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    asked: list[tuple[int, bool]] = []

    def dump(pid: int, *, native: bool = False) -> list[ThreadStack]:
        asked.append((pid, native))
        return LOOKED

    monkeypatch.setattr(pyspy_dump, "dump", dump)
    monkeypatch.setattr(command, "_processes", lambda target: [(70, "engine", "VLLM\x1b[0m")])
    return asked


def test_the_text_tells_holder_waits_and_locks_and_obeys_no_escape(looks: list[tuple[int, bool]]) -> None:
    result = CliRunner().invoke(command.stacks, ["70", "--locks"])
    assert result.exit_code == 0, result.output
    assert looks == [(70, False)]
    lines = result.stdout.splitlines()
    assert lines[0] == "process 70 (VLLM␛[0m, engine), 4 Python threads, not stopped"
    assert lines[1] == "the GIL is held by thread 71 MainThread"
    assert "thread 71 MainThread: holds the GIL, runs or wants a core" in lines
    assert "    schedule␛[2J (/x/core.py:3)" in lines
    assert "thread 72 evil␛[31m␊: waits for a lock or the GIL" in lines
    assert lines[-1] == "    0x7f00: thread 72 evil␛[31m␊, 73 other"
    assert "\x1b" not in result.stdout


def test_native_frames_tell_a_lock_from_the_gil() -> None:
    def doing(function: str) -> str:
        return command._doing(
            {"waits_on": "futex", "state": "S", "owns_gil": False, "frames": [{"function": function}]}
        )

    assert doing("PyEval_RestoreThread") == "waits for the GIL"
    assert doing("PyThread_acquire_lock_timed") == "waits for a lock"
    assert doing("forward") == "waits for a lock or the GIL"


def test_the_json_has_null_for_what_is_not_known(looks: list[tuple[int, bool]]) -> None:
    result = CliRunner().invoke(command.stacks, ["70", "--json"])
    (process,) = json.loads(result.stdout)["processes"]
    assert process["gil_holder"] == 71
    assert process["locks"] == [{"address": "0x7f00", "waiting": [72, 73]}]
    assert process["threads"][3]["tid"] is None
    assert process["threads"][3]["state"] is None
    assert process["threads"][1]["waits_on"] == "futex"
    assert "\x1b" not in result.stdout


def test_nothing_is_stopped_unless_somebody_agrees(
    looks: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = CliRunner().invoke(command.stacks, ["70", "--native"])
    assert refused.exit_code == 2
    assert "stops process 70" in refused.output
    assert "--yes" in refused.output
    monkeypatch.setattr(command, "_asked_at_terminal", lambda: True)
    declined = CliRunner().invoke(command.stacks, ["70", "--native"], input="n\n")
    assert declined.exit_code == 0
    assert "nothing was looked at" in declined.output
    assert looks == []
    CliRunner().invoke(command.stacks, ["70", "--native"], input="y\n")
    CliRunner().invoke(command.stacks, ["70", "--native", "--yes"])
    assert looks == [(70, True), (70, True)]


def test_one_process_that_cannot_be_read_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, looks: list[tuple[int, bool]]
) -> None:
    def dump(pid: int, *, native: bool = False) -> list[ThreadStack]:
        if pid == 70:
            raise CollectorError("Process 70 has ended.")
        return LOOKED

    monkeypatch.setattr(pyspy_dump, "dump", dump)
    monkeypatch.setattr(command, "_processes", lambda target: [(70, "engine", "a"), (71, "api", "b")])
    result = CliRunner().invoke(command.stacks, ["http://127.0.0.1:1"])
    assert result.exit_code == 0
    assert "process 71" in result.stdout
    assert "Process 70 has ended." in result.stderr
    monkeypatch.setattr(command, "_processes", lambda target: [(70, "engine", "a")])
    alone = CliRunner().invoke(command.stacks, ["70"])
    assert alone.exit_code == 3
    assert "Process 70 has ended." in alone.stderr


def test_a_pid_that_is_nobody_is_said_to_be() -> None:
    result = CliRunner().invoke(command.stacks, ["999999999"])
    assert result.exit_code == 3
    assert "no process has the PID 999999999" in result.output


def server(*processes: ServerProcess, says: str = "") -> Server:
    return Server("http://127.0.0.1:8000", "vllm", processes=processes, says=says)


def test_of_a_server_the_python_processes_are_looked_at_the_critical_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    api, engine = ServerProcess(1, "api", "vllm", True, 1), ServerProcess(2, "engine", "EngineCore", True, 1)
    compiler, helper = ServerProcess(3, "other", "ptxas", False, 1), ServerProcess(4, "other", "x", True, 1)
    monkeypatch.setattr(command, "choose", lambda target: (server(api, compiler, helper, engine),))
    assert command._processes(Target()) == [(2, "engine", "EngineCore"), (1, "api", "vllm")]


def test_a_server_without_python_or_without_processes_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    native = ServerProcess(3, "server", "llama-server", False, 1)
    monkeypatch.setattr(command, "choose", lambda target: (server(native),))
    result = CliRunner().invoke(command.stacks, [])
    assert result.exit_code == 3
    assert "is Python, so there are no Python stacks" in result.output
    monkeypatch.setattr(command, "choose", lambda target: (server(says="It runs on another host."),))
    assert "It runs on another host." in CliRunner().invoke(command.stacks, []).output
