"""Discovery, the probe's small GETs and the process tree on real processes that only play a server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from gaptop_collectors.discovery import discover
from gaptop_collectors.discovery_probe import Identity, NoAnswer, identify
from gaptop_collectors.host.proctable import listeners, read_argv, read_row, scan
from gaptop_collectors.host.tree import ProcessTree
from gaptop_collectors.target import HttpOptions, Server
from tests.fakes.endpoint import Site

PLAY = """
import http.server, json, subprocess, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        models = {"data": [{"id": "tiny", "owned_by": "vllm"}]}
        body = {"/v1/models": models, "/version": {"version": "9.9"}}.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
    def log_message(self, *args):
        pass
core = ["VLLM::EngineCore", "-c", "import sys; sys.stdin.read()"]
child = subprocess.Popen(core, executable=sys.executable, stdin=-1)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answer).serve_forever()
"""


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def play(tmp_path: Path, port: int) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts a process whose command line is ``python …/vllm serve tiny``; all are ended afterwards."""
    script = tmp_path / "vllm"
    script.write_text(PLAY)
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        argv = [sys.executable, str(script), "serve", "tiny", "--port", str(port), "--max-num-seqs", "3"]
        process = subprocess.Popen(argv, start_new_session=True)
        started.append(process)
        wait_for(lambda: any(s.port == port for s in listeners()))
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)


def test_found_by_command_line_url_and_pid(play: Callable[[], subprocess.Popen[bytes]], port: int) -> None:
    process = play()
    url = f"http://127.0.0.1:{port}"
    (found,) = [s for s in discover(None, None, HttpOptions()) if s.url == url]
    assert (found.engine, found.version, found.model, found.sequence_cap) == ("vllm", "9.9", "tiny", 3)
    assert [(p.pid == process.pid, p.role, p.python) for p in found.processes] == [
        (True, "api", True),
        (False, "engine", True),
    ]
    assert found.processes[1].name == "VLLM::EngineCore"
    row = read_row(process.pid)
    assert row is not None
    assert found.processes[0].started == row.started
    assert discover(url, None, HttpOptions()) == [found]
    assert discover(None, found.processes[1].pid, HttpOptions()) == [found]


def test_the_tree_follows_a_restart(play: Callable[[], subprocess.Popen[bytes]], port: int) -> None:
    first = play()
    (server,) = discover(None, first.pid, HttpOptions())
    tree = ProcessTree(server)
    assert [p.role for p in tree.current()] == ["api", "engine"]
    assert tree.why_empty() == ""
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(5)
    tree._next = 0.0
    assert tree.current() == ()
    assert f"process {first.pid} has ended" in tree.why_empty()
    second = play()
    tree._next = tree._searched = 0.0
    assert [p.role for p in tree.current()] == ["api", "engine"]
    assert tree.current()[0].pid == second.pid


def test_the_tree_reads_at_most_once_a_second(play: Callable[[], subprocess.Popen[bytes]]) -> None:
    process = play()
    (server,) = discover(None, process.pid, HttpOptions())
    tree = ProcessTree(server)
    assert tree.current() is tree.current()


def test_a_tree_without_processes_says_why() -> None:
    remote = ProcessTree(Server("http://192.0.2.1:8000", "vllm"))
    assert "run gaptop on the server's host" in remote.why_empty()
    assert ProcessTree(Server("http://192.0.2.1:8000", "vllm", says="Because.")).why_empty() == "Because."


def test_a_given_way_to_find_it_again(play: Callable[[], subprocess.Popen[bytes]], port: int) -> None:
    process = play()
    tree = ProcessTree(Server("http://192.0.2.1:8000", "vllm"), rediscover=lambda: process.pid)
    assert [p.role for p in tree.current()] == ["api", "engine"]


def test_discovery_stays_light() -> None:
    check = (
        "import sys, gaptop_collectors.discovery; print(*{'aiohttp', 'prometheus_client', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_our_own_rows() -> None:
    rows = scan()
    assert rows[os.getpid()].ppid == os.getppid()
    assert read_argv(os.getpid())
    assert read_argv(2**22 + 1) == ()
    assert read_row(2**22 + 1) is None


VLLM_MODELS = '{"data":[{"id":"m\\u001b[1m","owned_by":"vllm"}]}'


def test_identify() -> None:
    with Site({"/v1/models": VLLM_MODELS, "/version": '{"version":"0.33"}'}) as site:
        assert identify(site.url, HttpOptions()) == Identity("vllm", "0.33", "m␛[1m")
        assert site.seen == ["/v1/models", "/version"]
    llama = '{"data":[{"id":"x","owned_by":"llamacpp"}]}'
    props = '{"build_info":"b7","model_path":"/secret/place/mid.gguf"}'
    with Site({"/v1/models": llama, "/props": props}) as site:
        assert identify(site.url, HttpOptions()) == Identity("llamacpp", "b7", "mid.gguf")
    with Site({"/metrics": "# TYPE vllm:x gauge\nvllm:x 1\n"}) as site:
        assert identify(site.url, HttpOptions()) == Identity("vllm")
    with Site({"/v1/models": "[" * 100_000, "/metrics": "<html>"}) as site:
        assert identify(site.url, HttpOptions()) == Identity("unknown")


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, "wrong", "--token-file"),
        (403, "wrong", "--token-file"),
        (302, "wrong", "redirects"),
        (503, "loading", "loading"),
    ],
)
def test_identify_refused(status: int, kind: str, words: str) -> None:
    with Site({}) as site:
        site.routes["/v1/models"] = lambda request: web.Response(status=status, headers={"Location": "http://other/"})
        with pytest.raises(NoAnswer, match=words) as caught:
            identify(site.url, HttpOptions())
    assert caught.value.kind == kind


def test_identify_without_an_answer(port: int) -> None:
    with pytest.raises(NoAnswer, match="nothing listening"):
        identify(f"http://127.0.0.1:{port}", HttpOptions())
    with socket.create_server(("127.0.0.1", port)):
        begun = time.monotonic()
        with pytest.raises(NoAnswer, match="does not answer") as caught:
            identify(f"http://127.0.0.1:{port}", HttpOptions())
        assert time.monotonic() - begun < 1.5
    assert caught.value.kind == "silent"
