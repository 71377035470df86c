"""The simulated servers of gaptop that run on this host: they are left out where none is named, and that is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MODULE: Final = "gaptop.lab.live"
_NAMES: Final = "LAB::"


def left_out() -> str:
    """The sentence about those that run here; "" where none does."""
    found = _addresses()
    if not found:
        return ""
    if len(found) == 1:
        return (
            f"a simulated server (gaptop demo, or lab) runs at {found[0]} and is left out, because it is no real one; "
            f"gaptop {found[0]} watches it all the same."
        )
    return (
        f"{len(found)} simulated servers (gaptop demo, or lab) run at {', '.join(found)} and are left out, because "
        f"they are no real ones; name one to watch it all the same, for example gaptop {found[0]}."
    )


def _addresses() -> Sequence[str]:
    """The URL of each, oldest first. Of another user's the port may not be seen: that one is not told."""
    from gaptop_collectors.host.proctable import listeners, read_argv, scan

    rows = [row for row in scan().values() if row.comm.startswith(_NAMES)]
    pids = [row.pid for row in sorted(rows, key=lambda row: row.started) if _is_lab(read_argv(row.pid))]
    ports = {listener.pid: listener.port for listener in listeners()} if pids else {}
    return [f"http://127.0.0.1:{ports[pid]}" for pid in pids if pid in ports]


def _is_lab(argv: Sequence[str]) -> bool:
    return "-m" in argv and list(argv[argv.index("-m") + 1 :][:1]) == [_MODULE]
