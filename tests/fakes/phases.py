"""A process whose main thread tells the truth about what it did: ``python phases.py LOG [THREADS [NATIVE [SCALE]]]``.

The main thread goes through phases of known functions and random lengths (``SCALE`` times the usual ones). Each is
logged as four CLOCK_MONOTONIC stamps (just before the call, first and last moment inside, just after it), so that a
thread that was taken off its core between two of them makes the log vague and never wrong. The log is written when
standard input is closed. ``THREADS`` Python threads sleep beside it, ``NATIVE`` threads know nothing of Python.

``python phases.py - [THREADS [NATIVE]]`` computes instead, and says twenty times a second how many units of work it has
done and how much CPU time that took. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import random
import select
import sys
import threading
import time

SCHEDULE, PREPARE, SAMPLE = (0.03, 0.06), (0.06, 0.14), (0.02, 0.05)
"""Seconds, from and to: 45, 100 and 35 ms on average, so 25, 56 and 19 % of the time."""
Phase = tuple[str, int, int, int, int]


def stay(seconds: float) -> tuple[int, int]:
    """Sleep in short pieces; the first and the last moment."""
    first = time.monotonic_ns()
    until = first + round(seconds * 1e9)
    while (now := time.monotonic_ns()) < until:
        time.sleep(min(0.002, (until - now) / 1e9))
    return first, time.monotonic_ns()


def schedule(seconds: float) -> tuple[int, int]:
    return stay(seconds)


def prepare_batch(seconds: float) -> tuple[int, int]:
    return stay(seconds)


def sample(seconds: float) -> tuple[int, int]:
    return stay(seconds)


def unit() -> int:
    """One unit of work, about half a millisecond."""
    return sum(item * item % 7 for item in range(5000))


def rest() -> None:
    threading.Event().wait()


def populate(python: int, native: int) -> None:
    """Threads that sleep for ever."""
    for number in range(python):
        threading.Thread(target=rest, name=f"resting {number}", daemon=True).start()
    libc = ctypes.CDLL(None)
    for _ in range(native):
        handle = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(handle), None, libc.pause, None)


def tell_phases(path: str, scale: float) -> None:
    seed = random.Random(4)
    told: list[Phase] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        for function, (shortest, longest) in ((schedule, SCHEDULE), (prepare_batch, PREPARE), (sample, SAMPLE)):
            before = time.monotonic_ns()
            first, last = function(scale * seed.uniform(shortest, longest))
            told.append((function.__name__, before, first, last, time.monotonic_ns()))
    with open(path, "w") as file:
        json.dump(told, file)


def work() -> None:
    units, told = 0, time.monotonic()
    while True:
        unit()
        units += 1
        if time.monotonic() - told >= 0.05:
            told = time.monotonic()
            print(units, time.process_time(), flush=True)


def main() -> None:
    path, python, native, scale = (*sys.argv[1:], *("", "0", "0", "1")[len(sys.argv) - 1 :])
    populate(int(python), int(native))
    print("ready", flush=True)
    if path == "-":
        work()
    else:
        tell_phases(path, float(scale))


if __name__ == "__main__":
    main()
