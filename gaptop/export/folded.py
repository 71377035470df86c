"""Folded stacks, the text that flame graph programs read: one line a stack, its frames outermost first, its weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gaptop.export.labels import ThreadLabel, framed
from gaptop.recording.printable import printable
from gaptop.timeline.stacks import Frame
from gaptop.timeline.types import StackTimes

UNIT: Final = "milliseconds"


def folded(threads: Iterable[tuple[ThreadLabel, StackTimes]]) -> str:
    """Lines ``process;thread;function (file:line);... MILLISECONDS``, the heaviest of each thread first.

    Stacks that read the same are one line. One under half a millisecond has no line.
    """
    lines = []
    for label, times in threads:
        seconds: dict[str, float] = {}
        for item in times.stacks:
            names = (label.process_name, label.thread_name, *map(_frame, framed(item.frames)))
            line = ";".join(map(_name, names))
            seconds[line] = seconds.get(line, 0.0) + item.seconds
        weights = {line: round(took * 1000) for line, took in seconds.items()}
        told = sorted((-weight, line) for line, weight in weights.items() if weight)
        lines += [f"{line} {-weight}\n" for weight, line in told]
    return "".join(lines)


def _frame(frame: Frame) -> str:
    function, file, line = frame
    if not file:
        return function
    return f"{function} ({file}:{line})" if line else f"{function} ({file})"


def _name(text: str) -> str:
    """One name of a line: nothing in it ends it."""
    return printable(text).replace(";", ",")
