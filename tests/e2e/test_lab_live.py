"""The lab's live server: two real processes, real HTTP, a device feed, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gaptop.lab.launch import Lab, LabError, LabInfo


@pytest.fixture(scope="module")
def lab() -> Iterator[LabInfo]:
    with Lab() as running:
        yield running.start("steady", seed=1)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


def scrape(url: str) -> dict[str, float]:
    values = {}
    for family in text_string_to_metric_families(get(url)):
        for sample in family.samples:
            values[sample.name + json.dumps(sample.labels, sort_keys=True)] = sample.value
    return values


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_it_names_itself_as_simulated(lab: LabInfo) -> None:
    assert json.loads(get(lab.url + "/version")) == {"version": "0.32.0+lab"}
    [model] = json.loads(get(lab.url + "/v1/models"))["data"]
    assert model["id"] == lab.model == "simulated-8b (lab)"
    assert get(lab.url + "/health") == ""
    assert [process.role for process in lab.processes] == ["api", "engine"]
    for process in lab.processes:
        assert Path(f"/proc/{process.pid}/comm").read_text().strip() == process.name


def test_counters_grow_at_the_simulated_pace(lab: LabInfo) -> None:
    def tokens() -> float:
        return next(value for name, value in scrape(lab.url + "/metrics").items() if "generation_tokens_total" in name)

    wait_for(lambda: tokens() > 500)
    before, started = tokens(), time.monotonic()
    time.sleep(1.0)
    rate = (tokens() - before) / (time.monotonic() - started)
    assert 500 < rate < 1500


def test_a_filtered_scrape_has_the_same_names_and_values(lab: LabInfo) -> None:
    wanted = ["vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:request_success_total"]
    query = urllib.parse.urlencode([("name[]", name) for name in wanted])
    some = scrape(f"{lab.url}/metrics/?{query}")
    full = scrape(lab.url + "/metrics")
    assert set(some) == {name for name in full if name.split("{")[0] in wanted}
    assert set(scrape(f"{lab.url}/metrics?{query}")) == set(full)
    unmoved = [name for name in some if '"abort"' in name]
    assert [some[name] for name in unmoved] == [full[name] for name in unmoved] == [0.0]


def test_feed_windows_follow_one_another(lab: LabInfo) -> None:
    feed = Path(lab.feed)
    wait_for(lambda: feed.read_text().count("\n") >= 8)
    lines = [json.loads(line) for line in feed.read_text().splitlines()[:-1]]
    ends = [line["t_ns"] for line in lines]
    assert {after - before for before, after in zip(ends, ends[1:], strict=False)} == {200_000_000}
    assert all(0 <= line["busy"] <= 1 and line["window_s"] == 0.2 for line in lines)
    assert lines[-1]["busy"] > 0.9
    assert "Simulated" in lines[-1]["name"]
    assert 0 < time.monotonic_ns() - ends[-1] < 2_000_000_000


def test_a_stopped_engine_freezes_the_counters_and_then_goes_on() -> None:
    with Lab() as running:
        info = running.start("steady")
        name = 'vllm:generation_tokens_total{"engine": "0", "model_name": "simulated-8b (lab)"}'
        url = info.url + "/metrics/?name[]=vllm:generation_tokens_total"
        wait_for(lambda: scrape(url)[name] > 0)
        os.kill(info.processes[1].pid, signal.SIGSTOP)
        time.sleep(0.3)
        stopped = scrape(url)[name]
        time.sleep(0.8)
        assert scrape(url)[name] == stopped
        os.kill(info.processes[1].pid, signal.SIGCONT)
        resumed = time.monotonic()
        wait_for(lambda: scrape(url)[name] > stopped)
        # It goes on where it was, about a thousand tokens a second: none of the second that was lost is caught up.
        time.sleep(0.3)
        assert scrape(url)[name] - stopped < 1100 * (time.monotonic() - resumed) + 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_both_processes_and_remove_the_folder(number: signal.Signals) -> None:
    with Lab() as running:
        info = running.start("steady")
        os.kill(info.processes[0].pid, number)
        wait_for(lambda: not any(alive(process.pid) for process in info.processes))
        assert not Path(info.feed).parent.exists()


def test_nothing_outlives_a_killed_parent() -> None:
    script = (
        "from gaptop.lab.launch import Lab; import time\n"
        "lab = Lab(); info = lab.start('steady')\n"
        "print(*(each.pid for each in info.processes), info.feed, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as said:
        api, engine, feed = said.readline().split()
        assert alive(int(api))
        assert alive(int(engine))
        parent.kill()
        parent.wait()
    wait_for(lambda: not alive(int(api)) and not alive(int(engine)))
    wait_for(lambda: not Path(feed).parent.exists())


def test_a_killed_front_end_takes_its_engine_with_it() -> None:
    with Lab() as running:
        info = running.start("steady")
        os.kill(info.processes[0].pid, signal.SIGKILL)
        wait_for(lambda: not alive(info.processes[1].pid))
    assert not Path(info.feed).parent.exists()


def test_a_killed_engine_ends_the_server() -> None:
    with Lab() as running:
        info = running.start("steady")
        os.kill(info.processes[1].pid, signal.SIGKILL)
        wait_for(lambda: not alive(info.processes[0].pid))


def test_a_scenario_that_is_not_there_is_said_in_a_sentence() -> None:
    with pytest.raises(LabError, match="did not come up .*invalid choice.*nothing to show"), Lab() as running:
        running.start("no such thing")
