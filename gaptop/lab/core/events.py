"""What the simulation yields: plain events on a virtual clock (seconds since its start), sorted by their start.

A driver plays them: the live one in real time, a later one as fast as it can.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from gaptop.valleys.model import Cause

DeviceWork = Literal["step", "collective", "transfer", "foreign", "phantom", "wedge"]
Thread = str
"""``engine`` (the scheduler's), ``tokenizer`` and ``tokenizer/1`` … (the front end's pool), ``output`` (the front end's
main thread), ``worker/0`` … (tensor-parallel ranks, each a process of its own; none where there is one rank),
``engine/prefill`` (the prefill device's, where prefill is disaggregated: ``engine`` is then the decode device's)."""


class HostSpan(NamedTuple):
    """A host thread did ``phase`` (a word of ``signals.ACTIVITIES``) over [start, end).

    ``blocked`` tells sleeping (waiting for the device, or for work) from working on a core. ``waits_core``: it was
    runnable and had no core (contention, a CPU quota), inside the work that ``phase`` names.
    """

    start: float
    end: float
    thread: Thread
    phase: str
    blocked: bool
    waits_core: bool = False


class DeviceSpan(NamedTuple):
    """The device ran over [start, end): ``compute`` is the share of it bound by arithmetic (for the power).

    ``kind``: a ``step`` of the engine; a ``collective`` in which it spins for its peers (busy, at low power, no memory
    traffic); a ``transfer`` in which all ranks send each other so much that it takes long; a ``foreign`` process's
    work; ``phantom``: the driver calls it busy while nothing runs (it lies over an Idle; no other kind does);
    ``wedge``: the part of a step that never gets anywhere (busy, at less power than work).
    ``clock`` is the SM clock as a share of the highest.
    """

    start: float
    end: float
    step: int
    prefill_tokens: int
    recomputed_tokens: int
    decode_tokens: int
    compute: float
    device: int = 0
    kind: DeviceWork = "step"
    clock: float = 1.0


class Limit(NamedTuple):
    """The driver limits the device's clocks over [start, end)."""

    start: float
    end: float
    device: int
    reason: Literal["power", "thermal"]


class Condition(NamedTuple):
    """What other collectors would read of the host over [start, end): ``value`` in the unit of ``what``.

    ``compilers`` (processes), ``throttled`` (cores' worth of time that the CPU quota held back, in seconds a second),
    ``runnable`` (threads that ran or wanted to, beyond the server's own spans), ``major_faults`` (a second),
    ``read_bytes`` (a second), ``foreign`` (processes that work on the device), ``foreign_idle`` (processes that only
    hold memory there), ``stopped`` (1 while the front end is), ``own_call`` (1 while gaptop's own call holds the
    driver), ``neighbours`` (cores that other programs of the host use), ``connections`` (open ones without a request).
    """

    start: float
    end: float
    what: str
    value: float


class Idle(NamedTuple):
    """Truth: the device was idle over [start, end), and this is what it waited for.

    ``waited_for`` is a host phase, or ``demand``, ``admission``, ``blocks`` (of the KV cache) and the like; ``cause``
    the verdict that would be right.
    """

    start: float
    end: float
    waited_for: str
    cause: Cause
    device: int = 0


class Stall(NamedTuple):
    """Truth: requests ran over [start, end) and none of them (or few) got a token, whatever the device did."""

    start: float
    end: float
    waited_for: str
    cause: Cause


class Slow(NamedTuple):
    """Truth: tokens came over [start, end), but only a share ``came`` (half or more) of the recent level, and this is
    why. Too little to be a valley by itself; inside one it tells what the rest of it was about."""

    start: float
    end: float
    waited_for: str
    cause: Cause
    came: float


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
    deferred: int = 0
    """Of ``waiting``, those held back for a reason other than room: a KV transfer, an adapter."""


class Open(NamedTuple):
    """At ``start`` a request came to the server's port (``change`` 1), or was answered or hung up (-1)."""

    start: float
    change: int


Event = HostSpan | DeviceSpan | Limit | Condition | Idle | Stall | Slow | StepDone | Open
