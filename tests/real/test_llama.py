"""gaptop beside a real llama-server."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from gaptop.recording.lines import Batch, Source
from gaptop.recording.reader import open_stream
from tests.real import servers
from tests.real.conftest import Watched, installed, quiet
from tests.real.load import Client, drive
from tests.real.test_vllm import last_time, own_metrics, series
from tests.real.watch import recording, report

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

SLOTS = 4
CROWDED = 0.15
"""Beside as much of other work the server's own waiting for a core is a cause of its own."""


def test_the_server_is_found_without_being_named(watched_llama: Watched) -> None:
    (server,) = watched_llama.report["source"]["servers"]
    assert server["engine"] == "llamacpp"
    assert server["pids"] == list(watched_llama.pids)


def test_iterations_are_the_servers_own(watched_llama: Watched) -> None:
    own = own_metrics(watched_llama.metrics)
    assert series(watched_llama.path, "step.count")[-1] == own["llamacpp:n_decode_total"]
    assert series(watched_llama.path, "sched.running")[-1] == own["llamacpp:requests_processing"] == 0
    assert max(series(watched_llama.path, "sched.limit")) == SLOTS


def test_tokens_seen_through_slots_are_the_clients(watched_llama: Watched) -> None:
    decoded = series(watched_llama.path, "tokens.decode")
    assert decoded[-1] - decoded[0] == pytest.approx(watched_llama.drive.tokens, rel=0.1)


def test_silence_is_no_demand(watched_llama: Watched) -> None:
    found = watched_llama.during("silence")
    assert found
    assert {valley["cause"] for valley in found} == {"no_demand"}


def test_requests_above_the_slots_wait_and_are_never_no_demand(watched_llama: Watched) -> None:
    assert max(series(watched_llama.path, "sched.running")) == SLOTS
    assert max(series(watched_llama.path, "sched.waiting")) >= 8
    crowded = last_time(watched_llama, "sched.waiting", watched_llama.drive.phase("cap").end)
    inside = [valley for valley in watched_llama.during("cap") if valley["start_s"] < crowded]
    assert "no_demand" not in {valley["cause"] for valley in inside}


def test_a_long_prompt_is_prefill_interference(watched_llama: Watched) -> None:
    waited = watched_llama.mean("long", f"host.runqueue_wait{{tid={watched_llama.pids[0]}}}")
    if waited >= CROWDED:
        pytest.skip(f"this machine was crowded: the server itself waited for a core {waited:.0%} of the time")
    assert "prefill_interference" in {valley["cause"] for valley in watched_llama.during("long")}


def test_the_compute_threads_are_the_device(watched_llama: Watched) -> None:
    (device,) = watched_llama.report["source"]["devices"]
    assert device["kind"] == "cpu"
    busy = series(watched_llama.path, "device.busy")
    assert min(busy) < 0.1
    assert max(busy) > 0.8


def test_run_states_of_its_threads_are_seen(watched_llama: Watched) -> None:
    (pid,) = watched_llama.pids
    on_cpu = series(watched_llama.path, f"host.oncpu{{tid={pid}}}")
    assert max(on_cpu) > 0.8
    assert min(on_cpu) < 0.1


def test_python_stacks_are_named_as_out_of_reach(watched_llama: Watched) -> None:
    (health,) = (entry for entry in watched_llama.report["health"] if "pyspy" in entry["source"])
    assert health["state"] == "absent"
    assert "/proc" in health["says"]


def longest_gap(path: Path, key: str) -> float:
    """Most seconds between two readings of a series."""
    times = [t for line in open_stream(path) if isinstance(line, Batch) and key in line.values for t in line.t]
    return max(later - earlier for earlier, later in pairwise(times))


async def test_slots_serve_where_metrics_are_off(tmp_path: Path) -> None:
    installed(servers.LLAMA)
    with servers.llama(tmp_path) as server:
        path = tmp_path / "slots.gaptop"

        async def script(client: Client) -> None:
            await client.closed_loop(3, 5, 40, 60)
            await quiet(2)

        with recording(path, server.url):
            seen = await drive(server.url, "llamacpp", script, limit=60)
    decoded = series(path, "tokens.decode")
    counted = decoded[-1] - decoded[0]
    # A slot forgets its request when the next one takes it: what came after the last look is never seen, and that is
    # at most one gap between two looks of each request, at the fastest that any slot went.
    fastest = 60 / min(seen.seconds)
    assert seen.tokens - seen.finished * fastest * longest_gap(path, "tokens.decode") <= counted <= seen.tokens
    assert not series(path, "sched.waiting")
    (engine,) = {
        line.id: line for line in open_stream(path) if isinstance(line, Source) and line.kind == "server"
    }.values()
    assert "--metrics" in engine.unsupported["sched.waiting"]
    assert report(path)["source"]["servers"][0]["engine"] == "llamacpp"
