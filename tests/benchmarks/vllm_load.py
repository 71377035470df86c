"""A steady load on a real vLLM. Usage: vllm_load.py URL SECONDS PID...

Says on each line how many tokens came and how much CPU time those processes of the server have used until then.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from typing import Final

from tests.real import load

_CLIENTS: Final = 6
_EVERY: Final = 0.02


def main(url: str, seconds: float, pids: Sequence[int]) -> None:
    load.MAX_REQUESTS = sys.maxsize
    asyncio.run(load.drive(url, "vllm", lambda client: _script(client, seconds, pids), limit=seconds + 60))


async def _script(client: load.Client, seconds: float, pids: Sequence[int]) -> None:
    end = time.monotonic() + seconds
    lengths = random.Random(11)

    async def asks() -> None:
        while time.monotonic() < end:
            # Of many lengths, so that the requests do not all end together.
            await client.one(40, lengths.randrange(60, 141))

    clients = [asyncio.create_task(asks()) for _ in range(_CLIENTS)]
    while time.monotonic() < end:
        print(client.drive.tokens, sum(map(_used, pids)), flush=True)
        await asyncio.sleep(_EVERY)
    await asyncio.gather(*clients)


def _used(pid: int) -> float:
    """CPU seconds of all threads of a process, by its own clock: nanoseconds, where /proc/PID/stat counts in ticks."""
    return time.clock_gettime((~pid << 3) | 2)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), [int(pid) for pid in sys.argv[3:]])
