"""Several servers at once: each once, none too many, and one that cannot be watched is named before anything starts."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner, Result

from gaptop.cli import simulated
from gaptop.cli.addresses import MOST
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.target import Target, choose, probe_config, target_options
from gaptop_collectors import discovery
from gaptop_collectors.devices import nvml_pids
from gaptop_collectors.discovery import DiscoveryError
from gaptop_collectors.target import HttpOptions, Server, ServerProcess

FIRST, SECOND = "http://127.0.0.1:8000", "http://127.0.0.1:8001"


def server(url: str, pid: int, engine: str = "vllm") -> Server:
    return Server(url=url, engine=engine, processes=(ServerProcess(pid, "api", "vllm", True, 1),))


KNOWN: dict[object, Server | DiscoveryError] = {
    FIRST: server(FIRST, 11),
    SECOND: server(SECOND, 12, "llamacpp"),
    12: server(SECOND, 12, "llamacpp"),
    "http://localhost:8001": server("http://localhost:8001", 12, "llamacpp"),
    "http://[::1]:8001": DiscoveryError(
        "http://[::1]:8001 is down.", Server("http://[::1]:8001", "unknown", says="-.")
    ),
    "http://b:1": DiscoveryError("http://b:1 is down.", Server("http://b:1", "unknown", says="http://b:1 is down.")),
    "http://c:1": DiscoveryError("http://c:1 is down.", Server("http://c:1", "unknown", says="http://c:1 is down.")),
    "http://d:1": Server("http://d:1", "vllm", says="http://d:1 is still loading its model."),
    "http://e:1": Server("http://e:1", "vllm", "1", says="e is another host, so its processes are not visible."),
    "http://gateway:1": DiscoveryError("http://gateway:1 answers, but not as an engine."),
    99: DiscoveryError("There is no process 99 here."),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[object, HttpOptions]:
    """What was asked, and with which options."""
    seen: dict[object, HttpOptions] = {}

    def discover(url: str | None, pid: int | None, http: HttpOptions) -> list[Server]:
        seen[url or pid] = http
        known = KNOWN[url or pid]
        if isinstance(known, DiscoveryError):
            raise known
        return [known]

    monkeypatch.setattr(discovery, "discover", discover)
    return seen


def chosen(*addresses: str) -> tuple[list[str], list[str]]:
    """URLs of the servers that are watched, and what was said."""
    said: list[str] = []
    return [one.url for one in choose(Target(addresses=addresses), said.append)], said


def test_urls_and_pids_are_watched_in_the_order_in_which_they_were_named(asked: dict[object, HttpOptions]) -> None:
    assert chosen(SECOND, FIRST) == ([SECOND, FIRST], [])
    assert chosen(FIRST, "12") == ([FIRST, SECOND], [])
    assert set(asked) == {FIRST, SECOND, 12}


@pytest.mark.parametrize("twice", [("12", SECOND), ("http://localhost:8001", SECOND), ("http://[::1]:8001", SECOND)])
@pytest.mark.usefixtures("asked")
def test_one_server_under_two_names_is_watched_once_by_the_name_that_answers(twice: tuple[str, str]) -> None:
    for addresses in (twice, twice[::-1]):
        urls, [says] = chosen(FIRST, *addresses)
        assert len(urls) == 2
        assert "::1" not in urls[1]
        assert "one server that was named twice" in says


@pytest.mark.usefixtures("asked")
def test_one_that_does_not_answer_yet_is_watched_beside_others_and_told() -> None:
    urls, [says] = chosen(FIRST, "http://b:1")
    assert urls == [FIRST, "http://b:1"]
    assert says.startswith("http://b:1 is down.")
    assert "as soon as it answers" in says
    assert chosen(FIRST, "http://d:1")[1][0].startswith("http://d:1 is still loading its model. The others")
    assert chosen(FIRST, "http://e:1") == ([FIRST, "http://e:1"], [])


@pytest.mark.parametrize(
    ("addresses", "named", "unnamed"),
    [
        (("http://b:1", "http://c:1"), ("http://b:1 is down.", "http://c:1 is down."), ()),
        ((FIRST, "http://gateway:1", "99"), ("http://gateway:1 answers", "no process 99"), (FIRST,)),
        (("http://b:1", "http://gateway:1"), ("http://gateway:1 answers", "http://b:1 is down."), ()),
        ((FIRST, "http://gateway:1", "http://c:1"), ("http://gateway:1 answers", "http://c:1 is down."), (FIRST,)),
    ],
)
@pytest.mark.usefixtures("asked")
def test_what_cannot_be_watched_is_refused_by_name(
    addresses: tuple[str, ...], named: tuple[str, ...], unnamed: tuple[str, ...]
) -> None:
    with pytest.raises(Stop) as stop:
        chosen(*addresses)
    assert stop.value.exit_code == Exit.NOTHING_TO_OBSERVE
    assert all(text in stop.value.message for text in named)
    assert not any(text in stop.value.message for text in unnamed)


def test_all_servers_of_this_host_are_watched_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [server(FIRST, 11), server(SECOND, 12)]
    monkeypatch.setattr(discovery, "discover", lambda *arguments: list(here))
    monkeypatch.setattr(nvml_pids, "compute_pids", lambda: ())
    monkeypatch.setattr(simulated, "left_out", lambda: "a simulated server is left out.")
    said: list[str] = []
    assert choose(Target(), said.append) == tuple(here)
    left_out, says = said
    assert left_out == "a simulated server is left out."
    assert f"for example gaptop {FIRST}" in says
    assert "pid 11" in says
    assert "pid 12" in says


@click.command()
@target_options
def show(target: Target) -> None:
    servers = [Server(url, "vllm") for url in target.addresses]
    click.echo(json.dumps({"addresses": target.addresses, **probe_config(target, servers)}))


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(show, list(arguments))


def test_the_same_address_twice_is_told_and_so_are_too_many() -> None:
    result = run("127.0.0.1:8000", f"{FIRST}/metrics", SECOND)
    assert json.loads(result.stdout)["addresses"] == [FIRST, SECOND]
    assert result.stderr.count("\n") == 1
    assert FIRST in result.stderr
    several = [f"http://h:{port}" for port in range(1, MOST + 2)]
    assert run(*several[:MOST]).exit_code == 0
    refused = run(*several)
    assert refused.exit_code == Exit.USAGE
    assert f"{MOST + 1} servers" in refused.output


def test_all_bad_urls_among_several_are_named() -> None:
    refused = run(FIRST, "ftp://b", SECOND, "http://c:99999", "ftp://b")
    assert refused.exit_code == Exit.USAGE
    assert refused.output.count("ftp://b is neither http:// nor https://; give one like") == 1
    assert " http://c:99999 is not an address gaptop can use; give one like" in refused.output
    assert "8001" not in refused.output


def test_all_bad_exporters_are_named() -> None:
    refused = run(FIRST, "--dcgm", "ftp://b", "--dcgm", "gpu", "--dcgm", "http://c:99999")
    assert refused.exit_code == Exit.USAGE
    assert "ftp://b" in refused.output
    assert "http://c:99999" in refused.output


def test_several_come_from_a_variable_too() -> None:
    assert json.loads(run(GAPTOP_URL=f"{FIRST} 4711").stdout)["addresses"] == [FIRST, "4711"]


def test_a_password_in_a_url_goes_to_that_server_alone(asked: dict[object, HttpOptions]) -> None:
    told = json.loads(run("http://me:hunter2@127.0.0.1:8000", SECOND, "--header", "X-A=1").stdout)
    assert told["headers"] == {"X-A": "1"}
    first, second = told["servers"]
    assert first["headers"]["Authorization"].startswith("Basic ")
    assert "headers" not in second
    target = Target(addresses=(FIRST, SECOND), headers={"X-A": "1"}, own_headers={FIRST: {"Authorization": "Basic x"}})
    choose(target)
    assert asked[FIRST].headers == {"X-A": "1", "Authorization": "Basic x"}
    assert asked[SECOND].headers == {"X-A": "1"}
