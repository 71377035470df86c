"""GPUs through a dcgm-exporter's endpoint, for hosts where NVML is out of reach.

The exporter has DCGM read the GPUs each collection period (30 s unless told otherwise); what it answers between two
collections are the same values again. So the period is measured, the endpoint asked about four times a period, and a
reading given out only for a new collection. Profiling fields (``*_ACTIVE``) are means over the period, so they are
windows of that length; ``GPU_UTIL`` is the driver's last short window at the time of the collection, so it is a short
window with nothing known in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from gaptop_collectors.collector import CollectorError, Message, Note
from gaptop_collectors.devices.dcgm_address import exporter_address
from gaptop_collectors.devices.dcgm_device import DcgmDevice, Scrape
from gaptop_collectors.devices.dcgm_fields import NAMES, Key, Part, Row, rows
from gaptop_collectors.devices.dcgm_period import CollectionPeriod
from gaptop_collectors.devices.dcgm_source import NAME
from gaptop_collectors.engines.exposition import ExpositionReader, NotMetrics, Sample
from gaptop_collectors.engines.http import Answer, Endpoint
from gaptop_collectors.engines.scrapes import read_at
from gaptop_collectors.target import HttpOptions

PATH: Final = "/metrics"
MOST_DEVICES: Final = 256
_WHY: Final = {"absent": "nothing there to answer", "refused": "no right to read it", "starting": "still starting"}


def nobody(uuid: str, part_of: str) -> str:
    """No one else delivers any device."""
    return ""


class DcgmExporter:
    """One exporter. ``address`` may hold a user and password; nothing else secret is ever sent there: the server's
    headers are the server's. ``told_by(uuid, parent)`` names who else delivers a GPU (``parent`` "") or the utilisation
    of a GPU's MIG slices (``uuid`` "", ``parent`` that GPU); "" where nobody does. Such a device is left out here."""

    name = NAME
    deadline = 2.0

    def __init__(self, address: str, http: HttpOptions, told_by: Callable[[str, str], str] = nobody) -> None:
        self.base, headers = exporter_address(address)
        self._endpoint = Endpoint(self.base, replace(http, headers=headers))
        self._told_by = told_by
        self._reader = ExpositionReader(NAMES)
        self._period = CollectionPeriod()
        self.period = self._period.poll
        self._devices: dict[Key, DcgmDevice] = {}
        self._left_out: dict[Key, str] = {}
        self._last_ns = 0
        self._event = False
        self._failing = ""

    @property
    def keys(self) -> Sequence[Key]:
        """What it delivers. For any thread."""
        return list(self._devices)

    def open(self) -> Sequence[Message]:
        return self.sample()

    def sample(self) -> Sequence[Message]:
        """One scrape.

        :raises CollectorError: nothing could be read, or others deliver all of it; nothing is ever repeated.
        """
        try:
            answer = self._get()
            samples = self._read(answer)
            found = rows(samples)
            if not found:
                raise self._wrong("has no GPU's DCGM_FI_ lines", "check that the address is a dcgm-exporter's")
        except CollectorError as error:
            self._failing = self._failing or _WHY.get(error.state, "no usable answer")
            self._period.interrupt()
            for device in self._devices.values():
                device.forget()
            raise
        messages = self._take(found, read_at(answer), any("hostname" in sample.labels for sample in samples))
        if not self._devices:
            who = "; ".join(sorted({f"{key.label} by {by}" for key, by in self._left_out.items()}))
            raise CollectorError(
                f"The GPUs of dcgm-exporter at {self.base} are left out, because others deliver them already "
                f"({who}); leave --dcgm {self.base} away, or use --no-gpu to take the exporter's word instead.",
                state="absent",
            )
        self.period = self._period.poll
        return messages

    def boost(self, seconds: float) -> None:
        """Nothing to gain: the values change no sooner."""

    def close(self) -> None:
        self._endpoint.close()

    def _take(self, found: dict[Key, Row], now_ns: int, read_at_scrape: bool) -> list[Message]:
        before_ns, self._last_ns = self._last_ns, now_ns
        messages = self._choose(found, now_ns)
        if self._failing:
            messages += [device.failed(now_ns, self._failing) for device in self._devices.values()]
            before_ns, self._event, self._failing = 0, False, ""
        parents = {key.uuid for key in found if key.instance}
        there = [device for key, device in self._devices.items() if key in found]
        for device in there:
            device.mig_parent = not device.key.instance and device.key.uuid in parents
            device.read_at_scrape = read_at_scrape
            device.see(found[device.key])
        event = self._collected(there)
        self._period.scraped(now_ns / 1e9, event)
        scrape = Scrape(before_ns or now_ns, now_ns, self._event)
        self._event = event
        for device in self._devices.values():
            messages += device.give(scrape, self._period) if device.key in found else device.miss(now_ns)
        return messages

    def _collected(self, there: Sequence[DcgmDevice]) -> bool:
        """Whether a new collection shows. Where there are driver's fields they tell: the others may come apart."""
        part: Part = "driver" if any(device.has("driver") for device in there) else "profile"
        return any(device.changed(part) for device in there)

    def _choose(self, found: dict[Key, Row], now_ns: int) -> list[Message]:
        """Add devices that are new and nobody else delivers, and drop those that somebody has begun to."""
        messages: list[Message] = []
        for key in [*found, *(key for key in self._devices if key not in found)]:
            by = self._told_by("", key.uuid) if key.instance else self._told_by(key.uuid, "")
            known = self._left_out.get(key)
            if by:
                self._devices.pop(key, None)
                self._left_out[key] = by
                if known is None:
                    says = f"{key.label} of dcgm-exporter at {self.base} is left out: {by} delivers it."
                    messages.append(Note(now_ns, "dcgm_left_out", says))
                continue
            self._left_out.pop(key, None)
            if key not in self._devices and len(self._devices) < MOST_DEVICES:
                self._devices[key] = DcgmDevice(self.base, key, now_ns)
        return messages

    def _get(self) -> Answer:
        try:
            answer = self._endpoint.get(PATH)
        except CollectorError as error:
            # What is wrong is the endpoint's to say; what that means, and what to do, is different here.
            what = error.says.partition(", so the engine")[0]
            raise CollectorError(
                f"{what}, so the GPUs it tells of are not visible; {_remedy(error)}.",
                state=error.state,
                retry=error.retry,
            ) from None
        status = answer.status
        if status in (401, 403):
            raise self._wrong(
                f"wants credentials (HTTP {status})",
                "give its user and password in the environment, GAPTOP_DCGM=https://USER:PASSWORD@HOST:PORT (--header "
                "and --token-file are for the server alone)",
                state="refused",
            )
        if status == 404:
            raise self._wrong("does not exist (HTTP 404)", "check that --dcgm is a dcgm-exporter's address", "absent")
        if status != 200:
            raise self._wrong(f"answered HTTP {status}", "look into dcgm-exporter's log")
        return answer

    def _read(self, answer: Answer) -> list[Sample]:
        try:
            if answer.cut:
                raise NotMetrics("ends inside a line and may be incomplete")
            samples = self._reader.read(answer.text)
        except NotMetrics as error:
            raise self._wrong(str(error), "check that the address is a dcgm-exporter's") from None
        if not samples and not answer.text.strip():
            raise self._wrong(
                "is empty",
                "wait one collection period (30 s by default) after its start, else look into dcgm-exporter's log",
                "starting",
            )
        return samples

    def _wrong(self, what: str, remedy: str, state: str = "failing") -> CollectorError:
        says = f"{self.base}{PATH} {what}, so the GPUs it tells of are not visible; {remedy}."
        return CollectorError(says, state=state)  # type: ignore[arg-type]


def _remedy(error: CollectorError) -> str:
    if not error.retry:
        return "give --ca a readable PEM file"
    if error.state == "refused":
        return "give its authority with --ca FILE, or accept it unchecked with --insecure"
    if error.state == "absent":
        return "start dcgm-exporter there, or give --dcgm its address (its own port is 9400)"
    return "see whether --dcgm is its address, http or https, and look into dcgm-exporter's log"
