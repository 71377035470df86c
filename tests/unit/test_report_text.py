"""The report for people: order, widths, and untrusted text."""

from __future__ import annotations

import pytest

from gaptop.valleys import report, report_text

from .test_report_build import analysed_day
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
