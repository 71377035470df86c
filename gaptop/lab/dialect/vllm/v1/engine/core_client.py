"""Named after vllm/v1/engine/core_client.py: the front end's side of the pipe from the engine process."""

from __future__ import annotations

import asyncio
import struct

MESSAGE = struct.Struct("<qq")
"""One message of the engine: the number of the step message that is due, and the virtual clock's origin (ns)."""


class AsyncMPClient:
    """Reads the engine's messages."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def get_output_async(self) -> tuple[int, int]:
        """The next message. Raises asyncio.IncompleteReadError when the engine process has ended."""
        number, origin_ns = MESSAGE.unpack(await self._reader.readexactly(MESSAGE.size))
        return number, origin_ns
