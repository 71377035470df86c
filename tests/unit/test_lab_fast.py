"""The fast driver's streams: what a user would get beside such a server, and the verdicts that scenarios deserve."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from gaptop.cli.report import replay
from gaptop.cli.session import classifier
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Arrivals
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.driver import Fast
from gaptop.lab.fast.file import write
from gaptop.lab.fast.truth import beside, read
from gaptop.lab.fast.view import View
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Batch, Header, Health, Hole, Line, Source, Tick, decode, encode, times
from gaptop.recording.writer import WriteError
from gaptop.timeline.timeline import Timeline
from gaptop.valleys.analyst import Analyst
from gaptop.valleys.model import Assessment
from gaptop_collectors.signals import SIGNALS, split_key

from .lab_fast import batches, column, made, ran, sources


def assess(lines: tuple[Line, ...]) -> Assessment:
    timeline = Timeline(classifier())
    analyst = Analyst(timeline)
    for line in lines:
        timeline.apply(line)
        analyst.apply(line)
    return analyst.finish()


@pytest.mark.parametrize(
    "name",
    [
        *("no_demand", "host_schedule", "prefill_interference", "cache_pressure", "admission_stall"),
        *("synchronisation", "compiling", "host_tokenize"),
    ],
)
def test_a_scenario_gets_its_cause(name: str) -> None:
    found = [valley for valley in assess(made(name, 33.0)).valleys if valley.end_s is not None]
    assert len(found) >= 2
    assert {valley.verdict.cause for valley in found} == set(SCENARIOS[name].causes)


def test_nothing_wrong_is_nothing_found() -> None:
    assert assess(made("steady", 33.0)).valleys == ()


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(Fast(SCENARIOS["cache_pressure"], 5, 12.0), tmp_path / name)
    write(Fast(SCENARIOS["cache_pressure"], 6, 12.0), tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()
    told = [beside(tmp_path / name).read_text() for name in ("a", "b", "c")]
    assert told[0] == told[1] != told[2]


def test_the_file_opens_as_any_recording_does(tmp_path: Path) -> None:
    path = tmp_path / "run.gaptop"
    run = Fast(SCENARIOS["host_schedule"], 1, 23.0)
    truth = write(run, path)
    _, assessment = replay(path)
    assert [valley.verdict.cause for valley in assessment.valleys] == ["host_starvation", "host_starvation"]
    assert truth == tmp_path / "run.gaptop.truth.jsonl"
    idle, stalls = read(truth.read_text().splitlines()[1:])
    assert [item.cause for item in idle if item.end - item.start > 0.5] == ["host_starvation", "host_starvation"]
    assert len(idle) == len(run.truth.idle)
    assert len(stalls) == len(run.truth.stalls)
    with pytest.raises(WriteError):
        write(Fast(SCENARIOS["steady"], 1, 1.0), path)


def test_its_pieces_end_by_the_streams_own_time(tmp_path: Path) -> None:
    """A piece of 5 s each, though all of it is written at once: each can be read alone."""
    path = tmp_path / "run.gaptop"
    write(Fast(SCENARIOS["steady"], 1, 21.0), path)
    assert gzip.decompress(path.read_bytes()).count(b'{"k":"header"') in (4, 5)


def test_every_line_survives_its_wire_form_and_says_nothing_unknown() -> None:
    for view in (View(gpm=True), View(dialect="llamacpp")):
        for line in made("tour", 12.0, view):
            assert decode(encode(line)) is not None
            if isinstance(line, Batch):
                assert {split_key(key)[0] for key in line.values} <= SIGNALS.keys()
            if isinstance(line, Source):
                assert set(line.signals) <= SIGNALS.keys()
                assert not set(line.signals) & set(line.unsupported)


def test_it_is_a_simulation_and_says_so() -> None:
    header = made("steady", 21.0)[0]
    assert isinstance(header, Header)
    assert header.simulated


def test_nothing_is_told_before_it_happened_and_nothing_of_an_unknown_source() -> None:
    known: set[str] = set()
    now = 0.0
    told = sources(made("tour", 12.0, View(gpm=True)))
    for line in made("tour", 12.0, View(gpm=True)):
        if isinstance(line, Tick):
            assert line.t >= now
            now = line.t
        elif isinstance(line, Source):
            known.add(line.id)
        elif isinstance(line, Batch):
            assert line.src in known
            span = times(line)
            assert span is not None
            assert span[1] <= now + 0.25 + 0.02  # up to the next tick, and GPM's stamps by the driver's lag
            assert {split_key(key)[0] for key in line.values} <= set(told[line.src].signals)


def test_columns_keep_to_their_periods() -> None:
    lines = made("steady", 21.0)
    seen = Counter(key for batch in batches(lines, "") for key, values in batch.values.items() for _ in values)
    assert 98 <= seen["device.busy"] <= 106
    assert 78 <= seen["device.power"] <= 85
    assert 40 <= seen["device.clock_sm"] <= 43
    assert 10 <= seen["device.memory_used"] <= 11
    assert 4 <= seen["device.foreign_processes"] <= 5
    assert 40 <= seen["sched.running"] <= 42
    assert 80 <= seen["host.oncpu{tid=4180}"] <= 83
    assert 20 <= seen["host.runnable_threads{pid=4180}"] <= 21
    assert 20 <= seen["host.connections"] <= 21


@pytest.mark.parametrize(
    ("view", "absent", "collector", "state"),
    [
        (View(nvml=False), "nvml/", "devices.nvml", "absent"),
        (View(stacks_hz=None), "threads/", "host.threads_pyspy", "refused"),
        (View(dialect="llamacpp"), "threads/", "host.threads_pyspy", "absent"),
        (View(states=False), "proc/", "", ""),
        (View(host=False), "process/", "", ""),
    ],
)
def test_a_source_that_is_not_there_is_not_in_the_stream(view: View, absent: str, collector: str, state: str) -> None:
    lines = made("host_schedule", 12.0, view)
    assert not any(key.startswith(absent) for key in sources(lines))
    assert not batches(lines, absent)
    said = [line for line in lines if isinstance(line, Health) and line.src == collector]
    assert {(line.state, bool(line.says)) for line in said} == ({(state, True)} if state else set())


def test_connections_are_the_requests_that_are_open() -> None:
    """Twenty clients, and nobody in the silence."""
    lines = made("no_demand", 14.0)
    at = {batch.t[0]: batch.values["host.connections"][0] for batch in batches(lines, "process/")}
    assert [value for t, value in at.items() if 1.0 < t < 3.5] == [20.0] * 3
    assert {value for t, value in at.items() if 5.2 < t < 6.9} == {0.0}


def test_a_stopped_front_end_leaves_requests_unread() -> None:
    chats = Arrivals(8.0, 0.0, 20.0, (60, 100), (40, 70))
    scenario = Scenario("stopped", "", (), 20.0, (chats,), (Fault("stop", 4.0, 3.0),))
    lines = tuple(Fast(scenario, 1, 12.0).lines())
    assert max(column(batches(lines, "process/"), "host.unread")) >= 8
    assert max(column(batches(lines, "proc/4100"), "host.stopped{pid=4100}")) == 1.0
    assert max(column(batches(lines, "proc/4180"), "host.stopped{pid=4180}")) == 0.0


def test_a_stream_may_begin_later_than_the_server() -> None:
    run, lines = ran("host_schedule", 12.0, View(start_s=30.5))
    stalls = [item for item in run.truth.idle if item.end - item.start > 0.5]
    assert [round(item.start, 1) for item in stalls] == [3.5]
    assert all(span[0] >= 0.0 for line in lines if (span := times(line)) is not None)
    assert column(batches(lines, "metrics/"), "tokens.decode")[0] > 10_000
    # What happened before counts in no window: at first the engine only decodes.
    assert all(value < 0.2 for value in column(batches(lines, "proc/4180"), "host.oncpu{tid=4180}")[:8])
    assert column(batches(lines, "process/"), "host.cpu_seconds{pid=4180}")[0] < 0.1


def test_an_outage_is_a_hole_and_nothing_is_told_of_it() -> None:
    outages = (("nvml/", 3.0, 10.0), ("metrics/", 5.0, 6.5))
    lines = made("host_schedule", 14.0, View(outages=outages))
    for source, start, end in outages:
        told = [t for batch in batches(lines, source) for t in batch.t]
        assert not [t for t in told if start < t < end]
        assert [t for t in told if t < start]
        assert [t for t in told if t > end]
        holes = [line for line in lines if isinstance(line, Hole) and line.src.startswith(source)]
        assert (holes[0].start, holes[-1].end) == (start, end)
        assert all(after.start == before.end for before, after in zip(holes, holes[1:], strict=False))
        assert holes[0].end <= start + 0.25
        failing = [line.t for line in lines if isinstance(line, Health) and line.state == "failing"]
        assert all(3.0 <= t < 10.0 for t in failing)
        assert failing
    assert "utilisation" not in {valley.kind for valley in assess(lines).valleys}


def test_a_thread_that_turns_hot_is_watched_from_the_next_pass_on() -> None:
    """Each second all threads are looked through; the main one is always watched."""
    lines = made("no_demand", 14.0)
    pool = [batch.t[0] for batch in batches(lines, "proc/4100") if "host.oncpu{tid=4117}" in batch.values]
    main = [batch.t[0] for batch in batches(lines, "proc/4100") if "host.oncpu{tid=4100}" in batch.values]
    assert main[0] == 0.25
    assert pool[0] == 1.25
    named = [tid["tid"] for tid in sources(lines)["proc/4100"].entity["threads"]]
    assert named == [4100, 4117]


def test_compilers_are_seen_while_they_run_and_their_time_when_they_have_ended() -> None:
    lines = made("compiling", 12.0)
    at = {batch.t[0]: batch for batch in batches(lines, "process/")}
    running = [t for t, batch in at.items() if batch.values["host.compilers"][0]]
    booked = {t: batch.values["host.children_seconds{pid=4180}"][0] for t, batch in at.items()}
    assert len(running) in (1, 2)
    assert all(booked[t] == 0.0 for t in running)
    assert max(value or 0.0 for value in booked.values()) > 3.0
