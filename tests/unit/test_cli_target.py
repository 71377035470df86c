"""Options that name the server: secrets stay out of command lines, and what was found is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gaptop.cli.durations import Duration, Size
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.target import Target, choose, probe_config, target_options
from gaptop_collectors import discovery
from gaptop_collectors.devices import nvml_pids
from gaptop_collectors.target import Server, ServerProcess


@click.command()
@target_options
def show(target: Target) -> None:
    click.echo(json.dumps({"addresses": list(target.addresses), "headers": dict(target.headers)}))


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    result = CliRunner(env=environment).invoke(show, list(arguments))
    return result.exit_code, result.output


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "Cookie", "x-auth-token"])
def test_a_literal_secret_is_refused_with_the_remedy(name: str) -> None:
    code, output = run("--header", f"{name}=hunter2")
    assert code == Exit.USAGE
    assert "@FILE" in output
    assert "hunter2" not in output


def test_secrets_come_from_files_and_the_environment(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("abc\n")
    _, output = run("--header", "X-Key=env:MY_KEY", "--token-file", str(secret), MY_KEY="xyz")
    assert json.loads(output)["headers"] == {"X-Key": "xyz", "Authorization": "Bearer abc"}


@pytest.mark.parametrize("content", [None, "", "two\nlines", "\x00\xff"])
def test_a_bad_secret_file_is_one_sentence(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    code, output = run("--token-file", str(path))
    assert code == Exit.USAGE
    assert str(path) in output.replace("\n", "")


def test_a_header_without_value_or_variable_is_refused() -> None:
    assert run("--header", "X-Plain")[0] == Exit.USAGE
    assert run("--header", "X-Plain=env:NOT_THERE")[0] == Exit.USAGE
    assert run("--header", "X-Plain=v")[0] == 0


def server(url: str, pid: int) -> Server:
    return Server(url=url, engine="vllm", processes=(ServerProcess(pid, "api", "vllm", True, 1),))


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        ([], Exit.NOTHING_TO_OBSERVE, "gaptop demo"),
        ([server(f"http://127.0.0.1:{8000 + number}", number) for number in range(9)], Exit.USAGE, "pid 8"),
    ],
)
def test_none_and_too_many_servers_are_told(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[Server], code: Exit, says: str
) -> None:
    monkeypatch.setattr(discovery, "discover", lambda *arguments: list(found))
    monkeypatch.setattr(nvml_pids, "compute_pids", lambda: ())
    with pytest.raises(Stop) as stop:
        choose(Target())
    assert stop.value.exit_code == code
    assert says in stop.value.message


def test_the_gpus_are_asked_only_where_the_command_lines_leave_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = server("http://127.0.0.1:8000", 11), server("http://127.0.0.1:8001", 12)
    by_command_line: list[Server] = []
    monkeypatch.setattr(discovery, "discover", lambda *given: [one] if given[3:] else by_command_line)
    asked = []

    def compute_pids() -> tuple[int, ...]:
        asked.append(True)
        return (11,)

    monkeypatch.setattr(nvml_pids, "compute_pids", compute_pids)
    assert choose(Target()) == (one,)
    assert len(asked) == 1, "nothing was found without"
    by_command_line[:] = [replace(one, says="is not up yet")]
    choose(Target())
    assert len(asked) == 2
    by_command_line[:] = [other]
    assert choose(Target()) == (other,)
    by_command_line[:] = []
    with pytest.raises(Stop):
        choose(Target(gpu=False))
    assert len(asked) == 2


def test_an_address_is_a_url_or_a_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def discover(url: str | None, pid: int | None, http: object) -> list[Server]:
        asked.append((url, pid))
        return [server("http://127.0.0.1:8000", 11)]

    monkeypatch.setattr(discovery, "discover", discover)
    for address in ("4711", "https://host:1"):
        choose(Target(addresses=(address,)))
    assert asked == [(None, 4711), ("https://host:1", None)]


def test_a_url_is_completed_and_its_password_becomes_a_header() -> None:
    told = json.loads(CliRunner().invoke(show, ["me:secret@localhost:8000/metrics"]).stdout)
    assert told["addresses"] == ["http://localhost:8000"]
    assert told["headers"]["Authorization"].startswith("Basic ")
    assert run("ftp://localhost")[0] == Exit.USAGE


def test_a_password_in_a_command_line_is_warned_of_and_not_repeated() -> None:
    url = "http://me:hunter2@localhost:8000"
    result = CliRunner().invoke(show, [url])
    assert result.exit_code == 0
    assert result.stderr.count("\n") == 1
    assert "--token-file FILE" in result.stderr
    assert "GAPTOP_URL" in result.stderr
    assert "hunter2" not in result.output
    for quiet in (CliRunner(env={"GAPTOP_URL": url}).invoke(show), CliRunner().invoke(show, ["localhost:8000"])):
        assert quiet.exit_code == 0
        assert quiet.stderr == ""


@click.command()
@target_options
def exporters(target: Target) -> None:
    click.echo(json.dumps(probe_config(target, ())["dcgm"]))


def test_exporters_are_checked_and_each_is_named_once() -> None:
    result = CliRunner().invoke(exporters, ["--dcgm", "gpu-a", "--dcgm", "http://gpu-a:9400/metrics", "--dcgm", "b:1"])
    assert json.loads(result.stdout) == ["gpu-a", "b:1"]
    assert result.stderr == ""
    bad = CliRunner().invoke(exporters, ["--dcgm", "ftp://gpu-a"])
    assert bad.exit_code == Exit.USAGE
    assert "9400" in bad.output
    several = CliRunner(env={"GAPTOP_DCGM": "gpu-a https://gpu-b:443"}).invoke(exporters)
    assert json.loads(several.stdout) == ["gpu-a", "https://gpu-b:443"]


def test_an_exporters_password_in_a_command_line_is_warned_of_and_not_repeated() -> None:
    url = "http://me:hunter2@gpu-a"
    typed = CliRunner().invoke(exporters, ["--dcgm", url])
    assert "GAPTOP_DCGM" in typed.stderr
    assert "hunter2" not in typed.stderr
    assert CliRunner(env={"GAPTOP_DCGM": url}).invoke(exporters).stderr == ""
    assert "hunter2" not in CliRunner().invoke(exporters, ["--dcgm", "http://me:hunter2@"]).output


def test_the_probe_gets_secrets_in_its_configuration_only() -> None:
    config = probe_config(Target(headers={"Authorization": "Bearer abc"}), (server("http://127.0.0.1:8000", 11),))
    assert config["headers"] == {"Authorization": "Bearer abc"}
    assert "abc" not in json.dumps(config["servers"])


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30.0), ("30s", 30.0), ("500ms", 0.5), ("5m", 300.0), ("1.5h", 5400.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1s", "1y", "31d", "s", "nan", "1e9"])
def test_bad_durations_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "size"), [("20M", 20_000_000), ("1GiB", 2**30), ("100k", 100_000), ("200000", 200_000)]
)
def test_sizes(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["1k", "", "-5M", "10X"])
def test_bad_sizes_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Size().convert(text, None, None)
