"""Stacks are named rightly: known ones one by one, and recordings of a real vLLM as a whole."""

from __future__ import annotations

import json
import lzma
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaptop_collectors.host.activities import ActivityFileError, load_activities

KNOWN = Path(__file__).parents[1] / "data" / "host" / "known_stacks.txt"
DATA = Path(__file__).parents[1] / "data" / "host" / "vllm_stacks.json"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "vllm"
LEAVES = DATA.with_name("recorded_leaves.tsv")
NAMED = DATA.with_name("named_functions.tsv")
ACTIVITIES = load_activities()

CORE = "vllm/v1/engine/core.py"

Stack = tuple[tuple[str, str, int], ...]


def known() -> Iterator[tuple[str, str, Stack]]:
    for block in KNOWN.read_text().split("\n\n")[1:]:
        title, *frames = block.splitlines()
        name, _, activity = title.partition(" -> ")
        pairs = (frame.split() for frame in frames)
        yield name, activity, tuple((name, f"/opt/venv/lib/python3.12/site-packages/{file}", 7) for name, file in pairs)


@pytest.mark.parametrize(("name", "activity", "stack"), known())
def test_a_known_stack_has_its_activity(name: str, activity: str, stack: Stack) -> None:
    assert ACTIVITIES.classify(stack) == activity, name


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("prefix", ["/opt/venv/lib/python3.12/site-packages/", "/sgl-workspace/sglang/python/", ""])
def test_every_function_that_marks_a_stage_has_its_activity(prefix: str) -> None:
    wrong = {
        (file, function): (found, activity)
        for file, function, activity in rows(NAMED)
        if (found := ACTIVITIES.classify([("main", "/srv/app.py", 1), (function, prefix + file, 7)])) != activity
    }
    assert wrong == {}


def test_names_are_qualified_since_python_3_11() -> None:
    """There it is ``EngineCore.step``, before ``step``."""
    wrong = {
        (file, function): found
        for file, function, activity in rows(NAMED)
        if (found := ACTIVITIES.classify([(f"Some.<locals>.{function}", file, 7)])) != activity
    }
    assert wrong == {}
    assert ACTIVITIES.classify([("understep", CORE, 7)]) == "other"
    assert ACTIVITIES.classify([("step.inner", CORE, 7)]) == "other"


def expected(table: dict[tuple[str, str], list[list[str]]], frames: Stack) -> str:
    """What the table says of a stack, by its innermost frame; "" where it does not know it."""
    function, path, _ = frames[-1]
    on_stack = {frame[0] for frame in frames}
    file = re.sub(r"^.*(site-packages/|/?lib/python3\.\d+/)", "", path)
    for row in table.get((function, file), []):
        if len(row) == 3 or row[3] in on_stack:
            return row[0]
    return ""


def check_each(stacks: Iterable[Stack]) -> None:
    """Every stack gets the activity that the table of recorded frames has for it."""
    table: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows(LEAVES):
        table.setdefault((row[2], row[1]), []).append(row)
    wrong = {
        frames[-1]: (found, wanted)
        for frames in stacks
        if (found := ACTIVITIES.classify(frames)) != (wanted := expected(table, frames))
    }
    assert wrong == {}


def test_an_empty_stack_is_other() -> None:
    assert ACTIVITIES.classify([]) == "other"


def test_a_path_matches_by_whole_components_only() -> None:
    assert ACTIVITIES.classify([("get", "/srv/myqueue.py", 1)]) == "other"
    assert ACTIVITIES.classify([("get", "queue.py", 1)]) == "idle"


def check(samples: Counter[tuple[str, Stack]]) -> None:
    """At least 90 % of what is not idle has a name, in every recording."""
    busy: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for (recording, frames), weight in samples.items():
        activity = ACTIVITIES.classify(frames)
        if activity not in ("idle", "await_requests"):
            busy[recording] += weight
            named[recording] += weight * (activity != "other")
    assert busy
    assert {name: named[name] / busy[name] for name in busy if named[name] < 0.9 * busy[name]} == {}


def test_the_excerpt_of_a_real_vllm_is_understood() -> None:
    data = json.loads(DATA.read_text())
    table = [(function, file, line) for function, file, line in data["frames"]]
    samples: Counter[tuple[str, Stack]] = Counter()
    shares: Counter[tuple[str, str, str, str]] = Counter()
    for recording, role, thread, milliseconds, numbers in data["stacks"]:
        frames = tuple(table[number] for number in numbers)
        samples[recording, frames] += milliseconds
        shares[recording, role, thread, ACTIVITIES.classify(frames)] += milliseconds
    check(samples)
    check_each(frames for _, frames in samples)
    frozen = {key[3]: spent for key, spent in shares.items() if key[:3] == ("jit_stall", "worker", "MainThread")}
    assert max(frozen, key=lambda activity: frozen[activity]) == "compile"
    engine = {key[3]: spent for key, spent in shares.items() if key[:3] == ("kv", "engine", "MainThread")}
    assert max(engine, key=lambda activity: engine[activity]) == "worker_wait"
    assert engine["schedule"] > 0


def test_whole_recordings_of_a_real_vllm_are_understood() -> None:
    archives = [SHARED / name for name in ("pyspy.tar.xz", "combined_bursty.tar.xz", "combined_prefill.tar.xz")]
    if not all(archive.is_file() for archive in archives):
        pytest.skip(f"the recordings are not here ({SHARED})")
    samples: Counter[tuple[str, Stack]] = Counter()
    for archive in archives:
        with lzma.open(archive) as packed, tarfile.open(fileobj=packed) as files:
            for member in files:
                body = files.extractfile(member) if member.isfile() else None
                if body is None:
                    continue
                name = f"{archive.name}:{member.name}"
                if member.name.endswith(".chrometrace.json"):
                    found = of_trace(json.load(body))
                elif member.name.endswith(".jsonl") and "dumps" in member.name:
                    found = (item for line in body for item in of_dump(json.loads(line)["threads"]))
                elif member.name.endswith(".dump.json"):
                    found = of_dump(json.load(body))
                else:
                    continue
                for frames, weight in found:
                    samples[name, frames] += weight
    known = Counter({key: weight for key, weight in samples.items() if key[1]})
    check(known)
    check_each(frames for _, frames in known)


def of_trace(events: list[Any]) -> Iterator[tuple[Stack, int]]:
    stacks: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    since: dict[tuple[int, int], int] = {}
    for event in events:
        key = (event["pid"], event["tid"])
        frames = stacks.setdefault(key, [])
        if frames and event["ts"] > since[key]:
            inner = tuple(frame for frame in frames if not frame[0].startswith(("process ", "thread (")))
            yield inner, event["ts"] - since[key]
        since[key] = event["ts"]
        if event["ph"] == "B":
            frames.append((event["name"], event["args"]["filename"], event["args"].get("line") or 0))
        elif frames:
            frames.pop()


def of_dump(threads: list[Any]) -> Iterator[tuple[Stack, int]]:
    for thread in threads:
        yield tuple((frame["name"], frame["filename"], frame["line"]) for frame in reversed(thread["frames"])), 10_000


def test_a_loop_of_ones_own_can_be_told_to_call_others(tmp_path: Path) -> None:
    own = tmp_path / "activities.toml"
    rule = '[[rule]]\nactivity = "idle"\nframes = ["mine/loop.py: turn"]\n'
    loop, job = ("turn", "/srv/mine/loop.py", 3), ("job", "/srv/other/job.py", 9)
    own.write_text(rule)
    assert load_activities(own).classify([loop, job]) == "idle"
    own.write_text('[sets]\ncallers = ["mine/loop.py: turn"]\n' + rule)
    assert load_activities(own).classify([loop, job]) == "other"
    assert load_activities(own).classify([loop]) == "idle"


def test_rules_of_ones_own_come_first(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(
        '[[rule]]\nactivity = "schedule"\nframes = ["maths.py: crunch"]\n'
        '[[rule]]\nactivity = "load"\nframes = ["queue.py: get"]\n'
        'under = ["vllm/v1/engine/core.py: _process_input_queue"]\n'
    )
    mine = load_activities(own)
    assert mine.classify([("crunch", "/srv/maths.py", 1)]) == "schedule"
    assert mine.classify([("_process_input_queue", "/x/" + CORE, 1), ("get", "/lib/queue.py", 2)]) == "load"
    assert mine.classify([("get", "/lib/queue.py", 2)]) == "idle"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("rule = 3", r"\[\[rule\]\]"),
        ("[[rule]\n", "TOML"),
        ('[[rule]]\nactivity = "dreaming"\nframes = ["a.py: b"]', "dreaming"),
        ('[[rule]]\nactivity = "idle"\n', "frames"),
        ('[[rule]]\nactivity = "idle"\nframes = ["a.py"]', "FILE: NAME"),
        ('[[rule]]\nactivity = "idle"\nframes = ["a.py: b |"]', "FILE: NAME"),
        ('[[rule]]\nactivity = ["idle"]\nframes = ["a.py: b"]', "idle"),
        ('[sets]\nx = 3\n[[rule]]\nactivity = "idle"\nframes = ["@x"]', "line 3: @x"),
        ('[[rule]]\nactivity = "idle"\nframes = ["a.py: b"]\n\n[[rule]]\nframes = []', "line 5"),
        ('rule = [{activity = "idle", frames = 3}]', "rule 1"),
        ('[[rules]]\nactivity = "idle"\nframes = ["a.py: b"]', "something else"),
        ('[[rule]]\nactivity = "idle"\nframes = ["@nothing"]', "@nothing"),
        ('[[rule]]\nactivity = "idle"\nframes = ["a.py: b"]\nwhen = "now"', "when"),
        ('[[rule]]\nactivity = "idle"\nframes = ["a.py: b"]\nunder = ["c.py: d"]\nanywhere = true', "anywhere"),
    ],
)
def test_a_bad_rule_file_is_named_with_its_fault(tmp_path: Path, text: str, word: str) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(text)
    with pytest.raises(ActivityFileError, match=word):
        load_activities(own)


def test_a_missing_rule_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ActivityFileError, match="nowhere.toml"):
        load_activities(tmp_path / "nowhere.toml")
