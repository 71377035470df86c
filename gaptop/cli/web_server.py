"""textual-serve's server, for browsers of this machine and for the page that it made itself."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any, Final

import click
import psutil
from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

from gaptop.cli.exits import Exit, Stop
from gaptop.recording.printable import printable

_LOOPBACK: Final = "127.0.0.1"
_HERE: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_REFUSED: Final = (
    "gaptop web answers only the page that it made itself, opened as http://127.0.0.1:PORT or http://localhost:PORT: "
    "the screen has keys that write files, and no other site may press them.\n"
)
_SECRET: Final = (
    "gaptop web shows its screen at the address that it printed when it was started, whose last part is a secret, new "
    "each time: other users of this machine do not know it. Open that address.\n"
)
_PATIENCE: Final = 4.0
"""Seconds. A page's gaptop ends within two of them by itself (see tui/browser.py), once it has started."""


def serve(typed: Sequence[str], title: str, port: int) -> Exit:
    """Show pages at this port of 127.0.0.1 (0: any that is free) until SIGINT or SIGTERM. The gaptop of each is started
    with the words ``typed`` behind ``gaptop web``. Raises Stop (exit 2) where the port cannot be had."""
    try:
        listening = socket.create_server((_LOOPBACK, port))
    except OSError as error:
        raise Stop(
            f"no page can be at port {port} of {_LOOPBACK} ({os.strerror(error.errno or 0)}); "
            "--port 0 takes a free one.",
            Exit.USAGE,
        ) from None
    _as_browsers_show(os.environ)
    command = shlex.join([sys.executable, "-P", "-m", "gaptop.cli.page", "web", "--page", *typed])
    with listening:
        # exec: no shell stays between this process and the page's.
        _Pages(f"exec {command}", printable(title)).show(listening)
    return Exit.FINE


def _as_browsers_show(environ: MutableMapping[str, str]) -> None:
    """What the environment says of the terminal in which the server was started is not true of the pages."""
    environ.update(TERM="xterm-256color", COLORTERM="truecolor", LC_ALL="C.UTF-8")
    environ.pop("COLORFGBG", None)


class _Pages(Server):
    """A server that refuses other sites and who does not know its secret, and that ends with all its pages.

    The secret is the first part of every path; a cookie would go to every server of this host, whoever has it."""

    def __init__(self, command: str, title: str) -> None:
        super().__init__(command, host=_LOOPBACK, title=title)
        self.secret: Final = secrets.token_urlsafe(24)
        self._pages: set[asyncio.Task[Any]] = set()
        self._ends = False

    def show(self, listening: socket.socket) -> None:
        """Answer at this socket until SIGINT or SIGTERM, and until every page has ended."""
        self.port = listening.getsockname()[1]
        loop = asyncio.new_event_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.request_exit)
        web.run_app(
            self._make_app(),
            sock=listening,
            print=None,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_PATIENCE,
            loop=loop,
        )

    def request_exit(self) -> None:
        """The first signal ends it, with its pages; a second would only leave them behind."""
        if not self._ends:
            self._ends = True
            super().request_exit()

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[_only_own_page, self._only_with_secret, web.normalize_path_middleware()])
        app.add_subapp(f"/{self.secret}", await super()._make_app())
        app.on_response_prepare.append(_load_nothing_else)
        return app

    @web.middleware
    async def _only_with_secret(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.path.partition("/")[2].partition("/")[0]
        if not secrets.compare_digest(given.encode(errors="replace"), self.secret.encode()):
            raise web.HTTPForbidden(text=_SECRET)
        return await handler(request)

    async def on_startup(self, app: web.Application) -> None:
        click.echo(_where(self.port, self.secret))

    async def on_shutdown(self, app: web.Application) -> None:
        """Ends each page's gaptop; aiohttp alone would wait for the tabs to be closed."""
        late = await _ended(self._pages, _PATIENCE)
        if late:
            for child in psutil.Process().children():
                child.kill()
            # What they wait for then is the goodbye of a browser that does not answer.
            await _ended(late, 1.0)

    async def handle_index(self, request: web.Request) -> Any:
        # Behind a tunnel the port is another one.
        self.public_url = f"http://{request.host}"
        return await super().handle_index(request)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        page = asyncio.current_task()
        assert page is not None
        self._pages.add(page)
        try:
            return await super().handle_websocket(request)
        finally:
            self._pages.discard(page)


async def _ended(pages: set[asyncio.Task[Any]], seconds: float) -> set[asyncio.Task[Any]]:
    """Cancel them; those that have not ended by then."""
    for page in pages:
        page.cancel()
    return (await asyncio.wait(pages, timeout=seconds))[1] if pages else set()


def _where(port: int, secret: str) -> str:
    there = f"http://{_LOOPBACK}:{port}/{secret}/"
    if not os.environ.get("SSH_CONNECTION"):
        return f"Open {there} in a browser of this machine; ctrl+c ends it."
    tunnel = f"ssh -N -L {port}:{_LOOPBACK}:{port} {printable(socket.gethostname())}"
    return f"Open {there} in a browser, where you sit behind {tunnel}; ctrl+c ends it."


@web.middleware
async def _only_own_page(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Any site may point its own name here, and its scripts may open any WebSocket: the browser tells both."""
    origin = request.headers.get("Origin")
    if not _HERE.fullmatch(request.host) or origin not in (None, f"http://{request.host}"):
        raise web.HTTPForbidden(text=_REFUSED)
    return await handler(request)


async def _load_nothing_else(request: web.Request, response: web.StreamResponse) -> None:
    """The address is a secret, and is told to no other site. textual-serve's page asks a font service for a font, which
    tells it who watches, and without a network the page would wait for it; the browser's own font will do. No other
    site may show the page in a frame."""
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Content-Security-Policy"] = (
        "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; connect-src 'self' ws://{request.host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
