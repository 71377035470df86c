"""Scrapes come a little late and now and then wait in a line; run states are booked at ticks; waits for the device may
keep a core."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from gaptop.lab.core.events import HostSpan
from gaptop.lab.fast.machine import ThreadOf
from gaptop.lab.fast.scrapes import QUEUED, SERVICE, Scrapes
from gaptop.lab.fast.states import ERROR
from gaptop.lab.fast.threads import ThreadLog
from gaptop.lab.fast.view import View
from gaptop.lab.fast.waits import HELD
from gaptop.lab.scenarios import SCENARIOS

from .lab_fast import batches, column, made, sources


def scraped(busy: float, count: int = 4000) -> list[tuple[float, float]]:
    """When each scrape was sent and how long it took, with an event loop that is at work for so long at each."""
    scrapes = Scrapes(SCENARIOS["steady"].engine, View(), (1,), 1, 0.0, Random(3))
    found = []
    for _ in range(count):
        sent = scrapes.due
        list(scrapes.act(sent, sent + busy))
        answered = scrapes.due
        list(scrapes.act(answered, answered))
        found.append((sent, answered - sent))
    return found


def test_values_are_stamped_where_they_were_taken_right_before_the_answer() -> None:
    scrapes = Scrapes(SCENARIOS["steady"].engine, View(), (1,), 1, 0.0, Random(3))
    before = []
    for busy in (0.0, 0.0, 0.3, 0.0):
        sent = scrapes.due
        list(scrapes.act(sent, sent + busy))
        answered = scrapes.due
        (batch,) = batches(tuple(scrapes.act(answered, answered)), "metrics/")
        before.append(answered - batch.t[0])
    assert all(SERVICE[0] / 2 - 1e-6 <= ago <= SERVICE[1] / 2 + 1e-6 for ago in before), before


def test_scrapes_are_sent_some_milliseconds_late() -> None:
    spacings = [after[0] - before[0] for before, after in zip(scraped(0.0), scraped(0.0)[1:], strict=False)]
    assert median(spacings) == pytest.approx(0.5, abs=0.0005)
    assert len({round(spacing, 4) for spacing in spacings}) > 50
    assert 0.51 < max(spacings) < 0.55


def test_only_a_busy_event_loop_lets_a_scrape_wait_in_its_line() -> None:
    idle, step, busy = ([took for _, took in scraped(seconds)] for seconds in (0.0, 0.002, 0.01))
    assert max(idle) <= SERVICE[1] + 1e-6
    assert max(step) <= 0.002 + SERVICE[1] + 1e-6
    slow = [took for took in busy if took > 0.05]
    assert 0.08 < len(slow) / len(busy) < 0.12
    assert QUEUED[0] < min(slow) < 0.2
    assert 0.8 < max(slow) < QUEUED[1] + 0.03


def test_a_slow_scrape_is_in_the_error_that_the_source_declares() -> None:
    lines = made("host_tokenize", 31.0)
    took = column(batches(lines, "metrics/"), "latency.scrape")
    server = next(line for key, line in sources(lines).items() if key.startswith("metrics/"))
    assert server.error >= max(took) / 2


def test_what_a_thread_did_is_booked_at_the_next_tick() -> None:
    """A window holds up to 4 ms of its neighbours, never more than it is long."""
    lines = made("host_schedule", 31.0)
    ran = column(batches(lines, "proc/4180"), "host.oncpu{tid=4180}")
    assert max(ran) == 1.0
    source = sources(lines)["proc/4180"]
    assert source.error == ERROR
    quiet = made("no_demand", 14.0)
    slept = column(batches(quiet, "proc/4180"), "host.blocked{on=futex,tid=4180}")
    assert max(slept) == 1.0


@pytest.mark.parametrize(("spins", "ran"), [(False, 0.1), (True, 1.0)])
def test_a_wait_for_the_device_sleeps_or_keeps_its_core(spins: bool, ran: float) -> None:
    log = ThreadLog(ThreadOf(4180, "MainThread", "vllm", "engine", "engine"), 0.0, spins)
    log.add(HostSpan(0.0, 0.1, "engine", "launch", False))
    log.add(HostSpan(0.1, 1.0, "engine", "device_sync", True))
    found = log.shares(1.0)
    assert found.ran == pytest.approx(ran)
    assert sum(found.slept.values()) == pytest.approx(1.0 - ran)


def test_a_wait_for_the_lock_sleeps_even_where_waits_for_the_device_spin() -> None:
    log = ThreadLog(ThreadOf(4180, "MainThread", "vllm", "engine", "engine"), 0.0, True)
    log.add(HostSpan(0.0, 1.0, "engine", "schedule", True))
    assert log.shares(1.0).slept == {"futex": pytest.approx(1.0)}


def test_the_stream_of_a_spinning_server_shows_a_busy_core() -> None:
    shown = [
        sum(found) / len(found)
        for spins in (False, True)
        if (found := column(batches(made("steady", 12.0, View(sync_spins=spins)), "proc/4180"), "host.oncpu{tid=4180}"))
    ]
    assert shown[0] < 0.5
    assert shown[1] > 0.9


@pytest.mark.parametrize("held", [False, True])
def test_an_engine_that_keeps_its_core_asks_for_requests_only_while_it_holds_none(held: bool) -> None:
    log = ThreadLog(ThreadOf(4180, "MainThread", "vllm", "engine", "engine"), 0.0)
    log.held = held
    log.add(HostSpan(0.0, 1.0, "engine", "poll", False))
    (did,) = log.spans
    assert (did.phase, did.state) == ((HELD, "sleep") if held else ("await_requests", ""))
