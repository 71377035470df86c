"""What goes wrong, and when. Data only; ``armed.py`` puts it on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Strike = Literal[
    "schedule",
    "prepare_batch",
    "launch",
    "sample",
    "detokenize",
    "tokenize",
    "multimodal",
    "device_sync",
    "compile",
    "graph_capture",
    "grammar",
    "gc",
    "log",
    "adapter",
    "paging",
    "straggler",
    "collective",
    "wedge",
    "abort",
    "hang_up",
    "access_log",
]
Span = Literal[
    "hold",
    "remote_kv",
    "copy",
    "gil",
    "throttle",
    "oversubscription",
    "power",
    "thermal",
    "cotenant",
    "phantom",
    "stop",
]
Place = Strike | Span

SPANS: Final = frozenset(get_args(Span))
"""Faults that last; the others strike once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """At ``at`` (seconds into the cycle) the named place takes ``seconds`` longer, once; or for ``seconds`` it is ill.

    With ``every`` it comes again each so many seconds until the cycle ends. What strikes waits for the first work of
    its place:

    * ``schedule``, ``prepare_batch``, ``launch``, ``sample``, ``grammar``, ``gc``, ``log``: the engine thread (or each
      rank's worker) keeps a core busy. ``detokenize``: the output thread; ``tokenize``, ``multimodal``: one worker of
      the front end, with one request. Kept under 1.5 s where the live driver really burns it.
    * ``compile``: a kernel is compiled, by ``strength`` compiler processes (default 3); ``graph_capture``: by none.
    * ``device_sync``: a blocking wait with the device idle. ``adapter``: the engine thread reads weights from disk.
      ``paging``: it waits for pages, ``strength`` major faults a second (default 2000).
    * ``straggler``: worker ``rank`` (and so many of the next ones as ``strength`` is over 1) is late, at its ``phase``,
      or because it has no core for that (``run_queue``); its peers' devices spin in the first collective, or stay idle
      where ``spins`` is false. ``collective``: the ranks send each other bytes for that long. Both need several
      ranks.
    * ``wedge``: the device is busy so long in one step and nothing comes of it; with ``strength`` 1 at the power of
      ordinary work (a kernel that loops), with 0 (default) at a fifth of the limit (one that waits).
    * ``abort``: every request is aborted without a message; the clients come back after ``seconds``. ``hang_up``: one
      client of several does so, and asks for something else.
    * ``access_log``: the output thread writes a log before it handles the next message.

    What lasts over [at, at + seconds):

    * ``hold``: nobody is admitted; with ``strength`` 1 because requests that are deferred for ever count as running
      ones. ``remote_kv``: neither, for requests wait for KV blocks from elsewhere.
    * ``copy``: each step begins with a blocking copy of ``strength`` seconds (default 0.03) that drains the device.
    * ``gil``: each message takes the output thread ``strength`` seconds (default 0.03) longer; where
      ``single_process`` is set the engine thread waits for it.
    * ``throttle``: the CPU quota lets nothing run for ``strength`` (default 0.8) of each 100 ms.
    * ``oversubscription``: each wake-up waits for ``strength`` (default 20) other threads' turns of 3 ms.
    * ``power``, ``thermal``: the clock falls to ``strength`` (default 0.4) of the highest on device ``rank``.
    * ``cotenant``: another process takes ``strength`` (default 0.5) of the device's time while steps run.
    * ``phantom``: the driver calls the device busy while nothing runs. ``stop``: the front end is stopped.

    Raises ValueError where it would never end.
    """

    place: Place
    at: float
    seconds: float
    strength: float = 0.0
    every: float = 0.0
    rank: int = 0
    spins: bool = True
    phase: str = "prepare_batch"

    def __post_init__(self) -> None:
        if self.place in ("throttle", "cotenant") and self.strength >= 1:
            raise ValueError(f"a fault {self.place!r} that takes all of the time never lets the server run")
        if self.every < 0 or self.strength < 0 or self.seconds < 0:
            raise ValueError(f"a fault {self.place!r} has no times or strengths below 0")


DEFAULTS: Final[dict[str, float]] = {
    "compile": 3.0,
    "straggler": 1.0,
    "paging": 2000.0,
    "copy": 0.03,
    "gil": 0.03,
    "throttle": 0.8,
    "oversubscription": 20.0,
    "power": 0.4,
    "thermal": 0.4,
    "cotenant": 0.5,
}
"""``strength`` where a fault leaves it at 0."""


def strength(fault: Fault) -> float:
    """The fault's own strength, or its place's default."""
    return fault.strength or DEFAULTS.get(fault.place, 0.0)
