"""A recording of a real vLLM (CPU) under several kinds of load, without a word about the machine it was made on.

``python -m tests.real.record_vllm FILE`` takes two minutes; ``.ci/run`` installs the engine. Nothing stands in for
anything: the device is what gaptop itself takes where there is no GPU, the CPU time of the threads that compute.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gaptop.recording.lines import Frames, Header, Line
from gaptop.recording.reader import open_stream
from gaptop.recording.writer import StreamWriter
from tests.real import servers
from tests.real.conftest import KV_BLOCKS, SEQUENCE_CAP, long_prompts, quiet, warm_up
from tests.real.load import Client, drive
from tests.real.watch import recording

FLAGS: Final = (f"--max-num-seqs={SEQUENCE_CAP}", f"--num-gpu-blocks-override={KV_BLOCKS}")


def main(target: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with servers.vllm(folder, *FLAGS) as server:
            warm_up(server.url, "vllm")
            with recording(folder / "raw.gaptop", server.url):
                asyncio.run(drive(server.url, "vllm", _script, limit=240))
        writer = StreamWriter(Path(target), compress=True)
        for line in anonymous(open_stream(folder / "raw.gaptop")):
            writer.write(line)
        writer.close()


async def _script(client: Client) -> None:
    await client.phase("steady", lambda: client.closed_loop(4, 9, 40, 100))
    await client.phase("silence", lambda: quiet(4))
    await client.phase("long", lambda: long_prompts(client, 1500))
    await client.phase("cap", lambda: client.closed_loop(30, 6, 40, 60))
    await client.phase("pause", lambda: quiet(2))
    await client.phase("full", lambda: client.closed_loop(10, 9, 300, 250))
    await client.phase("steady", lambda: client.closed_loop(4, 4, 40, 100))


def anonymous(lines: Iterator[Line]) -> Iterator[Line]:
    """The same lines with a host that is only called "host", and files named from Python's library on."""
    for line in lines:
        match line:
            case Header():
                yield replace(line, host={"name": "host", "cores": line.host["cores"]})
            case Frames():
                yield replace(
                    line, stacks={key: [_shortened(*frame) for frame in stack] for key, stack in line.stacks.items()}
                )
            case _:
                yield line


def _shortened(function: str, file: str, line: int) -> list[Any]:
    before, library, after = file.rpartition("/lib/python")
    if library:
        return [function, f"{library}{after}", line]
    return [function, "/".join(file.split("/")[-2:]), line]


if __name__ == "__main__":
    main(*sys.argv[1:])
