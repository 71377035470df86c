"""A small HTTP server on loopback, in a thread, whose answers a test scripts path by path."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse] | web.StreamResponse]


class Site:
    """``Site({"/metrics": handler})`` as a context manager; ``seen`` lists the requests as path with query.

    A handler may be a plain string (sent as text), or a function of the request. Other paths answer 404.
    """

    def __init__(self, routes: Mapping[str, Handler | str], *, tls: ssl.SSLContext | None = None) -> None:
        self.routes = dict(routes)
        self.seen: list[str] = []
        self.url = ""
        self.port = 0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
        loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls, reuse_address=True)
        loop.run_until_complete(site.start())
        self.port = runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        self._ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.path_qs)
        handler = self.routes.get(request.path)
        if handler is None:
            return web.Response(status=404, text='{"detail":"Not Found"}')
        if isinstance(handler, str):
            return web.Response(text=handler)
        answer = handler(request)
        return answer if isinstance(answer, web.StreamResponse) else await answer
