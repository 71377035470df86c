"""Discovery on made-up hosts: hidden sockets, containers, GPUs, strangers. Nothing unlikely may be asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gaptop_collectors import discovery
from gaptop_collectors.discovery import DiscoveryError, describe_choice, discover
from gaptop_collectors.discovery_probe import Identity, NoAnswer
from gaptop_collectors.host import roots
from gaptop_collectors.host.proctable import Listener, Row
from gaptop_collectors.target import HttpOptions, Server

OPTIONS = HttpOptions(headers={"X-Key": "k"})
VLLM, LLAMA = Identity("vllm", "0.32.0", "tiny"), Identity("llamacpp", "b1", "mid.gguf")


@dataclass
class Host:
    """A process table, its sockets, and what answers where; ``asked`` lists the URLs that were asked."""

    rows: dict[int, Row] = field(default_factory=dict)
    argvs: dict[int, tuple[str, ...]] = field(default_factory=dict)
    sockets: list[Listener] = field(default_factory=list)
    answers: dict[str, Identity | NoAnswer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def run(self, pid: int, command: str, parent: int = 1, comm: str = "x") -> None:
        self.rows[pid] = Row(pid, parent, comm, pid)
        self.argvs[pid] = tuple(command.split())

    def listen(self, port: int, pid: int | None, host: str = "127.0.0.1") -> None:
        self.sockets.append(Listener(host, port, pid))

    def identify(self, url: str, options: HttpOptions) -> Identity:
        self.asked.append(url)
        self.headers = dict(options.headers)
        answer = self.answers.get(url, NoAnswer("down", "has nothing listening"))
        if isinstance(answer, NoAnswer):
            raise answer
        return answer


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    for module in (discovery, roots):
        monkeypatch.setattr(module, "read_argv", lambda pid: made.argvs.get(pid, ()))
    monkeypatch.setattr(discovery, "scan", lambda: made.rows)
    monkeypatch.setattr(discovery, "listeners", lambda: made.sockets)
    monkeypatch.setattr(discovery, "identify", made.identify)
    monkeypatch.setattr(discovery, "is_local", lambda name: name in ("127.0.0.1", "::1", "me"))
    return made


def vllm_tree(host: Host, pid: int = 10, port: int = 8000) -> None:
    host.run(pid, f"/v/bin/python /v/bin/vllm serve tiny --port {port} --max-num-seqs 6")
    host.run(pid + 1, "/v/bin/python -c resource_tracker", pid)
    host.run(pid + 2, "VLLM::EngineCore", pid)
    host.run(pid + 3, "VLLM::Worker_TP0", pid + 2)
    host.listen(port, pid)
    host.listen(45000 + pid, pid + 3)
    host.answers[f"http://127.0.0.1:{port}"] = VLLM


def roles(server: Server) -> dict[int, str]:
    return {p.pid: p.role for p in server.processes}


def test_a_vllm_with_its_tree(host: Host) -> None:
    vllm_tree(host)
    host.run(50, "nginx")
    host.listen(80, 50)
    (server,) = discover(None, None, OPTIONS)
    assert (server.url, server.engine, server.version, server.model) == (
        "http://127.0.0.1:8000",
        "vllm",
        "0.32.0",
        "tiny",
    )
    assert roles(server) == {10: "api", 11: "other", 12: "engine", 13: "worker"}
    assert server.sequence_cap == 6
    assert server.says == ""
    assert all(p.python for p in server.processes)
    assert host.asked == ["http://127.0.0.1:8000"], "neither nginx nor the worker's own socket"
    assert host.headers == {"X-Key": "k"}


def test_several_api_servers(host: Host) -> None:
    host.run(10, "/v/bin/python /v/bin/vllm serve tiny --api-server-count 2")
    host.run(11, "VLLM::EngineCore", 10)
    host.run(12, "VLLM::APIServer_0", 10)
    host.run(13, "VLLM::APIServer_1", 10)
    host.listen(8000, 12)
    host.listen(8000, 13)
    host.answers["http://127.0.0.1:8000"] = VLLM
    (server,) = discover(None, None, OPTIONS)
    assert roles(server) == {10: "other", 11: "engine", 12: "api", 13: "api"}


def test_a_program_that_embeds_vllm(host: Host) -> None:
    host.run(10, "python3 my_app.py")
    host.run(11, "mine::EngineCore", 10)
    host.listen(9876, 10)
    host.answers["http://127.0.0.1:9876"] = VLLM
    (server,) = discover(None, None, OPTIONS)
    assert roles(server) == {10: "api", 11: "engine"}


@pytest.mark.parametrize(
    ("bound", "asked"), [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("::1", "[::1]"), ("10.0.0.5", "10.0.0.5")]
)
def test_where_it_is_bound_is_where_it_is_asked(host: Host, bound: str, asked: str) -> None:
    host.run(10, "llama-server -m m.gguf -np 4 --port 8002")
    host.listen(8002, 10, bound)
    host.answers[f"http://{asked}:8002"] = LLAMA
    (server,) = discover(None, None, OPTIONS)
    assert server.url == f"http://{asked}:8002"
    assert roles(server) == {10: "server"}
    assert (server.sequence_cap, server.processes[0].python) == (4, False)


def test_another_users_socket_shows_no_pid(host: Host) -> None:
    host.run(10, "llama-server -m m.gguf --port 8002")
    host.listen(8002, None)
    host.answers["http://127.0.0.1:8002"] = LLAMA
    (server,) = discover(None, None, OPTIONS)
    assert server.url == "http://127.0.0.1:8002"
    (again,) = discover("127.0.0.1:8002", None, OPTIONS)
    assert roles(again) == {10: "server"}


def test_in_docker_the_proxy_owns_the_socket(host: Host) -> None:
    host.run(10, "python3 /usr/bin/vllm serve tiny")
    line = "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 9000 -container-port 8000"
    host.run(20, line, comm="docker-proxy")
    host.listen(9000, 20, "0.0.0.0")
    host.answers["http://127.0.0.1:9000"] = VLLM
    (server,) = discover(None, None, OPTIONS)
    assert (server.url, roles(server)) == ("http://127.0.0.1:9000", {10: "server"})
    (again,) = discover("http://127.0.0.1:9000/metrics", None, OPTIONS)
    assert roles(again) == {10: "server"}


def test_a_strangers_port_is_not_asked_for_a_server_that_is_not_up(host: Host) -> None:
    host.run(10, "llama-server -m m.gguf")
    host.run(11, "java -jar x")
    host.listen(8080, 11)
    assert discover(None, None, OPTIONS) == []
    assert host.asked == []


def test_a_server_that_is_starting(host: Host) -> None:
    host.run(10, "llama-server -m m.gguf")
    (server,) = discover(None, None, OPTIONS)
    assert "not up yet" in server.says
    vllm_tree(host, 20, 8000)
    assert [s.engine for s in discover(None, None, OPTIONS)] == ["vllm"], "one that is up comes first"


def test_a_server_that_wants_credentials_or_is_stopped_is_listed(host: Host) -> None:
    vllm_tree(host, 10, 8000)
    vllm_tree(host, 20, 8001)
    host.answers["http://127.0.0.1:8001"] = NoAnswer("wrong", "wants credentials (HTTP 401)")
    first, second = discover(None, None, OPTIONS)
    assert first.says == ""
    assert "credentials" in second.says
    assert "http://127.0.0.1:8001" in describe_choice([first, second])


def test_a_process_on_the_gpu_that_nothing_recognised(host: Host) -> None:
    host.run(10, "python3 serve_something.py")
    host.run(11, "python3 worker.py", 10)
    host.listen(7000, 10)
    assert discover(None, None, OPTIONS) == []
    assert host.asked == []
    host.answers["http://127.0.0.1:7000"] = VLLM
    (server,) = discover(None, None, OPTIONS, devices_pids=[11, 99999])
    assert (server.engine, server.url) == ("vllm", "http://127.0.0.1:7000")


def test_what_a_command_line_says_cannot_steer_the_terminal(host: Host) -> None:
    host.run(10, "x")
    evil = "[bold]a\x1b]0;pwned\x07\n  http://127.0.0.1:1  vLLM\u202e"
    host.argvs[10] = ("/v/bin/python", "/v/bin/vllm", "serve", evil, "--port", "8000")
    host.listen(8000, 10)
    host.answers["http://127.0.0.1:8000"] = Identity("vllm")
    host.run(20, "llama-server --port 8080 --host bad\x1b[2Jhost")
    host.run(30, "llama-server --port 8081 --api-prefix /\x1b[2J")
    servers = discover(None, None, OPTIONS)
    shown = describe_choice(servers)
    assert [server.url for server in servers] == ["http://127.0.0.1:8000"]
    assert shown.isprintable(), "one line, and nothing that a terminal obeys"
    assert "[bold]a␛]0;pwned␇␊" in shown
    assert not [url for url in host.asked if "\x1b" in url]


def test_an_engine_that_cannot_be_read_is_named_when_alone(host: Host) -> None:
    host.run(10, "python3 -m sglang.launch_server --model-path q")
    host.listen(30000, 10)
    host.answers["http://127.0.0.1:30000"] = Identity("sglang")
    (server,) = discover(None, None, OPTIONS)
    assert "SGLang" in server.says
    with pytest.raises(DiscoveryError, match="SGLang"):
        discover(None, 10, OPTIONS)
    vllm_tree(host, 20)
    assert [s.engine for s in discover(None, None, OPTIONS)] == ["vllm"]


@pytest.mark.parametrize("pid", [10, 12, 13])
def test_any_pid_of_the_tree(host: Host, pid: int) -> None:
    vllm_tree(host)
    (server,) = discover(None, pid, OPTIONS)
    assert server.processes[0].pid == 10


def test_pids_that_are_no_server(host: Host) -> None:
    host.run(10, "sleep 9")
    with pytest.raises(DiscoveryError, match="no process 11"):
        discover(None, 11, OPTIONS)
    with pytest.raises(DiscoveryError, match="give the server's URL"):
        discover(None, 10, OPTIONS)


def test_a_url_of_another_host(host: Host) -> None:
    host.answers["https://gpu7:8443/llm"] = VLLM
    (server,) = discover("https://user:hunter2@gpu7:8443/llm/v1", None, OPTIONS)
    assert server.processes == ()
    assert "another host" in server.says
    assert "hunter2" not in repr(server)
    assert host.headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (NoAnswer("down", "has nothing listening; start it"), "nothing listening"),
        (NoAnswer("wrong", "wants credentials (HTTP 401); pass them"), "credentials"),
        (Identity("unknown"), "not as an engine"),
        (Identity("sglang"), "SGLang"),
    ],
)
def test_urls_that_cannot_be_used(host: Host, answer: Identity | NoAnswer, words: str) -> None:
    host.answers["http://127.0.0.1:1234"] = answer
    with pytest.raises(DiscoveryError, match=words) as caught:
        discover("http://127.0.0.1:1234", None, OPTIONS)
    assert str(caught.value).endswith(".")


def test_a_bad_url() -> None:
    with pytest.raises(DiscoveryError, match="neither http"):
        discover("ftp://x", None, OPTIONS)


def test_a_stopped_local_server_can_still_be_watched(host: Host) -> None:
    vllm_tree(host)
    host.answers["http://127.0.0.1:8000"] = NoAnswer("silent", "does not answer within 1 s")
    (server,) = discover("http://127.0.0.1:8000", None, OPTIONS)
    assert (server.engine, roles(server)[12]) == ("vllm", "engine")
    assert "does not answer" in server.says
