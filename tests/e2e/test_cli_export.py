"""``gaptop export``: a recording's stacks as folded lines and as a speedscope file; refusals as one sentence."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from gaptop.recording.lines import Frames, Header, Health, Source, Spans, Tick, Verdict, decode, encode
from gaptop.recording.writer import StreamWriter
from tests.e2e.terminal import GAPTOP

TOUR = Path(__file__).parent.parent / "data" / "lab" / "tour.gaptop"
ENGINE, API, POOL = 8548, 8547, 8553
"""Threads of the recorded lab."""


def run(*words: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([GAPTOP, "export", *map(str, words)], input=stdin, capture_output=True, timeout=90)


def weights(text: bytes) -> dict[str, int]:
    found = (line.rsplit(" ", 1) for line in text.decode().splitlines())
    return {names: int(weight) for names, weight in found}


def one_sentence(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), said
    assert "Traceback" not in said
    return said.strip().rsplit("\n", 1)[-1]


def test_folded_lines_of_an_interval_add_up_to_what_was_seen_of_it() -> None:
    done = run(TOUR, "--as", "folded", "--from", "10", "--to", "14.5")
    assert done.returncode == 0, done.stderr
    found = weights(done.stdout)
    assert all(names.startswith(f"LAB::EngineCore (pid {ENGINE});MainThread (tid {ENGINE});") for names in found)
    assert sum(found.values()) == pytest.approx(4500, abs=len(found))
    said = done.stderr.decode()
    assert said.count("\n") == 1
    assert "1 thread from 10.00 s to 14.50 s (weights are milliseconds), seen 100.0% of that time" in said


def test_a_valley_is_the_time_that_the_report_gives_it_and_shows_what_its_verdict_says(tmp_path: Path) -> None:
    report = json.loads(subprocess.run([GAPTOP, "report", "--json", TOUR], capture_output=True, timeout=90).stdout)
    valley = next(item for item in report["valleys"] if item["cause"] == "host_starvation")
    (thread,) = valley["stacks"]
    done = run(TOUR, "--as", "speedscope", "--valley", valley["id"], "-o", tmp_path / "valley.json")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    (profile,) = json.loads((tmp_path / "valley.json").read_text())["profiles"]
    assert profile["startValue"] == pytest.approx(valley["start_s"], abs=1e-3)
    assert profile["endValue"] == pytest.approx(valley["end_s"], abs=1e-3)
    assert f"(tid {thread['tid']})" in profile["name"]
    folded = weights(run(TOUR, "--as", "folded", "--valley", valley["id"]).stdout)
    leaf = thread["paths"][0]["frames"][-1]["function"]
    inside = sum(weight for names, weight in folded.items() if names.rsplit(";", 1)[-1].startswith(f"{leaf} ("))
    assert inside / sum(folded.values()) == pytest.approx(thread["paths"][0]["share_ratio"], abs=0.01)


def test_threads_are_chosen_by_what_they_are_or_by_their_id() -> None:
    def threads(chosen: str) -> list[int]:
        file = json.loads(run(TOUR, "--as", "speedscope", "--thread", chosen).stdout)
        return [int(profile["name"].rpartition("tid ")[2].rstrip(")")) for profile in file["profiles"]]

    assert threads("critical") == [ENGINE]
    assert threads(str(POOL)) == [POOL]
    every = threads("all")
    assert every[0] == ENGINE
    assert {ENGINE, API, POOL} < set(every)


def test_a_new_file_is_private_and_an_old_one_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    assert run(TOUR, "--as", "folded", "-o", out).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.write_text("mine")
    said = one_sentence(run(TOUR, "--as", "folded", "-o", out), 4)
    assert said == f"gaptop: {out} exists and is not overwritten; remove it, or give another name with -o."
    assert out.read_text() == "mine"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert "is not overwritten" in one_sentence(run(TOUR, "--as", "folded", "-o", link), 4)
    assert not (tmp_path / "elsewhere").exists()
    nowhere = tmp_path / "no" / "such" / "folder"
    assert f"cannot write {nowhere}: No such file or directory" in one_sentence(
        run(TOUR, "--as", "folded", "-o", nowhere), 4
    )


def test_a_file_that_was_cut_gives_what_it_holds(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gaptop"
    cut.write_bytes(TOUR.read_bytes()[: TOUR.stat().st_size // 2])
    done = run(cut, "--as", "folded")
    assert done.returncode == 0
    assert f"{cut} was read up to its last whole line only" in done.stderr.decode()
    whole, part = weights(run(TOUR, "--as", "folded").stdout), weights(done.stdout)
    assert part
    assert sum(part.values()) < sum(whole.values())


def test_a_stream_may_come_through_a_pipe() -> None:
    plain = gzip.decompress(TOUR.read_bytes())
    assert run("-", "--as", "folded", stdin=plain).stdout == run(TOUR, "--as", "folded").stdout


def test_a_later_map_finds_the_raw_frames_in_an_old_file(tmp_path: Path) -> None:
    """An activity is no part of a recording: rules of today read stacks of then."""
    folder = tmp_path / "gaptop"
    folder.mkdir()
    (folder / "activities.toml").write_text('[[rule]]\nactivity = "tokenize"\nframes = ["**: schedule"]\n')
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    told = {}
    for name, env in (("own", environ), ("usual", {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "none")})):
        done = subprocess.run([GAPTOP, "report", "--json", TOUR], env=env, capture_output=True, timeout=90)
        assert done.returncode == 0, done.stderr
        valleys = json.loads(done.stdout)["valleys"]
        paths = [path for valley in valleys for thread in valley["stacks"] for path in thread["paths"]]
        told[name] = {path["activity"] for path in paths if path["frames"][-1]["function"] == "Scheduler.schedule"}
    assert told == {"own": {"tokenize"}, "usual": {"schedule"}}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--as", "pprof"], "'pprof' is not one of 'folded', 'speedscope'"),
        (["--as", "folded", "--valley", "u1.00", "--from", "3"], "--valley names a time already"),
        (["--as", "folded", "--from", "9", "--to", "9"], "nothing lies between 9 s and 9 s"),
        (["--as", "folded", "--from", "nan"], "'nan' is no moment"),
        (["--as", "folded", "--thread", "main"], "'main' is no choice of threads"),
        (["--as", "folded", "--valley", "u1.00"], f"{TOUR} has no valley u1.00; it has p3.26, "),
    ],
)
def test_a_wrong_question_is_answered_with_a_sentence(words: list[str], says: str) -> None:
    assert says in one_sentence(run(TOUR, *words), 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--thread", "77"], f"holds no stacks of a thread 77; it has those of {ENGINE} (MainThread, LAB::EngineCore"),
        (["--from", "500", "--to", "501"], "no stack of these threads was seen between 500.00 s and 501.00 s (100.0%"),
    ],
)
def test_what_was_not_seen_is_a_sentence(words: list[str], says: str) -> None:
    assert says in one_sentence(run(TOUR, "--as", "folded", *words), 3)


def test_a_file_that_is_no_recording_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    assert "is not a gaptop stream" in one_sentence(run(tmp_path / "text", "--as", "folded"), 4)
    assert "No such file" in one_sentence(run(tmp_path / "none", "--as", "folded"), 4)


def recording(path: Path, *lines: Source | Frames | Spans | Health | Verdict | Tick) -> Path:
    writer = StreamWriter(path, compress=True)
    for line in (Header("gaptop", (1, 0), "0", "2026-01-01T00:00:00Z", 1), *lines, Tick(9.0)):
        writer.write(line)
    writer.close()
    return path


def test_why_there_are_no_stacks_is_said(tmp_path: Path) -> None:
    says = "py-spy is not installed, so no stack is seen; pip install py-spy."
    health = Health(1.0, "host.threads_pyspy", "host.threads_pyspy", "absent", says=says)
    said = one_sentence(run(recording(tmp_path / "none", health), "--as", "folded"), 3)
    assert said == f"gaptop: {tmp_path / 'none'} holds no stacks: {says}"
    assert "no recorder delivered any" in one_sentence(run(recording(tmp_path / "bare"), "--as", "folded"), 3)


def test_only_other_threads_are_named(tmp_path: Path) -> None:
    entity = {"pid": 7, "role": "api", "name": "vllm", "threads": [{"tid": 8, "name": "\x1b[2Jloop"}]}
    source = Source(0.0, "threads/7", "host.threads_pyspy", "process", entity, (), 0.02)
    lines = (source, Frames("threads/7", {"1": [["run", "a.py", 1]]}), Spans("threads/7", (0, 9), [8], [0], [9], [1]))
    done = run(recording(tmp_path / "api", *lines), "--as", "folded")
    said = one_sentence(done, 3)
    assert "no stacks of a thread that the device waits for; it has those of 8 (" in said
    assert "\x1b" not in said
    assert weights(run(tmp_path / "api", "--as", "folded", "--thread", "all").stdout) == {
        "vllm (pid 7);\u241b[2Jloop (tid 8);run (a.py:1)": 9000
    }
    assert decode(encode(lines[1])) == lines[1]
