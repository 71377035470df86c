"""Signals that end a run: the first is noted, the second interrupts, and what was ignored stays ignored."""

from __future__ import annotations

import signal

import pytest

from gaptop.cli.ending import Ending


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_is_noted_and_the_second_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Ending() as ending:
        assert not ending.wanted
        signal.raise_signal(number)
        assert ending.wanted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Ending() as ending:
            signal.raise_signal(signal.SIGHUP)
            assert not ending.wanted
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
