"""What the driver's Xid numbers mean to somebody who watches a server, and what to do (NVIDIA's list, in short)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_APPLICATION: Final = (
    "see what the server ran then (its log, compute-sanitizer); if other programs get it too, suspect the GPU"
)
_RESET: Final = "end what uses the GPU and reset it (nvidia-smi --gpu-reset) or reboot; if it comes back, replace it"
_MEANINGS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        13: ("a kernel faulted on the graphics engine; the program that ran it has lost its context", _APPLICATION),
        31: ("a kernel accessed memory that is not mapped; the program has lost its context", _APPLICATION),
        32: ("the GPU was given a command stream that is broken", "check PCIe and the driver, then the program"),
        38: ("the firmware inside the driver failed", "update the driver"),
        43: ("the driver stopped a program's work after a fault; the GPU itself goes on", _APPLICATION),
        45: (
            "work was removed from the GPU because its program ended or an error came before",
            "see the Xid before it",
        ),
        48: ("a memory error that ECC could not correct; the program that used the memory is ended", _RESET),
        61: ("the GPU's power controller met an internal error; clocks may be stuck", _RESET),
        62: ("the GPU's power controller has halted", _RESET),
        63: (
            "a memory row was remapped (or a page retired) after an error",
            "reset the GPU when that is possible",
        ),
        64: ("remapping a bad memory row has failed", _RESET),
        68: ("the video decoder faulted", "see the program that decodes"),
        69: ("a kernel gave the graphics engine an illegal command", _APPLICATION),
        74: ("an NVLink failed, so transfers between GPUs fail or hang", "see nvidia-smi nvlink -e; reseat or replace"),
        79: (
            "the GPU has fallen off the bus: nothing reaches it any more",
            "reboot; check power, heat and the PCIe slot",
        ),
        92: (
            "correctable memory errors come at a high rate",
            "see nvidia-smi -q -d ECC; replace the GPU if they grow",
        ),
        94: ("a memory error was contained: only the program that used the memory is ended", "start the server again"),
        95: ("a memory error was not contained: every program on the GPU may be wrong", _RESET),
        109: (
            "the GPU could not switch between programs; the one that hung is ended",
            "start the server again",
        ),
        119: ("the GPU's own processor (GSP) does not answer the driver, so its calls hang for seconds", _RESET),
        120: ("the GPU's own processor (GSP) failed", _RESET),
        121: ("the link between CPU and GPU (C2C) had errors", _RESET),
        140: ("memory errors that ECC could not correct were left over", _RESET),
        143: ("the GPU could not be initialised", "reboot; check the driver and the firmware"),
        154: ("the driver asks for a recovery of the GPU", "see nvidia-smi -q for the action (reset, reboot, drain)"),
    }
)


def meaning(number: int) -> str:
    """One or two sentences for people; for an unknown number where to look it up."""
    known = _MEANINGS.get(number)
    if known is None and 144 <= number <= 150:
        known = "an NVLink of the fifth generation had an error", "see nvidia-smi nvlink -e; then reset the GPUs"
    if known is None:
        return f"Xid {number}: the driver reports an error of the GPU; see dmesg, and NVIDIA's list of Xid errors."
    what, remedy = known
    return f"Xid {number}: {what}. Remedy: {remedy}."
