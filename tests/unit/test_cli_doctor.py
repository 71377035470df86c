"""``gaptop doctor``: a source that has nothing to tell is not called ok."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gaptop.cli import doctor, probe_lines
from gaptop.cli.target import Target
from gaptop.recording.lines import Health, Line, Source, encode
from gaptop_collectors.target import Server

REACHED, SILENT = "http://127.0.0.1:8000", "http://127.0.0.1:9"


def source(id: str, signals: tuple[str, ...] = (), **missing: str) -> Source:
    return Source(
        0.0, id, "host.cgroup", "host", {}, signals, 1.0, {f"host.{name}": why for name, why in missing.items()}
    )


def ok(src: str, collector: str) -> Health:
    return Health(0.1, src, collector, "ok")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """What the probe is going to say."""
    lines: list[Line] = []

    class Scripted:
        def __init__(self, config: object) -> None:
            self._raw: Iterator[bytes | None] = itertools.chain(map(encode, lines), itertools.repeat(None))

        def __enter__(self) -> Scripted:
            return self

        def __exit__(self, *exc: object) -> None:
            pass

        def take(self, timeout: float) -> bytes | None:
            return next(self._raw)

    monkeypatch.setattr(probe_lines, "LiveLines", Scripted)
    monkeypatch.setattr(doctor, "_LOOK_SECONDS", 0.1)
    return lines


def told(*servers: Server) -> dict[str, Any]:
    return {line["source"]: line for line in doctor._told(doctor._seen(Target(), servers)[0])}


def test_a_server_that_was_never_reached_is_not_ok(seen: list[Line]) -> None:
    for url, missing in ((SILENT, {"throttled": "no process", "quota_cores": "no process"}), (REACHED, {})):
        seen += [source(f"cgroup/{url}", () if missing else ("host.throttled",), **missing)]
        seen += [ok(f"cgroup/{url}", f"host.cgroup:{url[7:]}"), ok(f"host.cgroup:{url[7:]}", f"host.cgroup:{url[7:]}")]
    lines = told(Server(REACHED, "vllm"), Server(SILENT, "unknown"))
    assert list(lines) == [f"cgroup/{REACHED}", f"cgroup/{SILENT}"], "a collector's own line gives way to its sources'"
    assert lines[f"cgroup/{REACHED}"]["state"] == "ok"
    assert lines[f"cgroup/{SILENT}"]["state"] == "absent"
    assert lines[f"cgroup/{SILENT}"]["says"].startswith(f"{SILENT} was not reached, so")


def test_a_source_without_a_signal_says_why_once(seen: list[Line]) -> None:
    seen += [source("cgroup/x", throttled="no quota", quota_cores="no quota", group_pressure="no PSI")]
    seen += [ok("cgroup/x", "host.cgroup"), ok("metrics/x", "engines.vllm")]
    lines = told()
    assert (lines["cgroup/x"]["state"], lines["cgroup/x"]["says"]) == ("absent", "no quota; no PSI")
    assert lines["metrics/x"]["state"] == "ok"


def test_one_that_finds_something_later_is_ok_again(seen: list[Line]) -> None:
    seen += [source("cgroup/x", throttled="-"), source("cgroup/x", ("host.throttled",)), ok("cgroup/x", "host.cgroup")]
    assert told()["cgroup/x"]["state"] == "ok"


def test_each_sentence_about_servers_has_a_line() -> None:
    findings = {
        "gaptop": "0", "python": "3", "system": "s", "cores": 1, "user": "u", "libraries": {}, "stacks": "-",
        "terminal": {"TERM": "xterm", "encoding": "utf-8"},
        "paths": {"log": "/l", "no_log": None, "own_stack_rules": None, "own_stack_rules_says": None},
        "config": {"path": "/c", "exists": True, "wrong": []},
        "servers": [], "server_says": "first is down.\nsecond is down.", "sources": [],
    }  # fmt: skip
    assert "server     first is down.\nserver     second is down.\n" in doctor._text(findings, with_log=False)
