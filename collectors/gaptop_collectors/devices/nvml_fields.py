"""Power, energy, PCIe and NVLink bytes and the time spent limited: all in one GetFieldValues call.

Field numbers and units are those of nvml.h (API version 13): power in milliwatts, energy in millijoules since the
driver was loaded, the clocks-event-reason counters in nanoseconds, PCIe counters in bytes "which can wrap".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from gaptop_collectors.devices.nvml_calls import STRIKES, CallFailed, Calls, Trouble
from gaptop_collectors.devices.nvml_links import LINK_FIELDS, RX, TX, LinkAnswer, Links
from gaptop_collectors.signals import series_key

POWER_INSTANT: Final = 186
POWER_AVERAGE: Final = 185
LATENCY: Final = "device.own_latency"
LINKS_EVERY: Final = 4
"""The links' counters are asked for with every fourth call only: there may be 72 of them."""
ENERGY: Final = 191
TOTAL_ENERGY: Final = 83
PCIE_TX: Final = 197
PCIE_RX: Final = 198
REASONS: Final = {
    74: "sw_power_cap",
    75: "thermal_policy",
    76: "sync_boost",
    77: "board_limit",
    78: "low_utilization",
    79: "reliability",
    269: "sw_thermal_slowdown",
    270: "hw_thermal_slowdown",
    271: "hw_power_brake",
}
FIELDS: Final[dict[int, tuple[str, float]]] = {
    POWER_INSTANT: ("device.power", 1e-3),
    POWER_AVERAGE: ("device.power_average", 1e-3),
    TOTAL_ENERGY: ("device.energy", 1e-3),  # the older number first: where both answer, the newer one's value stays
    ENERGY: ("device.energy", 1e-3),
    PCIE_TX: ("device.pcie_tx", 1.0),
    PCIE_RX: ("device.pcie_rx", 1.0),
    **{field: (series_key("device.limit_seconds", reason=name), 1e-9) for field, name in REASONS.items()},
}
"""Field: series key, and the factor to its unit."""


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """One field's answer: ``number`` when ``code`` is 0. ``latency``: the driver's seconds for it (0: not told).

    ``scope``: what it was asked for (an NVLink's number). ``bits``: the width of the number's type.
    """

    field: int
    code: int
    number: float
    latency: float = 0.0
    scope: int = 0
    bits: int = 64


def read(calls: Calls, handle: Any, fields: Iterable[int | tuple[int, int]]) -> list[FieldAnswer]:
    """Ask for several fields, or fields of a scope, at once. Raises CallFailed when the whole call fails."""
    answers = []
    asked = list(fields)
    for one, item in zip(asked, calls(calls.nvml.nvmlDeviceGetFieldValues, handle, asked), strict=True):
        field, scope = one if isinstance(one, tuple) else (one, 0)
        # Each attribute of the binding's structures is slow to read, so read few, and once.
        value, kind, code = item.value, int(item.valueType), int(item.nvmlReturn)
        slot = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[kind] if 0 <= kind < 7 else "ullVal"
        latency = max(0, int(item.latencyUsec)) / 1e6
        number, bits = float(getattr(value, slot)), 32 if slot in ("uiVal", "siVal") else 64
        answers.append(FieldAnswer(field, code, number, latency, scope, bits))
    return answers


class Unwrap:
    """A 32-bit counter that wraps, made into one that does not.

    A fall from the upper half of 32 bits to the lower half is a wrap; any other fall is a restart and stays a fall.
    A link that moves over 2 GB between two readings cannot be told from a slower one.
    """

    def __init__(self) -> None:
        self._last = 0.0
        self._added = 0.0

    def read(self, number: float) -> float:
        if number < self._last:
            wrapped = 2**31 <= self._last < 2**32 and number < 2**31
            self._added = self._added + 2**32 if wrapped else 0.0
        self._last = number
        return number + self._added


class Fields:
    """The fields of one device that it supports, as signals.

    ``answers`` tells whether the device still does: a call that fails for ever on a device that is well is given up.
    """

    def __init__(self, calls: Calls, answers: Callable[[Any], bool] = lambda handle: False) -> None:
        self._calls = calls
        self._answers = answers
        self._strikes: Counter[str] = Counter()
        self._asked = list(FIELDS)
        self._power_usage = False
        self._turn = 0
        self.unsupported: dict[str, str] = {}
        self.restart()

    def restart(self) -> None:
        """The device was lost, or its driver loaded anew: smaller counters now began again, they did not wrap."""
        self._wraps = {PCIE_TX: Unwrap(), PCIE_RX: Unwrap()}
        self._links = Links()

    @property
    def power_is_legacy(self) -> bool:
        """Power comes from GetPowerUsage, whose meaning (instant or one-second mean) depends on card and driver."""
        return self._power_usage

    def read(self, handle: Any) -> dict[str, float]:
        """Readings now, by series key; what the device does not offer moves to ``unsupported`` and is asked no more.

        Raises CallFailed when the device is lost.
        """
        values: dict[str, float] = {}
        if self._asked:
            self._turn = (self._turn + 1) % LINKS_EVERY
            links = [] if self._turn else self._links.wanted()
            values = self._read_fields(handle, links)
        if self._power_usage:
            try:
                values["device.power"] = self._calls(self._calls.nvml.nvmlDeviceGetPowerUsage, handle) / 1e3
                self._strikes.pop("power", None)
            except CallFailed as failed:
                if self._given_up(handle, "power", failed):
                    self._power_usage = False
                    self.unsupported["device.power"] = self._calls.why(failed)
        return values

    def _given_up(self, handle: Any, what: str, failed: CallFailed) -> bool:
        """Whether it is to be asked no more. Raises CallFailed when the device is lost."""
        if failed.trouble is Trouble.LOST:
            if not self._answers(handle):
                raise failed
            self._strikes[what] += 1
        return failed.trouble is Trouble.UNSUPPORTED or self._strikes[what] >= STRIKES

    def _read_fields(self, handle: Any, links: Iterable[tuple[int, int]]) -> dict[str, float]:
        values: dict[str, float] = {}
        try:
            answers = read(self._calls, handle, [*self._asked, *links])
            self._strikes.pop("fields", None)
        except CallFailed as failed:
            if self._given_up(handle, "fields", failed):
                self._drop(self._asked, self._calls.why(failed))
                self.unsupported |= dict.fromkeys((RX, TX), self._calls.why(failed))
            return values
        latencies: list[float] = []
        counted: list[LinkAnswer] = []
        for answer in answers:
            if answer.field in LINK_FIELDS:
                counted.append(self._of_link(answer))
            elif answer.code == 0:
                key, factor = FIELDS[answer.field]
                wrap = self._wraps.get(answer.field)
                values[key] = (wrap.read(answer.number) if wrap else answer.number) * factor
                latencies += [answer.latency] if answer.latency else []
            # Any other code of a single field: no reading this time. A lost GPU fails the calls beside it, too.
            elif self._calls.trouble(answer.code) is Trouble.UNSUPPORTED:
                self._drop([answer.field], "this GPU or its driver does not offer it")
        if counted:
            values |= self._links.take(counted)
            self.unsupported |= self._links.unsupported
        if TOTAL_ENERGY in self._asked and any(one.field == ENERGY and one.code == 0 for one in answers):
            self._asked.remove(TOTAL_ENERGY)
        if latencies:
            values[LATENCY] = sum(latencies) / len(latencies)
            self.unsupported.pop(LATENCY, None)
        elif values:
            self.unsupported.setdefault(LATENCY, "this driver does not tell how long its fields take")
        return values

    def _of_link(self, answer: FieldAnswer) -> LinkAnswer:
        number = answer.number if answer.code == 0 else None
        refused = number is None and self._calls.trouble(answer.code) is Trouble.UNSUPPORTED
        return LinkAnswer(answer.field, answer.scope, number, answer.bits, refused)

    def _drop(self, fields: Iterable[int], reason: str) -> None:
        gone = set(fields)
        self._asked = [field for field in self._asked if field not in gone]
        still = {FIELDS[field][0] for field in self._asked}
        for field in gone:
            key = FIELDS[field][0]
            if field == POWER_INSTANT:
                self._power_usage = True
            elif key not in still:
                self.unsupported[key] = reason
