"""The lab's endpoints, as vLLM 0.32 has them: with the slash, /metrics/ honours ``name[]``; without it, it does not."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gaptop.lab.core.model import EngineConfig

MODEL = "simulated-8b (lab)"
VERSION = "0.32.0+lab"


class Endpoints:
    """``engine_alive`` answers for /health."""

    def __init__(self, registry: CollectorRegistry, config: EngineConfig, engine_alive: Callable[[], bool]) -> None:
        self._registry = registry
        self._config = config
        self._engine_alive = engine_alive

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/metrics/", self._some_metrics),
                web.get("/version", self._version),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
            ]
        )
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        return self._exposition(generate_latest(self._registry))

    async def _some_metrics(self, request: web.Request) -> web.Response:
        names = request.query.getall("name[]", [])
        if not names:
            return await self._metrics(request)
        return self._exposition(generate_latest(self._registry.restricted_registry(names)))

    @staticmethod
    def _exposition(body: bytes) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": VERSION})

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "owned_by": "gaptop lab", "max_model_len": self._config.max_model_len}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._engine_alive() else 503)
