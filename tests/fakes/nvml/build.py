"""Build the stand-in NVML library, and the environment that makes a process use it.

    environment = os.environ | fake.environment({"devices": [{"series": [(1.0, 300), (0.0, 60)], "loop": True}]})
    subprocess.Popen([sys.executable, "-m", "gaptop", ...], env=environment)

The unmodified binding (nvidia-ml-py) looks libnvidia-ml.so.1 up through LD_LIBRARY_PATH, so the choice is made when a
process starts. Without a C compiler :func:`library` raises :class:`NoCompiler`; tests skip with its text.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fakes.nvml import profiles

HERE: Final = Path(__file__).parent
SOURCES: Final = tuple(sorted(path.name for path in HERE.iterdir() if path.suffix in (".c", ".h")))
FILE_NAME: Final = "libnvidia-ml.so.1"
RULES: Final = (
    "unsupported",
    "fail",
    "fail_after_calls",
    "slow",
    "crash",
    "counter",
    "dry",
    "xid",
    "latency_us",
    "gpm_missing",
    "nvlink_down",
)
"""Keys that may be there several times."""


class NoCompiler(Exception):
    """There is no C compiler to build the stand-in with."""


def library(tmp_dir: Path | None = None, without: Sequence[str] = ()) -> Path:
    """The path of libnvidia-ml.so.1, compiled once for each state of the sources and each set of left-out symbols.

    ``tmp_dir``: where to keep builds (default: a folder of this user under the temporary directory).
    ``without``: symbols to leave out, as an old driver does. Raises NoCompiler, or CalledProcessError with cc's text.
    """
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler("no C compiler (cc, gcc or clang) to build the stand-in NVML with: apt install gcc libc6-dev")
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    digest.update(" ".join(sorted(without)).encode())
    root = tmp_dir or Path(tempfile.gettempdir()) / f"gaptop-fake-nvml-{os.getuid()}"
    folder = root / digest.hexdigest()[:16]
    target = folder / FILE_NAME
    if target.exists():
        return target
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f"{FILE_NAME}.{os.getpid()}"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-fvisibility=hidden"]
    names = [f"-D{symbol}=left_out_{symbol}" for symbol in without]
    command = [compiler, *flags, *names, f"-Wl,-soname,{FILE_NAME}", "-o", str(partial), "nvml.c", "-lpthread", "-lm"]
    subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True)
    partial.rename(target)
    return target


def environment(
    config: Mapping[str, Any], tmp_dir: Path | None = None, without: Sequence[str] = (), calls: Path | None = None
) -> dict[str, str]:
    """The variables to add to a child's environment.

    ``calls``: a file that gets the number of calls of each C function, as JSON, each second and at the end.
    ``config``: ``clock`` (``epoch | boot | monotonic``, or ``offset_ns`` for none of them), ``driver``, ``init_error``
    (an nvmlReturn_t), ``init_ms`` (how long a session takes to open), ``start_ns`` (CLOCK_MONOTONIC of the start of
    window 0; default: the first nvmlInit), ``virtual`` (all clocks are set by the caller, see clocks.py), and
    ``devices``: a list of dicts with

    * ``profile``: a name of profiles.py; what the device says itself comes on top;
    * what it does: ``series`` (pairs (busy 0..1, watts), one a window; ``loop``: repeat it, else its last pair holds),
      or ``intervals`` (ascending pairs (from, to) of busy seconds; ``repeat_s``: again and again, from time 0), or
      ``mirror`` (pids whose busiest thread is shown as the GPU, see mirror.h);
    * ``watts`` ((idle, busy): instead of a series' own, and for intervals; 60 and 300), ``power_ms`` ((update, window):
      instant power is the mean of a short window, taken anew each so often), ``usage_average`` (GetPowerUsage is a
      one-second mean);
    * ``window_ms`` (200), ``delay_ms`` (10: how long after a window its reading is stamped and out), ``jitter_ms`` (the
      windows' edges are off their grid by up to that), ``rounding`` (``nearest | down``), ``ring`` (72 entries),
      ``rotate`` (the ring is not sorted), ``garbage`` (stamp 0, 37100 %, an entry twice), ``dry``: pairs of seconds
      since the start between which the ring gets no entries, ``dry_idle`` (nor after so many seconds without work),
      ``rates_ms`` (GetUtilizationRates gives a copy that is made anew each so often);
    * ``gpm`` (it has GPM), ``sm, tensor, dram`` (their share of busy time: 0.8, 0.3, 0.5), ``gpm_missing`` (metric ids
      that fail, or pairs with the code);
    * ``mig``, and ``mig_slices``: a list of dicts (None: an index without a slice) with ``profile`` (``1g.10gb``),
      ``uuid, name, gpu_instance, compute_instance``, ``share`` (of its GPU's busy time) or what it does itself, memory,
      ``pids``, ``sm, tensor, dram``, ``gpm`` (else its GPU's);
    * ``nvlink_links``, ``nvlink_rate`` (bytes a second of a link; a pair: received, sent), ``nvlink_version`` (4:
      fields 138..141, 5: 201..204), ``nvlink_down`` (links), ``pcie_rate`` (bytes a second), ``wrap32`` (counters
      wrap), ``counter``: (field id, share of time it runs), ``latency_us``: (field id or "all", microseconds);
    * ``xid``: (code, second) or (code, second, GPU instance): an event, see events.h;
    * ``uuid, name, arch, compute, persistence, virtualization, memory_total, memory_used, memory_busy, temperature,
      power_limit`` (watts), ``reasons`` (bitmask), ``pids`` (compute processes);
    * ``unsupported``: names of C functions or ``field:186``, or pairs (function, code) for another code;
    * ``fail``: (code, from second, to second or 0 = for ever); ``fail_after_calls``: (code, calls on that device);
    * ``slow``: (function, milliseconds, after calls, how many calls or 0 = all); ``crash``: (function, after calls).

    Where tuples are taken, a list of them is, too.
    """
    left_out = list(without)
    lines = []
    devices = []
    for given in config.get("devices", ()):
        machine, device = profiles.applied(given)
        left_out += machine.without
        lines += [f"{key} {value}" for key, value in machine.config.items() if key not in config]
        devices.append(device)
    lines += [f"{key} {_number(value)}" for key, value in config.items() if key != "devices"]
    for index, device in enumerate(devices):
        lines += [f"device {index}", *_lines(device)]
        for number, piece in enumerate(device.get("mig_slices", ())):
            lines.append(f"slice {number}")
            lines += ["slice_profile"] if piece is None else _lines({"slice_profile": "1g.10gb", **_renamed(piece)})
    folder = str(library(tmp_dir, tuple(dict.fromkeys(left_out))).parent)
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {
        "LD_LIBRARY_PATH": f"{folder}:{inherited}" if inherited else folder,
        "GAPTOP_FAKE_NVML": _fitting("\n".join(lines) + "\n", Path(folder)),
        **({"GAPTOP_FAKE_NVML_CALLS": str(calls)} if calls else {}),
    }


def calls_in(path: Path) -> dict[str, int]:
    """The counts that a child has written."""
    counts: dict[str, int] = json.loads(path.read_text())
    return counts


def _renamed(piece: Mapping[str, Any]) -> dict[str, Any]:
    return {"slice_profile" if key == "profile" else key: value for key, value in piece.items()}


def _lines(device: Mapping[str, Any]) -> list[str]:
    return [f"{key} {text}" for key, value in device.items() if key != "mig_slices" for text in _texts(key, value)]


def _texts(key: str, value: Any) -> list[str]:
    if key in ("series", "intervals"):
        return [" ".join(f"{first:.9g}:{second:.9g}" for first, second in value)]
    if key in ("mirror", "pids"):
        return [" ".join(str(pid) for pid in value)]
    if key in RULES:
        items = value if isinstance(value, list | range) else [value]
        return [" ".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in items]
    return [" ".join(map(str, value)) if isinstance(value, tuple) else _number(value)]


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _fitting(text: str, folder: Path) -> str:
    """The text, or "@" and the file that it was written to: Linux takes no variable of 128 KiB."""
    if len(text) < 100_000:
        return text
    file = folder / f"play-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not file.exists():
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.rename(file)
    return f"@{file}"
