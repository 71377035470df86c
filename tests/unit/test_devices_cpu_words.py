"""What is said about a CPU device's numbers."""

from __future__ import annotations

from dataclasses import replace

from gaptop_collectors.devices.cpu_words import Account, Facts, sentence

FACTS = Facts(threads=4, cores=4.0, coarse=False, full=False, elsewhere=False, settings=["OMP_WAIT_POLICY=active"])
SECOND = 10**9


def test_waiting_that_was_shown_and_waiting_that_may_be() -> None:
    says = sentence(FACTS, Account(work_ns=6 * SECOND, spun_ns=4 * SECOND, doubtful_ns=SECOND))
    assert "40 % of it was busy-waiting" in says
    assert "Up to 10 % more may have been" in says
    assert "counts as busy" in says
    assert "OMP_WAIT_POLICY=active" in says
    assert "kernel" not in says
    assert "For 5 % of it the main thread was much in the kernel" in sentence(
        FACTS, Account(work_ns=10 * SECOND, yielding_ns=SECOND // 2)
    )


def test_nothing_is_said_of_what_did_not_happen() -> None:
    says = sentence(FACTS, Account(work_ns=6 * SECOND))
    assert "%" not in says
    assert "cannot be told" in says, "but the doubt is always stated"
    assert "%" not in sentence(FACTS, None)
    only_doubt = sentence(FACTS, Account(work_ns=10 * SECOND, doubtful_ns=2 * SECOND))
    assert "Up to 20 % of it may have been busy-waiting" in only_doubt


def test_one_thread_has_no_other_to_be_told_by() -> None:
    says = sentence(replace(FACTS, threads=1), None)
    assert "1 compute thread." in says
    assert "counts as busy" in says
    assert "OMP_WAIT_POLICY" not in says


def test_fewer_cores_than_threads_are_the_whole() -> None:
    assert "4 compute threads, which may use 1.5 cores at once: that is 100 %" in sentence(
        replace(FACTS, cores=1.5), None
    )
    assert "may use 1 core at once" in sentence(replace(FACTS, cores=1.0), None)
