"""One GPU or MIG slice of an exporter: what is new in each scrape, and what becomes of it on the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gaptop_collectors.collector import Batch, Delivered, Hole, Message, Note, SourceInfo
from gaptop_collectors.devices.dcgm_fields import ENERGY, FIELDS, XID, Key, Part, Row, readings
from gaptop_collectors.devices.dcgm_period import CollectionPeriod
from gaptop_collectors.devices.dcgm_source import busy_field, describe

PARTS: Final[tuple[Part, ...]] = ("driver", "profile")
STALE_PERIODS: Final = 2


@dataclass(frozen=True, slots=True)
class Scrape:
    """When two successive scrapes were read (CLOCK_MONOTONIC ns); ``event``: the one before showed a new collection."""

    before_ns: int
    now_ns: int
    event: bool

    @property
    def middle_ns(self) -> int:
        return (self.before_ns + self.now_ns) // 2


@dataclass(slots=True)
class _State:
    """One part's fields as last seen, whether this scrape's differ, and when a collection of it was last given out."""

    values: dict[str, float | None] | None = None
    changed: bool = False
    given_ns: int = 0


class DcgmDevice:
    """Driven by DcgmExporter: ``see`` for each scrape that has the device, then ``give``; ``miss`` where it has not."""

    def __init__(self, base: str, key: Key, now_ns: int) -> None:
        self.key = key
        self.mig_parent = False
        self.read_at_scrape = False
        self._base = base
        self._row = Row()
        self._seen: set[str] = set()
        self._states: dict[Part, _State] = {part: _State() for part in PARTS}
        self._told_ns = now_ns
        self._delivered_to_ns = 0
        self._xid: float | None = None
        self._new_xid = 0
        self._missing = False
        self._sent: SourceInfo | None = None

    @property
    def source(self) -> str:
        return f"dcgm/{self.key.label}"

    def has(self, part: Part) -> bool:
        return bool(self._states[part].values)

    def changed(self, part: Part) -> bool:
        """Whether the newest scrape's values of this part differ from those of the scrape before."""
        return self._states[part].changed

    def see(self, row: Row) -> None:
        """Compare with the scrape before."""
        self._row = row
        self._seen |= {name for name, value in row.fields.items() if value is not None}
        for part, state in self._states.items():
            values = row.part(part)
            state.changed = state.values is not None and values != state.values
            state.values = values
        xid = row.fields.get(XID)
        self._new_xid = int(xid) if xid and self._xid is not None and xid != self._xid else 0
        self._xid = self._xid if xid is None else xid

    def forget(self) -> None:
        """What comes next is compared with nothing: scrapes failed in between."""
        self._states = {part: _State(given_ns=state.given_ns) for part, state in self._states.items()}

    def give(self, scrape: Scrape, period: CollectionPeriod) -> list[Message]:
        """The news of this scrape."""
        messages: list[Message] = []
        info = self._info(period)
        if info != self._sent:
            self._sent = info
            messages.append(info)
        if self._missing:
            self._missing = False
            messages.append(Hole(self.source, self._told_ns, scrape.now_ns, "the exporter did not tell of it"))
            messages.append(Note(scrape.now_ns, "gpu_back", f"{self._label()} is told of again.", self.source))
            self._told_ns = scrape.now_ns
        if self._new_xid:
            says = f"{self._label()} reported Xid {self._new_xid}."
            messages.append(Note(scrape.now_ns, "xid", says, self.source, {"xid": self._new_xid}))
        by_time: dict[int, dict[str, float | None]] = {}
        for part, state in self._states.items():
            at_ns = self._new_at(part, state, scrape, period.seconds)
            if at_ns is None or (part == "profile" and period.seconds is None):
                continue  # a mean over a period of unknown length says nothing
            busy = busy_field(self._seen, mig_parent=self.mig_parent)
            values = {key: value for key, value in readings(self._row, part, busy).items() if value is not None}
            if values:
                by_time.setdefault(at_ns, {}).update(values)
                state.given_ns = at_ns
        for at_ns, batch in sorted(by_time.items()):
            messages.append(Batch(self.source, [at_ns], {key: [value] for key, value in batch.items()}))
            self._told_ns = at_ns
        delivered = self._delivered_ns(scrape, period.seconds)
        if delivered > self._delivered_to_ns:
            self._delivered_to_ns = delivered
            messages.append(Delivered(self.source, delivered))
        return messages

    def miss(self, now_ns: int) -> list[Message]:
        """The scrape went well and has nothing of this device."""
        messages: list[Message] = []
        if not self._missing:
            self._missing = True
            self.forget()
            says = f"{self._label()} is no longer told of by the dcgm-exporter at {self._base}."
            messages.append(Note(now_ns, "gpu_lost", says, self.source))
        messages.append(Hole(self.source, self._told_ns, now_ns, "the exporter does not tell of it"))
        self._told_ns = now_ns
        return [*messages, Delivered(self.source, now_ns)]

    def failed(self, now_ns: int, reason: str) -> Hole:
        """Scrapes failed since the last news, until now."""
        start, self._told_ns = self._told_ns, now_ns
        return Hole(self.source, start, now_ns, reason)

    def _new_at(self, part: Part, state: _State, scrape: Scrape, period: float | None) -> int | None:
        """When the values that this scrape shows were collected, None where they are not new.

        Equal values are new where the exporter collected (others' values changed with the scrape before, and these had
        one scrape more to follow) and they are of a kind that comes out equal: shares at 0 or 1, or no energy counter.
        """
        if state.changed:
            return scrape.middle_ns
        if not scrape.event or period is None or not state.values or scrape.now_ns - state.given_ns < period * 5e8:
            return None
        if part == "profile":
            ratios = [value for name, value in state.values.items() if FIELDS[name].most == 1]
            equal = bool(ratios) and all(value in (0.0, 1.0) for value in ratios)
        else:
            equal = state.values.get(ENERGY) is None
        return scrape.before_ns + 1 if equal else None

    def _delivered_ns(self, scrape: Scrape, period: float | None) -> int:
        """Up to where nothing more comes: not past the last mean, whose successor will begin there."""
        if not self.has("profile"):
            return scrape.before_ns
        if period is None:
            return 0
        given = self._states["profile"].given_ns
        stale = scrape.now_ns - given > STALE_PERIODS * period * 1e9
        return scrape.before_ns if given and stale else given

    def _info(self, period: CollectionPeriod) -> SourceInfo:
        return describe(
            self._base,
            self.key,
            self._row,
            self._seen,
            period.seconds,
            period.poll,
            at_most=period.at_most,
            mig_parent=self.mig_parent,
            read_at_scrape=self.read_at_scrape,
        )

    def _label(self) -> str:
        what = f"MIG instance {self.key.instance} of GPU" if self.key.instance else "GPU"
        return f"{what} {self.key.uuid if self._row.index is None else self._row.index} ({self._row.name or 'no name'})"
