"""Build the stand-in NVML library, and the environment that makes a process use it.

    environment = os.environ | fake.environment({"devices": [{"series": [(1.0, 300), (0.0, 60)], "loop": True}]})
    subprocess.Popen([sys.executable, "-m", "gaptop", ...], env=environment)

The unmodified binding (nvidia-ml-py) looks libnvidia-ml.so.1 up through LD_LIBRARY_PATH, so the choice is made when a
process starts. Without a C compiler :func:`library` raises :class:`NoCompiler`; tests skip with its text.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
SOURCES: Final = ("nvml.c", "play.h", "mirror.h")
FILE_NAME: Final = "libnvidia-ml.so.1"


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
    names = [f"-DWITHOUT_{symbol}" for symbol in without]
    command = [compiler, *flags, *names, f"-Wl,-soname,{FILE_NAME}", "-o", str(partial), "nvml.c", "-lpthread"]
    subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True)
    partial.rename(target)
    return target


def environment(config: Mapping[str, Any], tmp_dir: Path | None = None, without: Sequence[str] = ()) -> dict[str, str]:
    """The variables to add to a child's environment.

    ``config``: ``clock`` (``epoch | boot | monotonic``, or ``offset_ns`` for none of them), ``driver``, ``init_error``
    (an nvmlReturn_t), ``start_ns`` (CLOCK_MONOTONIC of the start of window 0; default: the first nvmlInit), and
    ``devices``: a list of dicts with

    * ``series``: pairs (busy 0..1, watts), one a window; ``loop``: repeat it (else its last pair holds);
      or ``mirror``: pids whose busiest thread is shown as the GPU (see mirror.h);
    * ``window_ms`` (200), ``delay_ms`` (10: how long after a window its reading is stamped and out),
      ``ring`` (72 entries), ``rotate`` (the ring is not sorted), ``garbage`` (stamp 0, 37100 %, an entry twice),
      ``dry``: pairs of seconds since the start between which the ring gets no entries;
    * ``uuid, name, mig, memory_total, memory_used, temperature, reasons`` (bitmask), ``pids`` (compute processes),
      ``pcie_rate`` (bytes a second), ``wrap32`` (these counters wrap), ``counter``: (field id, share of time it runs);
    * ``unsupported``: names of C functions or ``field:186``, or pairs (function, code) for another code;
    * ``fail``: (code, from second, to second or 0 = for ever); ``fail_after_calls``: (code, calls on that device);
    * ``slow``: (function, milliseconds, after calls, how many calls or 0 = all); ``crash``: (function, after calls).

    ``fail``, ``slow``, ``crash``, ``counter`` and ``dry`` also take a list of such tuples.
    """
    lines = [f"{key} {value}" for key, value in config.items() if key != "devices"]
    for index, device in enumerate(config.get("devices", ())):
        lines.append(f"device {index}")
        for key, value in device.items():
            lines += [f"{key} {text}" for text in _texts(key, value)]
    folder = str(library(tmp_dir, without).parent)
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {
        "LD_LIBRARY_PATH": f"{folder}:{inherited}" if inherited else folder,
        "GAPTOP_FAKE_NVML": "\n".join(lines) + "\n",
    }


def _texts(key: str, value: Any) -> list[str]:
    if key == "series":
        return [" ".join(f"{busy:g}:{watts:g}" for busy, watts in value)]
    if key in ("mirror", "pids"):
        return [" ".join(str(pid) for pid in value)]
    if key in ("fail", "fail_after_calls", "slow", "crash", "counter", "dry", "unsupported"):
        items = value if isinstance(value, list) else [value]
        return [item if isinstance(item, str) else " ".join(str(part) for part in item) for item in items]
    return [str(int(value)) if isinstance(value, bool) else str(value)]
