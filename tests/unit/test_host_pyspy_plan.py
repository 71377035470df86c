"""Rates stay inside the budget, and py-spy's refusals become sentences with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.host import pyspy_command
from gaptop_collectors.host.pyspy_budget import (
    BUDGET,
    FIRST_RATE,
    Load,
    Plan,
    Purse,
    closer,
    guessed_tick,
    make_plan,
    overlap_ns,
)

HANDOVER = 0.018


def tick_seconds(python: int, native: int) -> float:
    """Twice what was measured on a quiet host."""
    return 54e-6 * python + 8e-6 * native


def cost(loads: list[Load[str]], plan: Plan[str]) -> float:
    ticks = {load.key: load.tick for load in loads}
    total = 0.0
    for key, rate in plan.rates.items():
        both = overlap_ns(rate) / 1e9 / plan.window  # two recorders at once
        total += HANDOVER / plan.window + rate * ticks[key] * (1 + both)
    return total


def rates(plan: Plan[str]) -> tuple[float, dict[str, int]]:
    return plan.window, plan.rates


def vllm(workers: int) -> list[Load[str]]:
    found = [Load("engine", True, tick_seconds(7, 25))]
    found += [Load(f"worker{n}", True, tick_seconds(3, 45)) for n in range(workers)]
    return [*found, Load("api", False, tick_seconds(8, 30))]


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_all_recorders_together_stay_inside_the_budget(workers: int) -> None:
    loads = vllm(workers)
    plan = make_plan(loads)
    assert cost(loads, plan) <= BUDGET + 1e-9
    assert set(plan.rates) == {load.key for load in loads}
    assert plan.rates["engine"] >= plan.rates["api"]


def test_one_small_server_is_sampled_at_the_highest_rate() -> None:
    assert rates(make_plan([Load("server", True, tick_seconds(3, 5))])) == (4.0, {"server": 50})


def test_a_server_with_many_threads_is_sampled_slowly() -> None:
    load = Load("server", True, tick_seconds(60, 100))
    plan = make_plan([load])
    assert 5 <= plan.rates["server"] < 10
    assert cost([load], plan) <= BUDGET
    assert plan.share == pytest.approx(cost([load], plan))
    assert not plan.over


@pytest.mark.parametrize("threads", [7, 60, 160])
@pytest.mark.parametrize("thread", [27e-6, 140e-6])  # shallow stacks on a quiet host, deep ones on a crowded one
def test_the_budget_holds_however_many_threads_there_are(threads: int, thread: float) -> None:
    load = Load("server", True, thread * threads)
    plan = make_plan([load])
    assert cost([load], plan) <= BUDGET
    assert not plan.over


def test_a_process_that_cannot_be_had_within_the_budget_is_said_to_cost_more() -> None:
    plan = make_plan([Load("server", True, 0.05)])
    assert plan.rates == {"server": 1}
    assert plan.over
    assert plan.share > BUDGET


@pytest.mark.parametrize("threads", [7, 60, 160])
def test_a_process_that_is_not_known_yet_begins_slowly(threads: int) -> None:
    loads = [Load("engine", True, 0.0004), Load("worker", True, guessed_tick(threads), known=False)]
    plan = make_plan(loads)
    assert plan.rates["worker"] <= FIRST_RATE
    assert cost(loads, plan) <= BUDGET
    assert make_plan([Load("worker", True, guessed_tick(7), known=False)]).rates == {"worker": FIRST_RATE}


def test_two_recorders_at_once_do_not_last_long_where_samples_are_rare() -> None:
    assert overlap_ns(50) == 100_000_000
    assert overlap_ns(1) == 500_000_000


def test_a_closer_look_is_as_fast_as_what_was_saved_pays_for() -> None:
    loads = [Load("engine", True, 0.0005), Load("api", False, 0.001)]
    plan = make_plan(loads)
    assert plan.rates["engine"] <= 50
    assert closer(loads, plan, 3.0, 0.3) == 100
    paid = closer(loads, plan, 3.0, 0.08)
    assert paid is not None
    assert plan.rates["engine"] < paid < 100
    assert HANDOVER + (paid - plan.rates["engine"]) * 0.0005 * 3.0 <= 0.08
    assert closer(loads, plan, 3.0, 0.02) is None, "hardly faster: not worth a hand-over"
    assert closer([Load("engine", True, 0.0005, known=False)], plan, 3.0, 0.3) is None
    assert closer([], make_plan([]), 3.0, 0.3) is None


def test_what_was_spent_too_much_is_paid_back_by_slower_rates() -> None:
    purse = Purse(saved=0.0)
    assert purse.for_plan == pytest.approx(0.035)
    purse.settle(10.0, 0.6)  # 0.2 s more than ten seconds bring
    assert purse.for_plan == pytest.approx(0.035 - 0.2 / 60)
    load = Load("engine", True, 0.001)
    assert make_plan([load], budget=purse.for_plan).rates["engine"] < make_plan([load]).rates["engine"]
    purse.settle(20.0, 0.0)
    assert purse.for_plan == pytest.approx(0.035), "what is saved is for closer looks"
    purse.settle(1000.0, 0.0)
    assert purse.saved == pytest.approx(0.3), "and not for ever"
    purse.settle(1.0, 0.0, 0.0)
    assert purse.saved == 0.0, "nor where no closer look could be paid"


def test_a_deep_debt_is_slept_off() -> None:
    purse = Purse(saved=0.0)
    purse.settle(0.0, 0.35)
    assert not purse.may_begin
    purse.judge(slow_enough=True, seen_enough=True)
    purse.judge(slow_enough=False, seen_enough=False)
    assert not purse.empty
    purse.judge(slow_enough=False, seen_enough=True)
    assert purse.empty
    purse.settle(9.0, 0.0)  # out of the plan's 3.5 %
    assert purse.empty, "until all of it is paid back"
    purse.settle(1.1, 0.0)
    assert not purse.empty
    assert purse.may_begin
    purse.settle(0.0, 2.5)
    purse.judge(slow_enough=True, seen_enough=False)
    assert purse.empty, "there is an end to everything"


def test_windows_grow_where_starting_alone_would_eat_the_budget() -> None:
    dear = [Load(f"worker{n}", True, 0.001, start=0.1) for n in range(2)]
    plan = make_plan(dear)
    assert plan.window == 20.0  # 0.218 s a window for both is 1.1 % of a core, a third of the budget
    assert plan.share <= BUDGET
    assert not plan.over
    many = make_plan([Load(f"worker{n}", True, 0.0001, start=0.2) for n in range(12)])
    assert many.window == 32.0
    assert many.over


def test_the_front_end_is_given_up_before_the_engine() -> None:
    loads = [*(Load(f"worker{n}", True, 0.0006) for n in range(8)), Load("api", False, 0.004)]
    plan = make_plan(loads)
    assert "api" not in plan.rates
    assert plan.window == 12.0, "nine hand-overs in eight seconds would take half of it"
    assert all(plan.rates[f"worker{n}"] >= 4 for n in range(8))
    assert cost(loads, plan) <= BUDGET


def test_a_lone_front_end_counts_as_critical() -> None:
    assert make_plan([Load("api", False, tick_seconds(5, 5))]).rates == {"api": 50}


def test_fast_is_the_users_own_wish() -> None:
    assert rates(make_plan(vllm(4), fast=True)) == (1.0, dict.fromkeys([load.key for load in vllm(4)], 100))


def test_nothing_to_watch_needs_no_rates() -> None:
    assert make_plan([]).rates == {}


def fake_proc(folder: Path, *, scope: str | None, capabilities: str = "0000000000000000") -> Path:
    (folder / "self").mkdir()
    (folder / "4242").mkdir()
    (folder / "self/status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    if scope is not None:
        (folder / "sys/kernel/yama").mkdir(parents=True)
        (folder / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    return folder


@pytest.mark.parametrize(
    ("scope", "own", "owner", "words"),
    [
        ("1", 1000, 1000, ["ptrace_scope is 1", "sudo gaptop record -o - | gaptop open -", "sysctl", "SYS_PTRACE"]),
        ("3", 1000, 1000, ["ptrace_scope is 3", "reboot"]),
        (None, 1000, 1001, ["belongs to user id 1001", "sudo gaptop record -o - | gaptop open -"]),
        ("2", 1000, 1000, ["ptrace_scope is 2", "CAP_SYS_PTRACE", "sudo gaptop record -o - | gaptop open -"]),
        ("1", 0, 0, ["even as root", "--cap-add SYS_PTRACE", "securityContext.capabilities.add"]),
        ("2", 0, 0, ["even as root", "--cap-add SYS_PTRACE"]),
        (None, 0, 1000, ["even as root", "--cap-add SYS_PTRACE"]),
        (None, 1000, 1000, ["--cap-add SYS_PTRACE"]),
    ],
)
def test_a_refusal_tells_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str | None, own: int, owner: int, words: list[str]
) -> None:
    proc = fake_proc(tmp_path, scope=scope)
    monkeypatch.setattr("os.geteuid", lambda: own)
    monkeypatch.setattr(pyspy_command, "_owner", lambda pid, proc: owner)
    error = pyspy_command.refusal(4242, proc)
    assert error.state == "refused"
    assert "\n" not in error.says
    assert [word for word in words if word not in error.says] == []


@pytest.mark.parametrize(("own", "owner"), [(0, 0), (0, 1000), (1000, 1000), (1000, 1001)])
def test_a_refusal_in_spite_of_the_capability_is_not_blamed_on_its_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int, owner: int
) -> None:
    proc = fake_proc(tmp_path, scope="1", capabilities="0000000000080000")
    monkeypatch.setattr("os.geteuid", lambda: own)
    monkeypatch.setattr(pyspy_command, "_owner", lambda pid, proc: owner)
    says = pyspy_command.refusal(4242, proc).says
    assert "although gaptop has CAP_SYS_PTRACE" in says
    assert "user namespace" in says
    assert "--cap-add" not in says


@pytest.mark.parametrize(
    ("output", "state", "word"),
    [
        ("Permission Denied: Try running again with elevated permissions by going 'sudo'", "refused", "4242"),
        ("Error: Failed to get process executable name.\n 0: Permission denied (os error 13)", "refused", ""),
        ("Error: Failed to find python version from target process", "absent", "no Python"),
        ("Error: Failed to get process executable name.\nCaused by: No such file or directory (os error 2)", "absent",
         "has ended"),
        ("[x INFO  py_spy] config\nError: out of luck\n\nStack backtrace:\n  0: y", "failing", "Error: out of luck"),
        ("", "failing", "exit code 101"),
        ("setpriv: failed to execute /x/py-spy: Exec format error", "refused", "another processor"),
    ],
)  # fmt: skip
def test_py_spys_last_words_become_a_sentence(output: str, state: str, word: str) -> None:
    error = pyspy_command.explain(4242, output, 101)
    assert error.state == state
    assert word in error.says
    assert "backtrace" not in error.says


def test_py_spy_is_found_beside_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pyspy_command.find_pyspy().name == "py-spy"


def test_a_missing_py_spy_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(CollectorError, match="pip install py-spy") as caught:
        pyspy_command.find_pyspy()
    assert caught.value.state == "absent"


def test_a_py_spy_that_may_not_be_executed_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "py-spy").write_text("#!/bin/sh\n")
    (tmp_path / "py-spy").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(CollectorError, match="chmod \\+x") as caught:
        pyspy_command.find_pyspy()
    assert caught.value.state == "refused"
    assert "not installed" not in caught.value.says


def test_py_spy_is_never_told_to_stop_the_server_or_to_follow_its_children() -> None:
    stacks, gil = pyspy_command.stack_arguments(4242, 50), pyspy_command.gil_arguments(4242, 100, 5)
    for arguments in (stacks, gil):
        assert arguments[:3] == ["record", "-p", "4242"]
        assert "--nonblocking" in arguments
        assert "-t" in arguments
        assert not {"-s", "--subprocesses", "--native", "-n"} & set(arguments)
    assert "-i" in stacks
    assert stacks[stacks.index("-f") + 1] == "chrometrace"
    assert stacks[stacks.index("-r") + 1] == "50"
    assert {"-d"} <= set(stacks), "one that lost its parent ends by itself"
    assert "--gil" in gil


def test_without_setpriv_the_child_asks_for_the_signal_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    launcher = pyspy_command.make_launcher(Path("/opt/py-spy"))
    assert launcher.command == ("/opt/py-spy",)
    assert launcher.in_child is not None
