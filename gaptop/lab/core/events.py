"""What the simulation yields: plain events on a virtual clock (seconds since its start), sorted by their start.

A driver plays them: the live one in real time, a later one as fast as it can.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from gaptop.valleys.model import Cause

Thread = Literal["engine", "tokenizer", "output"]


class HostSpan(NamedTuple):
    """A host thread did ``phase`` (a word of ``signals.ACTIVITIES``) over [start, end).

    ``blocked`` tells sleeping (waiting for the device, or for work) from working on a core.
    """

    start: float
    end: float
    thread: Thread
    phase: str
    blocked: bool


class DeviceSpan(NamedTuple):
    """The device ran one step over [start, end): ``compute`` is the share of it bound by arithmetic (for the power)."""

    start: float
    end: float
    step: int
    prefill_tokens: int
    recomputed_tokens: int
    decode_tokens: int
    compute: float


class Idle(NamedTuple):
    """Truth: the device was idle over [start, end), and this is what it waited for.

    ``waited_for`` is a host phase, or ``demand``, ``admission``; ``cause`` the verdict that would be right.
    """

    start: float
    end: float
    waited_for: str
    cause: Cause


class Output(NamedTuple):
    """One token of one request. The last fields are set only where the engine reports them: first or last token.

    ``since_last``: seconds since the request's previous token, None for the first. ``preemptions``: how often it was
    preempted before this token, told with the first one after it runs again (this is when vLLM's counter learns of it).
    """

    request: int
    since_last: float | None
    preemptions: int
    first: First | None
    finished: Finished | None


class First(NamedTuple):
    """What is booked with a request's first token: the whole prompt at once, as vLLM does."""

    prompt_tokens: int
    cached_tokens: int
    ttft: float


class Finished(NamedTuple):
    """What is booked only when a request has finished (seconds)."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    queue: float
    prefill: float
    decode: float
    e2e: float
    preemptions: int


class StepDone(NamedTuple):
    """One message of the engine to the front end: sent at ``start``, booked there at ``end``.

    ``number`` counts messages from 1. ``outputs`` may be empty (a step without tokens, or nothing could be scheduled).
    ``waiting`` counts requests that the scheduler knows of and does not run.
    ``used_blocks`` of ``blocks`` hold live requests.
    """

    start: float
    end: float
    number: int
    running: int
    waiting: int
    used_blocks: int
    blocks: int
    queried_tokens: int
    hit_tokens: int
    outputs: tuple[Output, ...]


Event = HostSpan | DeviceSpan | Idle | StepDone
