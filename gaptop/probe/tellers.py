"""Who delivers which GPU, so that no device is shown twice: NVML before any exporter, an exporter before later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaptop_collectors.collector import Message, SourceInfo

if TYPE_CHECKING:
    from gaptop_collectors.devices.dcgm import DcgmExporter

_NVML = "NVML on this host"


class Tellers:
    """``exporters`` by address, in their order. Each method may be called from any thread."""

    def __init__(self) -> None:
        self.exporters: dict[str, DcgmExporter] = {}
        self._gpus: set[str] = set()
        self._sliced: set[str] = set()

    def hear(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Note which GPUs NVML delivers, and on which of them the utilisation of MIG slices."""
        for message in messages:
            if isinstance(message, SourceInfo) and message.kind == "device":
                parent = message.entity.get("parent")
                if parent is None:
                    self._gpus.add(str(message.entity.get("uuid")))
                elif "device.busy" in message.signals:
                    self._sliced.add(str(parent))
        return messages

    def told_by(self, address: str, uuid: str, parent: str) -> str:
        """Who else than this exporter delivers the GPU ``uuid`` (or, with ``parent``, the utilisation of that GPU's MIG
        slices), "" where nobody does."""
        if uuid in self._gpus or parent in self._sliced:
            return _NVML
        for other, exporter in list(self.exporters.items()):
            if other == address:
                break
            for key in exporter.keys:
                if (parent and key.instance and key.uuid == parent) or (uuid and not key.instance and key.uuid == uuid):
                    return f"the dcgm-exporter at {exporter.base}"
        return ""
