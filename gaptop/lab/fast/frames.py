"""The Python stacks of vLLM's threads for each thing that they do: files and functions as py-spy prints them.

Read off recordings of vLLM 0.32 and, for what needs a GPU, off its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from gaptop.lab.fast.frames_common import Written
from gaptop.lab.fast.frames_engine import of_engine, of_worker
from gaptop.lab.fast.frames_front import of_front
from gaptop.lab.fast.frames_strange import WHOLE, beneath, unknown
from gaptop.lab.fast.machine import Kind
from gaptop.lab.fast.view import Dialect

Frame = tuple[str, str, int]
Stack = tuple[Frame, ...]

SITE: Final = "/opt/venv/lib/python3.12/site-packages/"
LIB: Final = "/usr/lib/python3.12/"
_OURS: Final = ("vllm/", "torch/", "triton/", "zmq/", "uvloop/", "xgrammar/", "transformers/", "uvicorn/", "PIL/")

_GC_CALLBACK: Final = "GCDebugger.handle vllm/utils/gc_utils.py"


@cache
def stacks_of(kind: Kind, phase: str, dialect: Dialect, gc_callbacks: bool) -> tuple[Stack, ...]:
    """The stacks in which a thread of that kind was seen to do ``phase`` (a word of ``signals.ACTIVITIES``, or one of
    this module's waits). Raises ValueError for what no such thread does."""
    found = _written(kind, phase, dialect)
    if found is None:
        raise ValueError(f"no {kind} thread is known to do {phase!r}")
    if phase == "gc" and gc_callbacks:
        found = [(*stack, _GC_CALLBACK) for stack in found]
    return tuple(_stack(stack) for stack in found)


@cache
def strange_of(kind: Kind) -> tuple[Stack, ...]:
    """Stacks of code that no rule knows, in the place of anything that such a thread does."""
    return tuple(map(_stack, unknown(kind)))


@cache
def within(kind: Kind, phase: str, dialect: Dialect) -> tuple[Stack, ...]:
    """The stacks of that phase with such code on top; a rule names them by its callers. Not of the front end, whose
    event loop and pools run everything."""
    if kind not in ("engine", "split_engine", "worker"):
        return ()
    return tuple(_stack(beneath(known)) for known in _written(kind, phase, dialect) or ())


def _written(kind: Kind, phase: str, dialect: Dialect) -> list[Written] | None:
    if phase == "other":
        return [WHOLE]
    if kind in ("engine", "split_engine"):
        return of_engine(phase, dialect, split=kind == "split_engine")
    return of_worker(phase, dialect) if kind == "worker" else of_front(kind, phase)


def _stack(written: Sequence[str]) -> Stack:
    return tuple(_frame(text) for text in written)


def _frame(text: str) -> Frame:
    function, _, file = text.rpartition(" ")
    if not file.startswith(("/", "<")):
        site = file.startswith(_OURS) or file.startswith(("starlette/", "pydantic/"))
        file = (SITE if site else LIB) + file
    return function, file, 20 + sum(map(ord, text)) % 1800
