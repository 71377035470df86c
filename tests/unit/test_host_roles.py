"""Roles and critical threads, from process tables as the engines make them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gaptop_collectors.host import roots
from gaptop_collectors.host.proctable import Row
from gaptop_collectors.host.roles import critical_tid
from gaptop_collectors.target import ServerProcess

TRACKER = "python3 -c|from multiprocessing.resource_tracker import main;main(12)"
SPAWNED = "python3 -c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)|--multiprocessing-fork"
POOL = "/usr/bin/python3 -m mpi4py.futures.server"

Table = Mapping[int, tuple[int, str, str]]
"""pid: (parent, command line, expected role). Behind the first ``|`` each ``|`` parts words, before it each space."""

TREES: dict[str, Table] = {
    "vllm one GPU": {
        100: (1, "/v/bin/python3 /v/bin/vllm serve m", "api"),
        101: (100, TRACKER, "other"),
        102: (100, "VLLM::EngineCore", "engine"),
        103: (102, "/usr/lib/ptxas --gpu-name sm_90", "other"),
    },
    "vllm tensor parallel": {
        100: (1, "/v/bin/python3 /v/bin/vllm serve m -tp 2", "api"),
        102: (100, "VLLM::EngineCore", "engine"),
        103: (102, "VLLM::Worker_TP0", "worker"),
        104: (102, "VLLM::Worker_TP1", "worker"),
    },
    "vllm two API servers, data parallel": {
        100: (1, "/v/bin/python3 /v/bin/vllm serve m -dp 2", "other"),
        101: (100, "VLLM::DPCoordinator", "other"),
        102: (100, "VLLM::EngineCore_DP0", "engine"),
        103: (100, "VLLM::EngineCore_DP1", "engine"),
        104: (102, "VLLM::Worker_DP0", "worker"),
        105: (103, "VLLM::Worker_DP1", "worker"),
        106: (100, "VLLM::APIServer_0", "api"),
        107: (100, "VLLM::APIServer_1", "api"),
    },
    "vllm before 0.10, forked": {
        100: (1, "/v/bin/python3 /v/bin/vllm serve m", "api"),
        101: (100, TRACKER, "other"),
        102: (100, "/v/bin/python3 /v/bin/vllm serve m", "engine"),
        103: (102, "/v/bin/python3 /v/bin/vllm serve m", "worker"),
        104: (102, TRACKER, "other"),
    },
    "vllm before 0.10, spawned": {
        100: (1, "python3 -m vllm.entrypoints.openai.api_server --model m", "api"),
        102: (100, SPAWNED, "engine"),
        103: (102, SPAWNED, "worker"),
        104: (102, SPAWNED, "worker"),
    },
    "vllm before 0.10 with two children that nothing tells apart": {
        100: (1, "/v/bin/python3 /v/bin/vllm serve m", "server"),
        102: (100, SPAWNED, "other"),
        103: (100, SPAWNED, "other"),
    },
    "vllm V0 in one process with a worker beside": {
        100: (1, "/v/bin/python3 /v/bin/vllm serve m --disable-frontend-multiprocessing", "server"),
        102: (100, SPAWNED, "other"),
    },
    "llama-server": {100: (1, "/opt/llama-server -m a.gguf", "server")},
    "sglang one GPU": {
        100: (1, "python3 -m sglang.launch_server --model-path q", "api"),
        101: (100, TRACKER, "other"),
        102: (100, "sglang::scheduler", "engine"),
        103: (100, "sglang::detokenizer", "api"),
    },
    "sglang tensor parallel": {
        100: (1, "python3 -m sglang.launch_server --model-path q --tp 2", "api"),
        102: (100, "sglang::scheduler_TP1", "worker"),
        103: (100, "sglang::scheduler_TP0", "engine"),
        104: (100, "sglang::detokenizer", "api"),
    },
    "sglang data parallel attention, several front ends": {
        100: (1, "/v/bin/python /v/bin/sglang serve q", "api"),
        101: (100, "sglang::data_parallel_controller", "api"),
        102: (101, "sglang::scheduler_DP0_PP0_ATTN_CP0_MOE_DP0_TP0_EP0", "engine"),
        103: (101, "sglang::scheduler_DP0_PP0_ATTN_CP0_MOE_DP0_TP1_EP1", "worker"),
        104: (101, "sglang::scheduler_DP1_PP0_ATTN_CP0_MOE_DP0_TP2_EP2", "engine"),
        105: (101, "sglang::scheduler_DP1_PP0_ATTN_CP0_MOE_DP0_TP3_EP3", "worker"),
        106: (100, "sglang::detokenizer_router", "api"),
        107: (100, "sglang::tokenizer_worker:107", "api"),
    },
    "tgi": {
        100: (1, "text-generation-launcher --model-id m", "other"),
        101: (100, "/v/bin/python3 /v/bin/text-generation-server serve m --uds-path /tmp/t", "worker"),
        102: (100, "/v/bin/python3 /v/bin/text-generation-server serve m --uds-path /tmp/t", "worker"),
        103: (100, "text-generation-router serve --port 80", "api"),
        104: (100, "/v/bin/python3 /v/bin/text-generation-server download-weights m", "other"),
    },
    "trtllm with MPI processes": {
        100: (1, "/usr/bin/python3 /usr/local/bin/trtllm-serve m --tp_size 2", "api"),
        101: (100, "prte --prefix /opt", "other"),
        102: (101, POOL, "worker"),
        103: (101, POOL, "worker"),
    },
    "trtllm in one process": {100: (1, "/usr/bin/python3 /usr/local/bin/trtllm-serve serve m", "server")},
    "trtllm's front end of disaggregated servers": {
        100: (1, "/usr/bin/python3 /usr/local/bin/trtllm-serve disaggregated -c x.yaml", "api"),
    },
    "lmdeploy": {
        100: (1, "/v/bin/python /v/bin/lmdeploy serve api_server m", "server"),
        101: (100, TRACKER, "other"),
        102: (100, SPAWNED, "other"),
    },
    "lmdeploy with a child for one device": {
        100: (1, "/v/bin/python /v/bin/lmdeploy serve api_server m --tp 1", "server"),
        101: (100, SPAWNED, "other"),
    },
    "lmdeploy with workers below its front end": {
        100: (1, "/v/bin/python /v/bin/lmdeploy serve api_server m --tp=2", "server"),
        101: (100, SPAWNED, "worker"),
        102: (100, SPAWNED, "worker"),
    },
    "lmdeploy with its engine in a process and two devices": {
        100: (1, "/v/bin/python /v/bin/lmdeploy serve api_server m --tp 2", "api"),
        101: (100, "ZMQMPEngine=" + SPAWNED, "engine"),
        102: (101, SPAWNED, "worker"),
        103: (101, SPAWNED, "worker"),
        104: (101, TRACKER, "other"),
    },
    "ollama": {
        100: (1, "/usr/bin/ollama serve", "api"),
        101: (100, "/usr/bin/ollama runner --model x --port 1", "other"),
    },
    "llama-cpp-python": {100: (1, "python3 -m llama_cpp.server --model m", "other")},
    "mistral.rs": {100: (1, "mistralrs-server --port 1235 plain", "other")},
    "somebody's own program with vLLM in it": {
        100: (1, "python3 /srv/mine.py", "api"),
        101: (100, "VLLM::EngineCore", "engine"),
    },
    "somebody's own program with SGLang in it": {
        100: (1, "python3 /srv/mine.py", "api"),
        101: (100, "sglang::scheduler_TP0", "engine"),
        102: (100, "sglang::detokenizer", "api"),
    },
}


_ARGVS: dict[int, tuple[str, ...]] = {}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[int, Row]:
    """Rows of a made-up host; fill it with :func:`put`."""
    _ARGVS.clear()
    monkeypatch.setattr(roots, "read_argv", lambda pid: _ARGVS.get(pid, ()))
    return {1: Row(1, 0, "init", 1)}


def put(rows: dict[int, Row], tree: Table, shift: int = 0) -> None:
    for pid, (parent, line, _) in tree.items():
        renamed, equals, rest = line.partition("=") if line.startswith("ZMQ") else ("", "", line)
        head, *tail = rest.split("|")
        _ARGVS[pid + shift] = (*head.split(), *tail)
        comm = renamed or head.split()[0].rpartition("/")[2][:15]
        rows[pid + shift] = Row(pid + shift, parent if parent == 1 else parent + shift, comm, pid)


@pytest.mark.parametrize("name", TREES)
def test_every_process_has_its_role(name: str, table: dict[int, Row]) -> None:
    put(table, TREES[name])
    (root,) = roots.find_roots(table)
    assert root.pid == 100
    found = roots.processes_of(table, root.pid, root.engine)
    assert found[0].pid == 100
    assert {process.pid: process.role for process in found} == {pid: row[2] for pid, row in TREES[name].items()}
    for process in found:
        assert process.python is _ARGVS[process.pid][0].rpartition("/")[2].startswith(("python", "VLLM::", "sglang::"))
        assert roots.root_of(table, [root], process.pid) == root


def test_trees_beside_each_other_stay_apart(table: dict[int, Row]) -> None:
    for number, tree in enumerate(TREES.values()):
        put(table, tree, 1000 * number)
    found = roots.find_roots(table)
    assert [root.pid for root in found] == [1000 * number + 100 for number in range(len(TREES))]
    for number, (root, tree) in enumerate(zip(found, TREES.values(), strict=True)):
        roles = [process.role for process in roots.processes_of(table, root.pid, root.engine)]
        assert sorted(roles) == sorted(row[2] for row in tree.values()), number


def test_a_server_that_is_the_containers_first_process(table: dict[int, Row]) -> None:
    line = "/v/bin/python3 /v/bin/vllm serve m"
    put(table, {1: (0, line, "api"), 102: (1, line, "engine"), 103: (102, line, "worker")})
    (root,) = roots.find_roots(table)
    assert root.pid == 1
    assert [process.role for process in roots.processes_of(table, 1, "vllm")] == ["api", "engine", "worker"]
    assert roots.root_of(table, [root], 103) == root


def test_names_are_titles_or_what_the_kernel_calls_it(table: dict[int, Row]) -> None:
    put(table, TREES["tgi"])
    assert [process.name for process in roots.processes_of(table, 100, "tgi")] == [
        "text-generation",
        "python3",
        "python3",
        "text-generation",
        "python3",
    ]
    put(table, TREES["sglang tensor parallel"], 1000)
    assert roots.processes_of(table, 1100, "sglang")[1].name == "sglang::scheduler_TP1"


def test_a_process_that_has_gone_is_left_out(table: dict[int, Row]) -> None:
    assert roots.processes_of(table, 4711, "vllm") == ()


@pytest.mark.parametrize(
    ("threads", "critical"),
    [
        ({7: "MainThread", 9: "Thread-1 (process_input_sockets)"}, 7),
        ({7: "MainThread", 12: "Thread-4 (_event_loop_wrapper)", 9: "Thread-1 (await_response_task)"}, 12),
        ({}, 7),
    ],
)
def test_the_thread_that_the_device_waits_for(threads: dict[int, str], critical: int) -> None:
    assert critical_tid(ServerProcess(7, "worker", "python3", True, 1), threads) == critical
