"""Rates stay inside the budget, and py-spy's refusals become sentences with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.host import pyspy_command
from gaptop_collectors.host.pyspy_budget import BUDGET, Load, Plan, make_plan, tick_seconds

HANDOVER = 0.018


def cost(loads: list[Load[str]], plan: Plan[str]) -> float:
    ticks = {load.key: load.tick for load in loads}
    return sum(HANDOVER / plan.window + rate * ticks[key] for key, rate in plan.rates.items())


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
    assert make_plan([Load("server", True, tick_seconds(3, 5))]) == Plan(4.0, {"server": 50})


def test_a_server_with_many_threads_is_sampled_slowly() -> None:
    plan = make_plan([Load("server", True, tick_seconds(60, 100))])
    assert 10 <= plan.rates["server"] < 20


def test_the_front_end_is_given_up_before_the_engine() -> None:
    loads = [*(Load(f"worker{n}", True, 0.0006) for n in range(8)), Load("api", False, 0.004)]
    plan = make_plan(loads)
    assert "api" not in plan.rates
    assert plan.window == 8.0
    assert all(plan.rates[f"worker{n}"] >= 5 for n in range(8))


def test_a_lone_front_end_counts_as_critical() -> None:
    assert make_plan([Load("api", False, tick_seconds(5, 5))]).rates == {"api": 50}


def test_fast_is_the_users_own_wish() -> None:
    assert make_plan(vllm(4), fast=True) == Plan(1.0, dict.fromkeys([load.key for load in vllm(4)], 100))


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
        ("1", 0, 0, ["even as root", "--cap-add SYS_PTRACE"]),
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


def test_without_setpriv_the_child_asks_for_the_signal_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    launcher = pyspy_command.make_launcher(Path("/opt/py-spy"))
    assert launcher.command == ("/opt/py-spy",)
    assert launcher.in_child is not None
