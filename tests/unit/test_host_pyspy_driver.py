"""The recorders' thread: what it holds is released however it ends, and no wish for a closer look is cut short."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from gaptop_collectors.host import pyspy_driver
from gaptop_collectors.host.pyspy_command import Launcher
from gaptop_collectors.host.pyspy_driver import PySpyDriver
from gaptop_collectors.host.pyspy_fleet import Fleet

LAUNCHER = Launcher(("false",), None)


def open_descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}


def test_one_that_was_never_started_releases_what_it_holds_and_only_once() -> None:
    before = open_descriptors()
    made = PySpyDriver(LAUNCHER)
    assert len(open_descriptors() - before) == 3
    made.end()
    assert open_descriptors() <= before
    read, write = os.pipe()  # takes the numbers that were released
    made.end()
    os.close(read)
    os.close(write)


def test_one_that_ran_releases_what_it_holds() -> None:
    before = open_descriptors()
    made = PySpyDriver(LAUNCHER)
    made.start()
    made.end()
    assert not made.is_alive()
    assert made.failure is None
    made.end()
    assert open_descriptors() <= before


def test_one_that_does_not_end_in_time_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leave = threading.Event()
    monkeypatch.setattr(pyspy_driver, "_PATIENCE", 0.05)
    monkeypatch.setattr(Fleet, "step", lambda fleet, now: leave.wait(10) and [])
    made = PySpyDriver(LAUNCHER)
    made.start()
    made.look_closer(1.0)
    made.end()
    leave.set()
    made.join(10)
    assert not made.is_alive()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "the py-spy driver has not ended within 0.05 s: its last windows are lost")
    ]


def test_a_closer_look_is_not_cut_short_by_a_later_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    told = threading.Event()

    def look(fleet: Fleet, seconds: float, now: int) -> None:
        asked.append(seconds)
        told.set()

    monkeypatch.setattr(Fleet, "look_closer", look)
    driver = PySpyDriver(LAUNCHER)
    driver.look_closer(8.0)
    driver.look_closer(2.0)
    driver.start()
    assert told.wait(10)
    driver.end()
    assert asked == [8.0]
