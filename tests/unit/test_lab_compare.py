"""Policies on the same arrivals: the published results show. And what a trace file must look like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gaptop.cli.lab_compare import compare as command
from gaptop.lab.compare import MIX, POLICIES, Kind, Policy, Row, compare, config_of, loads_of, quantile, room_on
from gaptop.lab.core.model import H100, RTX_4090, DeviceModel
from gaptop.lab.trace import Trace, TraceError, read_trace

SECONDS = 60.0
LONG_PROMPTS = (Kind(0.7, (60, 200), (60, 120)), Kind(0.3, (3000, 4000), (20, 40)))


def rows(
    policies: tuple[Policy, ...], arrivals: str, rate: float, device: DeviceModel, mix: tuple[Kind, ...] = MIX
) -> dict[Policy, Row]:
    found = compare(policies, loads_of(arrivals, rate, SECONDS, mix), device, 1, SECONDS)
    return {row.policy: row for row in found}


@pytest.mark.parametrize(("device", "clients"), [(RTX_4090, 32), (H100, 256)])
def test_continuous_is_much_faster_than_static_where_lengths_vary(device: DeviceModel, clients: int) -> None:
    found = rows(("static", "continuous"), f"closed:{clients}", 0.0, device)
    factor = found["continuous"].throughput / found["static"].throughput
    print(f"continuous gives {factor:.1f} times the tokens of static with {clients} clients")
    assert factor > 2
    ttft = (found["static"].ttft_p50, found["continuous"].ttft_p50)
    assert ttft[0] is not None
    assert ttft[1] is not None
    assert ttft[0] > 3 * ttft[1]


def test_the_factor_comes_from_the_lengths() -> None:
    same = (Kind(1.0, (100, 100), (100, 100)),)
    found = rows(("static", "continuous"), "closed:48", 0.0, RTX_4090, same)
    assert found["continuous"].throughput < 1.3 * found["static"].throughput


def test_chunks_cut_the_inter_token_tail_under_long_prompts() -> None:
    found = rows(("continuous", "chunked"), "poisson", 2.0, RTX_4090, LONG_PROMPTS)
    whole, chunks = found["continuous"].itl_p99, found["chunked"].itl_p99
    assert whole is not None
    assert chunks is not None
    assert whole > 0.3
    assert chunks < whole / 3
    assert found["chunked"].throughput > 0.95 * found["continuous"].throughput


def test_two_devices_remove_the_interference_for_the_price_of_a_transfer() -> None:
    found = rows(("continuous", "disaggregated"), "poisson", 2.0, RTX_4090, LONG_PROMPTS)
    together, apart = found["continuous"], found["disaggregated"]
    assert together.itl_p99 is not None
    assert apart.itl_p99 is not None
    assert apart.itl_p99 < together.itl_p99 / 5
    assert apart.idle.get("prefill_interference", 0.0) > 0
    assert (together.devices, apart.devices) == (1, 2)


def test_the_same_arrivals_give_the_same_table_and_shares_fill_the_time() -> None:
    once = compare(POLICIES, loads_of("bursts", 2.0, 20.0), RTX_4090, 3, 20.0)
    assert once == compare(POLICIES, loads_of("bursts", 2.0, 20.0), RTX_4090, 3, 20.0)
    assert once != compare(POLICIES, loads_of("bursts", 2.0, 20.0), RTX_4090, 4, 20.0)
    for row in once:
        assert row.busy + sum(row.idle.values()) == pytest.approx(1.0, abs=1e-6)


def test_only_the_policy_differs() -> None:
    configs = [config_of(policy, RTX_4090) for policy in POLICIES]
    assert len({(config.max_num_seqs, config.num_blocks, config.steps_in_flight) for config in configs}) == 1


def test_a_closed_loop_has_as_many_clients_as_were_asked_for() -> None:
    for count in (1, 2, 7, 32):
        assert sum(load.count for load in loads_of(f"closed:{count}", 0.0, 1.0)) == count  # type: ignore[attr-defined]


def test_quantiles() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile(list(map(float, range(100))), 0.99) == 99.0


def test_a_trace_is_read_and_begins_at_zero(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time,prompt,output\n\n12.5, 100, 20\n10,50,5\n")
    assert read_trace(file) == Trace(((0.0, 50, 5), (2.5, 100, 20)))


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf0,100,20\r\n2.5,50,5\r\n",
        b"\xef\xbb\xbfarrival (s),prompt v2,output v2\r\n0,100,20\r\n2.5,50,5",
        b"t0,p1,o1\n0, 100, 20\n\n2.5,50,5\n",
    ],
    ids=["byte order mark and CRLF", "heading with both", "heading with digits"],
)
def test_a_trace_from_a_spreadsheet_is_read(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(raw)
    assert read_trace(file) == Trace(((0.0, 100, 20), (2.5, 50, 5)))


def test_a_request_that_can_never_run_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("t,p,o\n0,100,20\n1,1000000000,5\n")
    shown = CliRunner().invoke(command, ["--arrivals", str(file), "--seconds", "3"])
    assert shown.exit_code == 4
    assert "line 3: a request of 1000000005 tokens can never run here, 8192 is the most; correct" in shown.output
    file.write_text("0,8000,192\n")
    assert len(read_trace(file, room_on(RTX_4090)).rows) == 1
    file.write_text("0,8000,193\n")
    with pytest.raises(TraceError, match="line 1: a request of 8193 tokens"):
        read_trace(file, room_on(RTX_4090))


def test_an_option_that_would_change_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("0,100,20\n")
    for options, says in (
        (["--rate", "3"], "closed clients ask again as soon as they are answered"),
        (["--rate", "3", "--arrivals", str(file)], "the file says when each request comes"),
        (["--prompt", "5-9", "--arrivals", str(file)], "it has each request's lengths"),
    ):
        shown = CliRunner().invoke(command, options)
        assert shown.exit_code == 2
        assert says in shown.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0,-5,1\n", "line 1: a request has at least one prompt token"),
        ("0,1,1\n1,x,1\n", "line 2: '1,x,1' is not seconds,prompt tokens,output tokens"),
        ("0,1\n", "line 1: '0,1' is not"),
        ("t,p,o\n0,1,1\nnan,1,1\n", "line 3: nan is no time in seconds"),
        ("0,0,1\n", "line 1: a request has at least one prompt token"),
        ("t,p,o\n", "has no requests"),
        ("", "has no requests"),
    ],
)
def test_a_bad_trace_is_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(TraceError) as error:
        read_trace(file)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_trace_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="no text file"):
        read_trace(file)
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_the_command_prints_a_table_or_json(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("".join(f"{each / 4},100,30\n" for each in range(20)))
    asked = ["--policies", "chunked,static", "--arrivals", str(file), "--seconds", "8"]
    shown = CliRunner().invoke(command, asked)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0].split()[:3] == ["policy", "GPUs", "tok/s"]
    assert [line.split()[0] for line in lines[1:]] == ["chunked", "static"]
    assert "no demand" in lines[1]
    data = json.loads(CliRunner().invoke(command, [*asked, "--json"]).output)
    assert [row["policy"] for row in data] == ["chunked", "static"]
    assert data[0]["throughput"] == pytest.approx(75.0)


def test_the_factor_between_static_and_continuous_is_stated() -> None:
    asked = ["--policies", "static,continuous", "--seconds", "20", "--arrivals", "closed:32"]
    [*_, static, continuous, said] = CliRunner().invoke(command, asked).output.splitlines()
    tokens = [float(line.split()[2]) for line in (continuous, static)]
    assert said == f"continuous gives {tokens[0] / tokens[1]:.1f} times the tokens of static"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--arrivals", "often"], 2, "none of steady, poisson, bursts"),
        (["--arrivals", "closed:0"], 2, "none of steady"),
        (["--policies", "best"], 2, "is no policy"),
        (["--policies", ","], 2, "name at least one"),
        (["--rate", "nan", "--arrivals", "poisson"], 2, "is no number"),
        (["--prompt", "9-3"], 2, "is no range of tokens"),
        (["--prompt", "8192", "--output", "10", "--seconds", "3"], 2, "can never run here"),
    ],
)
def test_what_cannot_be_run_is_said(options: list[str], code: int, says: str) -> None:
    shown = CliRunner().invoke(command, options)
    assert shown.exit_code == code
    assert says in shown.output
