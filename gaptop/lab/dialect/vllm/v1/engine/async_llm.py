"""Named after vllm/v1/engine/async_llm.py: the front end's task that handles what the engine sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gaptop.lab.core.events import StepDone
from gaptop.lab.dialect.vllm.v1.engine.core_client import AsyncMPClient
from gaptop.lab.dialect.vllm.v1.engine.output_processor import OutputProcessor


class Logger(Protocol):
    """Takes each message into the metrics."""

    def record(self, step: StepDone) -> None:
        """Book it."""
        ...


class AsyncLLM:
    """``step`` gives the simulation's next step message, ``moved`` is told the virtual clock's origin.

    ``holds_interpreter``: detokenising lets no other thread of the process run.
    """

    def __init__(
        self,
        client: AsyncMPClient,
        logger: Logger,
        step: Callable[[], StepDone],
        moved: Callable[[int], None],
        *,
        holds_interpreter: bool = False,
    ) -> None:
        self._client = client
        self._logger = logger
        self._step = step
        self._moved = moved
        self._processor = OutputProcessor(holds_interpreter=holds_interpreter)

    async def output_handler(self) -> None:
        """For ever; raises asyncio.IncompleteReadError when the engine process has ended."""
        while True:
            _, origin_ns = await self._client.get_output_async()
            self._moved(origin_ns)
            step = self._step()
            self._processor.process_outputs(step)
            self._logger.record(step)
