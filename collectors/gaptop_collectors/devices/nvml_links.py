"""NVLink: the byte counters of all its links, summed. Asked for in the one call that asks for the other fields. Pure.

Numbers and units are those of nvml.h (API version 13); the scope is the number of the link. 202 and 204 (NVLink 5) are
bytes sent and received, 138 and 139 (older) KiB of data. Which of them a GPU has is found by asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

LINK_COUNT: Final = 91
MOST_LINKS: Final = 36
RX: Final = "device.nvlink_rx"
TX: Final = "device.nvlink_tx"
FAMILIES: Final[Sequence[dict[int, tuple[str, int]]]] = (
    {202: (TX, 1), 204: (RX, 1)},
    {138: (TX, 1024), 139: (RX, 1024)},
)
"""Newer first. Field: its signal, and the bytes in one unit."""
LINK_FIELDS: Final = frozenset({LINK_COUNT}.union(*FAMILIES))
NONE: Final = "this GPU has no NVLink, or its driver does not count its bytes"


class LinkAnswer(NamedTuple):
    """``number``: None where asking failed; ``refused``: for good. ``bits``: the width of the number's type."""

    field: int
    link: int
    number: float | None
    bits: int = 64
    refused: bool = False


class _Link:
    """One counter of one link, in units of so many bytes."""

    def __init__(self, signal: str, unit: int) -> None:
        self.signal = signal
        self.unit = unit
        self._last: float | None = None

    def rise(self, number: float, bits: int) -> float | None:
        """Bytes since the last reading; None where that cannot be known. A fall from the upper half of so many bits to
        the lower half is a wrap, any other one a restart."""
        before, self._last = self._last, number
        if before is None:
            return None
        if number < before:
            half = 2.0 ** (bits - 1)
            if not before >= half > number:
                return None
            number += 2 * half
        return (number - before) * self.unit


class Links:
    """``unsupported``: signals without a counter, and why.

    A sum starts anew, from 0 (which readers of counters know as a restart), when one of its links does, or is refused
    from now on: its rise would tell of bytes that were not moved.
    """

    def __init__(self) -> None:
        self.unsupported: dict[str, str] = {}
        self._count: int | None = None
        self._left = list(FAMILIES)
        self._links: dict[tuple[int, int], _Link] | None = None
        self._sums: dict[str, float] = {}

    def wanted(self) -> list[tuple[int, int]]:
        """What to ask for beside the other fields: the field's number, and the link."""
        if self._count is None:
            return [(LINK_COUNT, 0)]
        if self._links is not None:
            return list(self._links)
        return [(field, link) for field in self._left[0] for link in range(self._count)]

    def take(self, answers: Sequence[LinkAnswer]) -> dict[str, float]:
        """Bytes by signal, from the answers to what was wanted. The first ones only tell which links there are."""
        if self._count is None:
            self._take_count(answers)
            return {}
        if self._links is None:
            family = self._left.pop(0)
            found = [answer for answer in answers if answer.number is not None]
            if found or not self._left:
                self._settle({(one.field, one.link): _Link(*family[one.field]) for one in found})
                self._sums = dict.fromkeys({link.signal for link in self._found.values()}, 0.0)
                for one in found:
                    link = self._found[one.field, one.link]
                    link.rise(one.number or 0.0, one.bits)
                    self._sums[link.signal] += (one.number or 0.0) * link.unit
                return dict(self._sums)
            return {}
        return self._summed(answers)

    @property
    def _found(self) -> dict[tuple[int, int], _Link]:
        return self._links or {}

    def _take_count(self, answers: Sequence[LinkAnswer]) -> None:
        for answer in answers:
            if answer.field == LINK_COUNT and (answer.number is not None or answer.refused):
                self._count = min(int(answer.number or 0), MOST_LINKS)
                if not self._count:
                    self._settle({})

    def _settle(self, links: dict[tuple[int, int], _Link]) -> None:
        self._links = links
        have = {link.signal for link in links.values()}
        self.unsupported = {signal: NONE for signal in (RX, TX) if signal not in have}

    def _summed(self, answers: Sequence[LinkAnswer]) -> dict[str, float]:
        silent: set[str] = set()
        restarted: set[str] = set()
        for answer in answers:
            link = self._found.get((answer.field, answer.link))
            if link is None:
                continue
            if answer.refused:
                del self._found[answer.field, answer.link]
                restarted.add(link.signal)
            elif answer.number is None:
                silent.add(link.signal)  # what it moved until the next answer is counted then
            elif (rise := link.rise(answer.number, answer.bits)) is None:
                restarted.add(link.signal)
            else:
                self._sums[link.signal] += rise
        self._sums |= dict.fromkeys(restarted, 0.0)
        self._settle(self._found)
        return {signal: total for signal, total in self._sums.items() if signal not in silent | self.unsupported.keys()}
