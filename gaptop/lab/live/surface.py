"""What each dialect shows over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import web

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.fast.view import Dialect
from gaptop.lab.live.http import Endpoints
from gaptop.lab.live.llama_http import LlamaEndpoints

VERSIONS: Final[dict[Dialect, str]] = {"vllm": "0.32.0+lab", "vllm-0.8": "0.8.5+lab", "llamacpp": "b6500-lab"}


class Surface(Protocol):
    """One server's endpoints, and the numbers behind them."""

    def record(self, step: StepDone) -> None:
        """Book one message of the engine."""
        ...

    def launched(self, span: DeviceSpan) -> None:
        """The device does this; told before the next message."""
        ...

    def application(self) -> web.Application:
        """The routes."""
        ...


def surface_of(dialect: Dialect, config: EngineConfig, engine_alive: Callable[[], bool]) -> Surface:
    """``engine_alive`` answers for /health."""
    version = VERSIONS[dialect]
    if dialect == "llamacpp":
        return LlamaEndpoints(config, version)
    return Endpoints(config, version, engine_alive, old=dialect == "vllm-0.8")
