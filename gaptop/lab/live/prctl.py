"""Linux process settings that Python has no name for (prctl(2), linux/prctl.h)."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def _prctl(option: int, value: ctypes.c_ulong | ctypes.c_char_p) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(option, value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def allow_any_tracer() -> None:
    """Let py-spy attach under Ubuntu's ``ptrace_scope=1``. Without Yama this fails, and nothing is needed."""
    _prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY)


def name_process(name: str) -> None:
    """Set the main thread's name (``comm``, 15 bytes), which ps and top show for the process."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))


def die_with_parent(parent: int, number: signal.Signals) -> None:
    """Get ``number`` when the thread that started us ends; exit at once if ``parent`` is no longer our parent."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))
    if os.getppid() != parent:
        raise SystemExit(0)
