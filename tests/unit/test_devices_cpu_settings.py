"""What a server was told about waiting, and how many cores its threads may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaptop_collectors.devices.cpu_cores import affine, quota
from gaptop_collectors.devices.cpu_settings import Waiting

MAPS = """\
7f0000000000-7f0000010000 r-xp 00000000 fe:00 1 /usr/lib/libc.so.6
7f0000020000-7f0000030000 r-xp 00000000 fe:00 2 {library}
7f0000040000-7f0000050000 rw-p 00000000 00:00 0
"""
GOMP = "/opt/torch/lib/libgomp-a34b3233.so.1"
INTEL = "/opt/lib/libiomp5.so"
LIBC_ADDRESS = 0x7F0000001000
LIBRARY_ADDRESS = 0x7F0000021000


def waiting(root: Path, environ: str = "", library: str = "/usr/lib/libm.so.6") -> Waiting:
    folder = root / "10"
    folder.mkdir()
    (folder / "environ").write_bytes(environ.replace(" ", "\0").encode())
    (folder / "maps").write_text(MAPS.format(library=library))
    found = Waiting(10, root)
    found.look()
    return found


@pytest.mark.parametrize(
    ("environ", "library", "never", "words"),
    [
        ("", GOMP, False, ""),
        ("A=1 OMP_WAIT_POLICY=PASSIVE KEY=s3cret", GOMP, True, "OMP_WAIT_POLICY=PASSIVE"),
        ("OMP_WAIT_POLICY=active", GOMP, False, "OMP_WAIT_POLICY=active"),
        (
            "OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=300000",
            GOMP,
            False,
            "GOMP_SPINCOUNT=300000, OMP_WAIT_POLICY=passive",
        ),
        ("GOMP_SPINCOUNT=0", GOMP, True, "GOMP_SPINCOUNT=0"),
        ("GOMP_SPINCOUNT=0", INTEL, False, "GOMP_SPINCOUNT=0"),
        ("KMP_BLOCKTIME=0", INTEL, True, "KMP_BLOCKTIME=0"),
        ("OMP_WAIT_POLICY=passive", "/usr/lib/libomp.so.5", True, "OMP_WAIT_POLICY=passive"),
        ("OMP_WAIT_POLICY=passive", "/usr/lib/libm.so.6", False, ""),
        ("OMP_WAIT_POLICY=[red]x", GOMP, False, ""),
    ],
)
def test_settings_that_bear_on_waiting(tmp_path: Path, environ: str, library: str, never: bool, words: str) -> None:
    found = waiting(tmp_path, environ, library)
    assert (found.never_spins(), found.words) == (never, words)


def test_where_the_main_thread_sleeps(tmp_path: Path) -> None:
    found = waiting(tmp_path, library=GOMP)
    assert found.sleep(LIBC_ADDRESS, LIBC_ADDRESS) == "elsewhere"
    assert found.sleep(LIBC_ADDRESS, LIBRARY_ADDRESS) == "pool"
    assert found.sleep(LIBRARY_ADDRESS, LIBC_ADDRESS) == "", "it was in the pool for a part of the window"
    assert found.sleep(None, LIBC_ADDRESS) == ""
    assert found.sleep(LIBC_ADDRESS, None) == ""


def test_a_library_that_sleeps_in_the_c_library_hides_where(tmp_path: Path) -> None:
    assert waiting(tmp_path, library=INTEL).sleep(LIBC_ADDRESS, LIBC_ADDRESS) == "unclear"


def test_what_may_not_be_read_tells_nothing(tmp_path: Path) -> None:
    found = Waiting(10, tmp_path)
    found.look()
    assert (found.words, found.never_spins()) == ("", False)


def test_affinities_are_taken_together() -> None:
    """vLLM pins each thread to a core of its own; a thread that has ended is not asked."""
    pinned = {10: {0}, 11: {1}, 12: {1}}

    def affinity(tid: int) -> set[int]:
        try:
            return pinned[tid]
        except KeyError:
            raise ProcessLookupError from None

    assert affine([10, 11, 12, 13], affinity) == 2
    assert affine([13], affinity) == 0


def cgroup(root: Path, groups: dict[int, str], limits: dict[str, str], version: int = 2) -> Path:
    """A /proc whose processes are in these groups; ``limits``: a group's own limit (``150000 100000``)."""
    mount = root / "cgroup"
    kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,cpu"
    (root / "self").mkdir(parents=True)
    (root / "self/mountinfo").write_text(f"30 20 0:1 / {mount} rw - {kind}\n")
    for pid, group in groups.items():
        (root / str(pid)).mkdir()
        (root / str(pid) / "cgroup").write_text(f"0::{group}\n" if version == 2 else f"3:cpu:{group}\n")
        (mount / group.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for group, limit in limits.items():
        folder = mount / group.lstrip("/")
        if version == 2:
            (folder / "cpu.max").write_text(limit + "\n")
        else:
            (folder / "cpu.cfs_quota_us").write_text(limit.split()[0] + "\n")
            (folder / "cpu.cfs_period_us").write_text(limit.split()[1] + "\n")
    return root


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_quota_of_a_chain_of_groups_counts(tmp_path: Path, version: int) -> None:
    none = "max 100000" if version == 2 else "-1 100000"
    proc = cgroup(tmp_path, {10: "/a/b"}, {"/a": "150000 100000", "/a/b": none}, version)
    assert quota([10], proc) == 1.5
    assert quota([10, 10], proc) == 1.5, "one group, however many of its processes"


def test_quotas_of_different_groups_add_up_and_one_without_lifts_all(tmp_path: Path) -> None:
    limits = {"/a": "100000 100000", "/b": "200000 100000", "/c": "max 100000"}
    proc = cgroup(tmp_path, {10: "/a", 11: "/b", 12: "/c"}, limits)
    assert quota([10, 11], proc) == 3.0
    assert quota([10, 12], proc) is None
    assert quota([99], proc) is None
