"""The report for people: order, widths, and untrusted text."""

from __future__ import annotations

import pytest

from gaptop.valleys import report, report_text

from .test_report_build import analysed_day
from .valley_server import server
from .valley_streams import Stream, analyse, stairs, total


def text_of_day(*, ascii: bool = False, width: int = 80) -> str:
    timeline, assessment = analysed_day()
    return report_text.render(report.build(timeline, assessment, window=None), ascii=ascii, width=width)


def text_of(stream: Stream) -> str:
    timeline, assessment = analyse(stream.lines())
    return report_text.render(report.build(timeline, assessment, window=None), ascii=False, width=80)


def test_window_servers_sources_ledger_and_valleys_come_in_this_order() -> None:
    text = text_of_day()
    order = ["40.0 s from", "server  http", "device  Test GPU", "In one sentence", "Sources", "Where the time went"]
    places = [text.index(word) for word in (*order, "Valleys: 3", "try ")]
    assert places == sorted(places)
    assert text.index("cache pressure (preemption") < text.index("no demand (queue empty)")
    assert "SIMULATED" not in text


def test_simulated_is_said_first() -> None:
    stream = Stream(3, simulated=True).device(stairs((0, 1.0)))
    assert text_of(stream).startswith("SIMULATED")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit_the_width(width: int) -> None:
    assert max(len(line) for line in text_of_day(width=width).splitlines()) <= width


def test_a_valley_says_in_one_line_where_the_thread_was_that_the_device_waited_for() -> None:
    lines = text_of_day().splitlines()
    (told,) = (line for line in lines if line.startswith("  stacks     ") and "gc in" in line)
    assert told == "  stacks     engine engine: 100% gc in a.py:2"
    assert len([line for line in lines if line.startswith("  stacks     engine")]) == 3


@pytest.mark.parametrize(("width", "paths"), [(60, 1), (80, 1), (120, 3)])
def test_the_stacks_are_one_line_of_whole_places(width: int, paths: int) -> None:
    timeline, assessment = analysed_day()
    made = report.build(timeline, assessment, window=None)
    where = [{"function": "step", "file": f"/srv/site-packages/vllm/file{n}.py", "line": n} for n in range(3)]
    for valley in made["valleys"]:
        paths_told = [{"share_ratio": 0.3, "activity": "gc", "frames": [frame]} for frame in where]
        valley["stacks"] = [{"role": "engine", "thread": "MainThread", "paths": paths_told}]
    text = report_text.render(made, ascii=False, width=width)
    told = [line for line in text.splitlines() if "engine MainThread" in line]
    assert len(told) == 3
    assert {line.count("30% step in vllm/file") for line in told} == {paths}
    assert max(map(len, told)) <= width


def test_ascii_has_nothing_else() -> None:
    assert text_of_day(ascii=True).isascii()
    assert "±" in text_of_day()


def test_escapes_in_a_model_name_do_not_reach_the_terminal() -> None:
    stream = Stream(3)
    stream.metrics({"sched.running": stairs((0, 1)), "tokens.decode": total((0, 5))})
    lines = stream.lines()
    timeline, assessment = analyse(lines)
    made = report.build(timeline, assessment, window=None)
    made["source"]["servers"][0]["model"] = "evil\x1b[2J\x07\u202e[bold]\nname"
    text = report_text.render(made, ascii=False, width=80)
    assert not any(char in text for char in "\x1b\x07\u202e")
    assert "[bold]" in text


def test_what_is_missing_stands_with_its_remedy() -> None:
    says = "py-spy may not read the server's threads (ptrace_scope is 1); run sudo gaptop record -o FILE."
    text = text_of(Stream(3).health(1.0, "host.threads_pyspy", "refused", says))
    assert "refused" in text
    assert "ptrace_scope" in text


def test_idle_time_of_several_devices_is_said_to_be_added_up() -> None:
    gap = stairs((0, 1.0), (12, 0.0), (12.4, 1.0))
    stream = Stream(20).metrics(server())
    for index in range(8):
        stream.device(gap, source=f"nvml/GPU-{index}")
    told = " ".join(text_of(stream).split())
    assert "idle 3.20 ±" in told
    assert "device-seconds over 8 devices" in told
    assert "device-seconds" not in text_of(Stream(20).device(gap))


@pytest.mark.parametrize("stated", [{"window": 1e300}, {"window": 1e9}, {"error": 1e12}, {"error": 1e300}])
def test_what_no_device_has_is_not_printed_in_digits(stated: dict[str, float]) -> None:
    text = text_of(Stream(20).device(stairs((0, 1.0), (12, 0.0), (12.4, 1.0)), info=stated))
    assert "over an hour" in text
    assert "00000000" not in text


def test_a_name_of_any_length_takes_one_line() -> None:
    long = {"name": "N" * 20_000}
    stream = Stream(20).device(stairs((0, 1.0)), entity=long)
    text = text_of(stream)
    assert max(len(line) for line in text.splitlines()) < 140
    assert "N" * 79 + "…" in text
    assert "N" * 80 not in text


def test_devices_of_one_model_are_told_apart_by_their_numbers() -> None:
    stream = Stream(20).metrics(server())
    for index in range(2):
        low = stairs((0, 1.0), (12, 0.0), (12.4 + index, 1.0))
        stream.device(low, source=f"nvml/GPU-{index}", entity={"index": index})
    lines = text_of(stream).splitlines()
    ledger = lines[lines.index("Where the time went") :]
    assert [line for line in ledger if "Test GPU" in line] == ["  GPU 0 Test GPU", "  GPU 1 Test GPU"]
    assert [line.split()[:4] for line in lines if line.startswith("device")] == [
        ["device", "GPU", "0", "Test"],
        ["device", "GPU", "1", "Test"],
    ]


def test_devices_without_numbers_are_told_apart_by_their_uuids_and_one_alone_needs_neither() -> None:
    stream = Stream(20).metrics(server())
    for index in range(2):
        stream.device(stairs((0, 1.0)), source=f"nvml/GPU-{index}", entity={"index": None})
    text = text_of(stream)
    assert "\n  Test GPU (GPU-0)\n" in text
    assert "\n  Test GPU (GPU-1)\n" in text
    assert "\n  Test GPU\n" in text_of(Stream(20).device(stairs((0, 1.0))))


def test_time_that_was_not_seen_is_said() -> None:
    text = text_of(Stream(20).device(stairs((0, 1.0)), outages=[(10.0, 14.0)]))
    (line,) = (line for line in text.splitlines() if "not seen" in line and "%" not in line)
    assert line.split()[1:] == ["s", "not", "seen", "(no", "part", "of", "the", "shares)"]
