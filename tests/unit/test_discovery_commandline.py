"""Command lines as they really look; what merely mentions a server is none."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from gaptop_collectors.commandline import docker_proxy, is_python, recognise, titled


def facts(text: str) -> dict[str, Any] | None:
    found = recognise(shlex.split(text))
    if found is None:
        return None
    return {name: getattr(found, name) for name in ("engine", "port", "host", "model", "sequence_cap", "tls")}


def said(engine: str, port: int, **more: Any) -> dict[str, Any]:
    return {"engine": engine, "port": port, "host": None, "model": None, "sequence_cap": None, "tls": False, **more}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/v/bin/python3 /v/bin/vllm serve org/m", said("vllm", 8000, model="org/m")),
        (
            "/v/bin/python3 /v/bin/vllm serve m --host 0.0.0.0 --port 8001 --max-num-seqs 2",
            said("vllm", 8001, model="m", host="0.0.0.0", sequence_cap=2),
        ),
        ("vllm serve m --max_num_seqs=64 --served-model-name a b", said("vllm", 8000, model="a", sequence_cap=64)),
        ("python -u -m vllm.entrypoints.openai.api_server --model m --port=9", said("vllm", 9, model="m")),
        ("python3.12 -X dev -m vllm.entrypoints.cli.main serve m", said("vllm", 8000, model="m")),
        ("python /s/vllm/entrypoints/openai/api_server.py --ssl-keyfile k", said("vllm", 8000, tls=True)),
        (
            "/opt/llama-server -m /x/mid.gguf -np 4 --port 8002 --host ::1",
            said("llamacpp", 8002, model="mid.gguf", sequence_cap=4, host="::1"),
        ),
        ("llama-server -m a.gguf -a nice --parallel -1", said("llamacpp", 8080, model="nice")),
        ("python -m llama_cpp.server --model m", said("llama_cpp_python", 8000, model="m")),
        ("python3 -m sglang.launch_server --model-path q --port 30001", said("sglang", 30001, model="q")),
        ("text-generation-launcher --model-id m -p 80", said("tgi", 3000)),
        ("/usr/bin/ollama serve", said("ollama", 11434)),
        ("python /v/bin/lmdeploy serve api_server m", said("lmdeploy", 23333)),
        ("python /v/bin/trtllm-serve m", said("trtllm", 8000)),
        ("mistralrs-server --port 1235 plain", said("mistralrs", 1235)),
    ],
)
def test_servers(text: str, expected: dict[str, Any]) -> None:
    assert facts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "bash -c 'vllm serve m'",
        "sudo vllm serve m",
        "vim vllm serve",
        "grep llama-server",
        "docker run vllm/vllm-openai vllm serve m",
        "vllm bench serve",
        "python /v/bin/vllm --version",
        "python -c 'import vllm.entrypoints'",
        "python -m vllm.entrypoints.cli.main bench",
        "python -m pytest tests/test_vllm.py",
        "ollama run x",
        "python",
        "''",
    ],
)
def test_what_only_mentions_one(text: str) -> None:
    assert facts(text) is None
    assert recognise(()) is None


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("VLLM::EngineCore", "engine"),
        ("VLLM::EngineCore_DP1", "engine"),
        ("mine::Worker_TP0", "worker"),
        ("VLLM::APIServer_1", "api"),
        ("VLLM::DPCoordinator", "other"),
        ("VLLM::EngineCoreX", None),
        ("sglang::scheduler", "engine"),
        ("sglang::scheduler_DP0_TP1_EP1", "engine"),
        ("sglang::detokenizer", "api"),
        ("sglang::detokenizer_router", "api"),
        ("sglang::tokenizer_worker:4711", "api"),
        ("sglang::router", None),
        ("python", None),
    ],
)
def test_renamed_processes(title: str, role: str | None) -> None:
    found = titled([title])
    assert (found[1] if found else None) == role
    assert found is None or found[0] == ("sglang" if title.startswith("sglang") else "vllm")
    assert is_python([title]) is (role is not None or title == "python")


@pytest.mark.parametrize(
    ("flags", "shared"),
    [
        ("", True),
        ("-np 4", False),
        ("-np 4 -kvu", True),
        ("--parallel 4 --kv-unified", True),
        ("--no-kv-unified", False),
    ],
)
def test_one_cache_for_all_slots(flags: str, shared: bool) -> None:
    found = recognise(shlex.split(f"llama-server -m a.gguf {flags}"))
    assert found is not None
    assert found.one_cache is shared


def test_no_secret_is_kept() -> None:
    found = recognise(shlex.split("vllm serve m --api-key sk-secret --hf-token hf_secret"))
    assert "secret" not in repr(found)


def test_docker_proxy() -> None:
    line = "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 9000 -container-port 8000"
    assert docker_proxy(line.split()) == (9000, 8000)
    assert docker_proxy(line.replace("tcp", "udp").split()) is None
    assert docker_proxy(["bash"]) is None
