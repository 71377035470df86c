"""Which sources belong together, and how far each is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gaptop.recording.lines import Health, Hole, Source
from gaptop.timeline.types import SourceView
from gaptop.valleys.ready import settled_until
from gaptop.valleys.scope import scopes


def view(
    id: str, kind: str, health: str = "ok", newest: float | None = None, mark: float = 0.0, **entity: Any
) -> SourceView:
    signals = ["device.busy"] if kind == "device" else []
    info = Source(0.0, id, "c", kind, entity, signals, 0.5, window=0.2 if kind == "device" else None)
    return SourceView(info, Health(0.0, id, "c", health), newest, mark)


class Known:
    """The part of a timeline that scopes and readiness ask."""

    now = 100.0

    def __init__(self, *views: SourceView, holes: Sequence[Hole] = ()) -> None:
        self.sources = {item.info.id: item for item in views}
        self._holes = holes

    def holes(self, source: str, start: float, end: float) -> Sequence[Hole]:
        return [hole for hole in self._holes if hole.src == source and hole.start < end and hole.end > start]


def test_devices_and_processes_go_with_the_server_whose_pids_they_have() -> None:
    first, second = scopes(
        Known(
            view("metrics/http://a", "server", engine="vllm", pids=[1, 2]),
            view("metrics/http://b", "server", engine="llamacpp", pids=[9]),
            view("nvml/A", "device", uuid="A", pids=[2]),
            view("nvml/B", "device", uuid="B", pids=[9]),
            view("threads/2", "process", pid=2, role="engine", critical_tid=2),
            view("proc/9", "process", pid=9, role="server", critical_tid=9),
            view("process/http://b", "host"),
            view("host", "host"),
        )
    )
    assert (first.engine, [item.label for item in first.devices]) == ("vllm", ["A"])
    assert [item.source for item in first.stacks] == ["threads/2"]
    assert first.states == ()
    assert first.host == ("host",)
    assert [item.label for item in second.devices] == ["B"]
    assert [item.source for item in second.states] == ["proc/9"]
    assert second.host == ("process/http://b", "host")


def test_run_states_are_those_of_the_thread_that_the_stacks_name_as_critical() -> None:
    """TensorRT-LLM's executor loop is a thread beside the main one; only Python knows its name."""
    (scope,) = scopes(
        Known(
            view("metrics/http://a", "server", engine="trtllm", pids=[2, 3]),
            view("proc/2", "process", pid=2, role="worker", critical_tid=2),
            view("threads/2", "process", pid=2, role="worker", critical_tid=71),
            view("proc/3", "process", pid=3, role="worker", critical_tid=3),
        )
    )
    assert [(ref.pid, ref.main_tid) for ref in scope.states] == [(2, 71), (3, 3)]
    assert scope.states[0].is_critical(71)
    assert not scope.states[0].is_critical(2)


def test_front_ends_have_no_critical_thread() -> None:
    (scope,) = scopes(
        Known(
            view("metrics/http://a", "server", engine="tgi", pids=[1, 2, 3]),
            view("proc/1", "process", pid=1, role="api", critical_tid=1),
            view("proc/2", "process", pid=2, role="worker", critical_tid=2),
            view("threads/2", "process", pid=2, role="worker", critical_tid=2),
            view("threads/3", "process", pid=3, role="other", critical_tid=3),
        )
    )
    assert {ref.pid: ref.is_critical(ref.pid) for ref in (*scope.states, *scope.stacks)} == {
        1: False,
        2: True,
        3: False,
    }


def test_device_of_nobody_stands_alone_beside_two_servers() -> None:
    found = scopes(
        Known(
            view("metrics/http://a", "server", pids=[1]),
            view("metrics/http://b", "server", pids=[9]),
            view("nvml/A", "device", uuid="A", pids=None),
        )
    )
    assert [(item.metrics, [device.label for device in item.devices]) for item in found] == [
        (("metrics/http://a",), []),
        (("metrics/http://b",), []),
        ((), ["A"]),
    ]


def test_device_without_known_pids_belongs_to_the_only_server() -> None:
    (scope,) = scopes(Known(view("metrics/http://a", "server", pids=[1]), view("nvml/A", "device", uuid="A")))
    assert [item.label for item in scope.devices] == ["A"]


@pytest.mark.parametrize(
    ("pids", "mine"),
    [
        ([[2], [], []], "A"),
        ([[2], [], None], "AC"),  # nobody knows who is on C
        ([[], [], []], "ABC"),  # none of ours is anywhere yet
        ([[7], [2], []], "B"),
        ([[7], [], []], "ABC"),  # a restarted server's old process
    ],
)
def test_a_device_without_our_processes_is_not_ours_where_another_has_them(
    pids: list[list[int] | None], mine: str
) -> None:
    devices = [view(f"nvml/{name}", "device", uuid=name, pids=on) for name, on in zip("ABC", pids, strict=True)]
    first, *rest = scopes(Known(view("metrics/http://a", "server", pids=[1, 2]), *devices))
    assert "".join(item.label for item in first.devices) == mine
    assert sorted("".join(item.label for scope in (first, *rest) for item in scope.devices)) == list("ABC")


def test_a_cpu_is_the_only_servers_whatever_is_seen_on_gpus() -> None:
    views = [view("cpu/x", "device", uuid="cpu", kind2="cpu", pids=[]), view("nvml/A", "device", uuid="A", pids=[2])]
    first, *_ = scopes(Known(view("metrics/http://a", "server", pids=[1, 2]), *views))
    assert sorted(item.label for item in first.devices) == ["A", "cpu"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (view("nvml/A", "device", newest=99.0, mark=99.9), 99.0),
        (view("nvml/A", "device", newest=90.0, mark=99.9), 99.9 - 0.2 - 1.25),
        (view("nvml/A", "device", newest=50.0, mark=50.0), 92.0),
        (view("nvml/A", "device", "failing", newest=50.0, mark=50.0), 100.0),
        (view("threads/1", "process", mark=97.0), 97.0),
    ],
)
def test_a_source_is_settled_by_readings_watermark_or_patience(source: SourceView, expected: float) -> None:
    assert settled_until(Known(source), source, source.newest, 8.0) == pytest.approx(expected)


def test_a_hole_settles_what_it_covers() -> None:
    source = view("nvml/A", "device", newest=94.0, mark=94.0)
    known = Known(source, holes=[Hole("nvml/A", 94.1, 98.5, "gone")])
    assert settled_until(known, source, source.newest, 8.0) == pytest.approx(98.5)
