"""Quotas, throttling and pressure from cgroup files of both versions, as they are mounted in the wild."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, Message, SourceInfo
from gaptop_collectors.host.cgroup import Cgroup
from gaptop_collectors.host.cgroup_files import Place, Quota, places, throttled_seconds, tightest
from gaptop_collectors.target import ServerProcess


class Tree:
    def __init__(self, *processes: ServerProcess) -> None:
        self.processes = list(processes)

    def current(self) -> list[ServerProcess]:
        return list(self.processes)

    def why_empty(self) -> str:
        return "" if self.processes else "The server has ended."


def values(messages: list[Message]) -> dict[str, float | None]:
    return {key: column[0] for m in messages if isinstance(m, Batch) for key, column in m.values.items()}


def proc_with(folder: Path, cgroup: str, mounts: str) -> Path:
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "7").mkdir()
    (proc / "7/cgroup").write_text(cgroup)
    (proc / "self/mountinfo").write_text(mounts.replace("ROOT", str(folder)))
    (proc / "stat").write_text("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2 3\n")
    return proc


V2 = "30 24 0:26 / ROOT/cg rw - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 / ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 31 0:30 / ROOT/mem rw - cgroup cgroup rw,memory\n"


def test_throttling_of_version_2_counts_the_parents_too(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/pod/box\n", V2)
    (tmp_path / "cg/pod/box").mkdir(parents=True)
    (tmp_path / "cg/cpu.stat").write_text("usage_usec 9\n")
    (tmp_path / "cg/pod/cpu.stat").write_text("usage_usec 9\nnr_throttled 3\nthrottled_usec 1500000\n")
    (tmp_path / "cg/pod/box/cpu.stat").write_text("usage_usec 9\nthrottled_usec 250000\n")
    found = places(7, proc)
    assert [place.version for place in found] == [2]
    assert throttled_seconds(found[0]) == pytest.approx(1.75)


def test_throttling_of_version_1_is_in_nanoseconds(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "4:memory:/box\n3:cpuacct,cpu:/box\n0::/\n", V1)
    (tmp_path / "cpu/box").mkdir(parents=True)
    (tmp_path / "cpu/box/cpu.stat").write_text("nr_periods 4\nnr_throttled 2\nthrottled_time 2500000000\n")
    found = places(7, proc)
    assert [place.version for place in found] == [1]
    assert throttled_seconds(found[0]) == pytest.approx(2.5)


def test_another_container_s_group_is_not_taken_for_our_own(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/../other\n", V2)
    (tmp_path / "cg").mkdir()
    (tmp_path / "cg/cpu.stat").write_text("throttled_usec 7000000\n")
    assert places(7, proc) == [Place(2, ())]
    collector = Cgroup(Tree(ServerProcess(7, "server", "x", False, 1)), "http://127.0.0.1:8000", proc=proc)
    collector.open()
    messages = list(collector.sample())
    assert "host.throttled" not in values(messages)
    infos = {m.source: m for m in messages if isinstance(m, SourceInfo)}
    assert "another container's" in infos["cgroup/http://127.0.0.1:8000"].unsupported["host.throttled"]


def test_another_container_s_group_is_read_where_that_has_it_mounted(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/../other/inner\n", V2)
    (tmp_path / "cg").mkdir()
    (tmp_path / "cg/cpu.stat").write_text("throttled_usec 7000000\n")
    theirs = proc / "7/root/sys/fs/cgroup/inner"
    theirs.mkdir(parents=True)
    (theirs / "cpu.stat").write_text("throttled_usec 1000000\n")
    (theirs.parent / "cpu.max").write_text("150000 100000\n")
    (proc / "7/mountinfo").write_text("30 24 0:26 /../other /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
    found = places(7, proc)
    assert throttled_seconds(found[0]) == pytest.approx(1.0)
    assert tightest(found) == Quota(1.5, 0, 0)


def test_version_1_s_own_mount_of_another_container_is_not_the_server_s(tmp_path: Path) -> None:
    mounts = "32 31 0:29 /docker/us ROOT/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    proc = proc_with(tmp_path, "3:cpu,cpuacct:/docker/server\n0::/\n", mounts)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.stat").write_text("throttled_time 2500000000\n")
    assert places(7, proc) == [Place(1, ())]


def test_mixed_mounts_names_with_spaces_and_the_widest_view(tmp_path: Path) -> None:
    mounts = (
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 /pod ROOT/narrow rw - cgroup cgroup rw,cpu\n"
        "33 31 0:29 / ROOT/wide\\040one rw shared:9 master:1 - cgroup cgroup rw,cpu\n"
        "34 31 0:30 / ROOT/acct rw - cgroup cgroup rw,cpuacct\n"
        "35 31 0:31 / ROOT/unified rw - cgroup2 cgroup2 rw\n"
        "broken line\n"
    )
    proc = proc_with(tmp_path, "9:name=systemd:/x:y\n3:cpu:/pod/a:b\n0::/\n", mounts)
    (tmp_path / "wide one/pod/a:b").mkdir(parents=True)
    (tmp_path / "unified").mkdir()
    (tmp_path / "wide one/pod/cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "wide one/pod/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "wide one/pod/cpu.stat").write_text("nr_periods 40\nnr_throttled 10\nthrottled_time 5\n")
    (tmp_path / "wide one/pod/a:b/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "wide one/pod/a:b/cpu.cfs_period_us").write_text("100000\n")
    found = places(7, proc)
    assert [place.version for place in found] == [1, 2]
    assert found[0].folders[-1] == tmp_path / "wide one"
    assert tightest(found) == Quota(0.5, 40, 10)


def test_the_quota_and_the_group_s_pressure_are_told(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/pod/box\n", V2)
    box = tmp_path / "cg/pod/box"
    box.mkdir(parents=True)
    (box / "cpu.max").write_text("max 100000\n")
    (box / "cpu.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=750000\n")
    (box.parent / "cpu.max").write_text("200000 100000\n")
    (box.parent / "cpu.stat").write_text("usage_usec 9\nnr_periods 8\nnr_throttled 2\nthrottled_usec 1500000\n")
    for pid in (8, 9):
        (proc / str(pid)).mkdir()
        (proc / str(pid) / "cgroup").write_text("0::/pod/box\n" if pid == 8 else "0::/pod\n")
    several = [ServerProcess(pid, "worker", "x", False, 1) for pid in (7, 8, 9)]
    collector = Cgroup(Tree(*several), "http://127.0.0.1:8000", host=False, proc=proc)
    collector.open()
    messages = list(collector.sample())
    assert values(messages) == {
        "host.throttled": pytest.approx(1.5),
        "host.quota_cores": 2.0,
        "host.quota_periods": 8.0,
        "host.throttled_periods": 2.0,
        "host.group_pressure{resource=cpu}": pytest.approx(0.75),
    }, "groups that processes share count once"


def test_no_quota_is_said_and_not_zero(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/\n", V2)
    (tmp_path / "cg").mkdir()
    (tmp_path / "cg/cpu.stat").write_text("usage_usec 9\n")
    collector = Cgroup(Tree(ServerProcess(7, "server", "x", False, 1)), "http://127.0.0.1:8000", proc=proc)
    collector.open()
    messages = list(collector.sample())
    infos = {m.source: m for m in messages if isinstance(m, SourceInfo)}
    assert "no CPU quota" in infos["cgroup/http://127.0.0.1:8000"].unsupported["host.throttled"]
    assert "CONFIG_PSI" in infos["host"].unsupported["host.pressure"]
    assert "host.throttled" not in values(messages)


def test_the_host_s_share_and_pressure(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/\n", V2)
    (proc / "pressure").mkdir()
    (proc / "pressure/cpu").write_text("some avg10=1.00 avg60=0.5 avg300=0.1 total=2500000\nfull avg10=0 total=0\n")
    collector = Cgroup(Tree(), proc=proc)
    collector.open()
    first = list(collector.sample())
    assert "host.busy" not in values(first), "a share needs two readings some time apart"
    assert (
        "hypervisor"
        in next(m for m in first if isinstance(m, SourceInfo) and m.source == "host").unsupported["host.steal"]
    )
    (proc / "stat").write_text("cpu  160 0 70 900 40 5 5 20 0 0\n")
    found = values(list(collector.sample()))
    assert found["host.busy"] == pytest.approx(80 / 200)
    assert found["host.steal"] == pytest.approx(20 / 200)
    assert found["host.pressure{resource=cpu}"] == pytest.approx(2.5)


def test_of_several_servers_only_one_speaks_for_the_host(tmp_path: Path) -> None:
    proc = proc_with(tmp_path, "0::/\n", V2)
    collector = Cgroup(Tree(), "http://127.0.0.1:8001", host=False, proc=proc)
    collector.open()
    assert {m.source for m in collector.sample() if isinstance(m, SourceInfo)} == {"cgroup/http://127.0.0.1:8001"}
