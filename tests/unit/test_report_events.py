"""What happened, in the report: whole in the machine form, grouped and short in the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gaptop.recording.lines import Event, Source
from gaptop.valleys import report, report_text
from gaptop.valleys.report_events import LINES, NEWEST, event_lines

from .valley_streams import GPU, Stream, analyse, stairs

LOST = "GPU 0: Xid 79 (the GPU has fallen off the bus). Reseat the card or restart the host; see the kernel log."
XID = Event(4.0, "xid", LOST, "nvml/GPU-0", {"xid": 79})


def made(*events: Event, window: tuple[float, float] | None = None) -> dict[str, Any]:
    lines = [*Stream(10).device(stairs((0, 1.0))).lines(), *events]
    return report.build(*analyse(lines), window=window)


def section(built: dict[str, Any], width: int = 80) -> list[str]:
    text = report_text.render(built, ascii=False, width=width).splitlines()
    if "Events" not in text:
        return []
    first = text.index("Events")
    return text[first : text.index("", first)]


def test_an_error_far_from_any_valley_is_in_both_forms() -> None:
    built = made(XID)
    assert built["valleys"] == []
    (told,) = built["events"]
    utc = told.pop("utc")
    assert utc is not None
    assert utc.endswith("Z") or "+" in utc
    assert told == {"t_s": 4.0, "what": "xid", "says": LOST, "source": "nvml/GPU-0", "data": {"xid": 79}}
    assert " ".join(" ".join(section(built)).split()) == f"Events at 4.0 s: {LOST}"


def test_without_events_there_is_no_section() -> None:
    built = made()
    assert built["events"] == []
    assert section(built) == []


def test_only_the_newest_are_kept_and_in_order() -> None:
    late = [Event(round(9.0 - n / 1000, 3), "our_slow_call", "slow", "nvml/GPU-0", {"n": n}) for n in range(NEWEST + 5)]
    told = [event["t_s"] for event in made(*late)["events"]]
    assert len(told) == NEWEST
    assert told == sorted(told)
    assert told[-1] == 9.0


def test_a_part_of_the_stream_has_its_own_events_only() -> None:
    other = Event(8.0, "gpu_back", "GPU 0 answers again.", "nvml/GPU-0")
    assert [event["what"] for event in made(XID, other, window=(5.0, 9.0))["events"]] == ["gpu_back"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_text_groups_what_is_the_same_and_keeps_the_worst_within_its_lines(width: int) -> None:
    slow = [Event(5.0 + n / 10, "our_slow_call", "Our own call took 63 ms.", None) for n in range(3)]
    many = [Event(6.0 + n / 10, "mig_changed", f"slice {n} appeared.", None) for n in range(30)]
    lines = section(made(XID, *slow, *many), width)
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).split())
    assert LOST in said
    assert "more (all with --json)" in said
    grouped = section(made(XID, *slow), 120)
    assert "  3 times, 5.0 to 5.2 s: Our own call took 63 ms." in grouped


def test_what_the_screen_asked_for_is_in_the_machine_form_only() -> None:
    built = made(Event(5.0, "command", "the screen asked for more", None))
    assert [event["what"] for event in built["events"]] == ["command"]
    assert section(built) == []


def test_untrusted_text_is_shown_not_obeyed() -> None:
    event = {"what": "xid", "says": "evil\x1b[2J\u202e", "t_s": 1.0}
    assert not any(char in "".join(event_lines([event], 80)) for char in "\x1b\u202e")


def test_a_lost_gpu_has_its_remedy_until_it_is_back() -> None:
    event = Event(4.0, "gpu_lost", "GPU 0 does not answer any more (GPU is lost).", GPU)
    remedy = "so its lanes have a hole from here: it has fallen off the bus; reboot the machine."
    says = f"{event.says.removesuffix('.')}, {remedy}"
    for now, wanted in ((says, says), ("Resolution 200 ms (measured).", event.says)):
        stream = Stream(10).device(stairs((0, 1.0)))
        described = next(line for line in stream.lines() if isinstance(line, Source) and line.id == GPU)
        built = report.build(*analyse([*stream.lines(), event, replace(described, says=now)]), window=None)
        assert built["events"][0]["says"] == event.says
        assert " ".join(" ".join(section(built)).split()) == f"Events at 4.0 s: {wanted}"
