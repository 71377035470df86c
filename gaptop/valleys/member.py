"""A valley's part on one device, and how long a device was watched. Plain immutable data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """The windows of one device that hold a valley, and its idle seconds in them.

    ``source`` delivers the windows, ``rounding`` says how they were made whole per cents; ``windows`` is false where
    the timeline has forgotten them.
    """

    device: str
    source: str
    start_s: float
    end_s: float
    idle_s: float
    rounding: str = ""
    windows: bool = True


@dataclass(frozen=True, slots=True)
class Watched:
    """From when to when a device was watched, in seconds of the stream.

    Idle time before ``judged_from_s`` (None: never) is no valley's: it had no level yet. Readings up to
    ``counted_to_s`` (-inf: none) are in the ledger.
    """

    device: str
    source: str
    since_s: float
    reached_s: float
    judged_from_s: float | None
    counted_to_s: float
