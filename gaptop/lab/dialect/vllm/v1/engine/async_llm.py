"""Named after vllm/v1/engine/async_llm.py: the front end's task that handles what the engine sends."""

from __future__ import annotations

from collections.abc import Callable

from gaptop.lab.core.events import StepDone
from gaptop.lab.dialect.vllm.v1.engine.core_client import AsyncMPClient
from gaptop.lab.dialect.vllm.v1.engine.output_processor import OutputProcessor
from gaptop.lab.dialect.vllm.v1.metrics.loggers import PrometheusStatLogger


class AsyncLLM:
    """``step`` gives the simulation's next step message, ``moved`` is told the virtual clock's origin."""

    def __init__(
        self,
        client: AsyncMPClient,
        logger: PrometheusStatLogger,
        step: Callable[[], StepDone],
        moved: Callable[[int], None],
    ) -> None:
        self._client = client
        self._logger = logger
        self._step = step
        self._moved = moved
        self._processor = OutputProcessor()

    async def output_handler(self) -> None:
        """For ever; raises asyncio.IncompleteReadError when the engine process has ended."""
        while True:
            _, origin_ns = await self._client.get_output_async()
            self._moved(origin_ns)
            step = self._step()
            self._processor.process_outputs(step)
            self._logger.record(step)
