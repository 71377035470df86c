"""One endpoint, asked over a kept connection from the collector's own thread.

Whatever goes wrong becomes one sentence (:class:`CollectorError`): what is wrong, what is therefore not visible, and
the remedy. No text of an exception is ever copied into it: it could hold a header's secret.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin

import aiohttp

from gaptop_collectors.collector import CollectorError
from gaptop_collectors.engines.address import host_and_port, printable, same_origin
from gaptop_collectors.target import HttpOptions

BODY_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one (decompressed) body. A vLLM exposition has 54 KB, /slots of 256 slots 180 KB."""

_HIDES: Final = "so the engine's queue, tokens and KV cache are not visible"
_REDIRECTS: Final = 3
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Answer:
    """One response. Times are CLOCK_MONOTONIC ns: request handed to the socket, first byte (headers) here, body whole.

    ``framed``: the server said how long the body is (Content-Length or chunks) and it came whole.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    begun_ns: int
    sent_ns: int
    first_ns: int
    done_ns: int
    framed: bool

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def cut(self) -> bool:
        """Nobody said how long the body is and it ends inside a line: it may have been cut there."""
        return not self.framed and not self.body.endswith(b"\n")


class Endpoint:
    """GET requests to one server; every call ends within ``options.timeout`` seconds. Not thread-safe."""

    def __init__(self, base: str, options: HttpOptions, *, body_limit: int = BODY_LIMIT) -> None:
        self.base = base
        self._options = options
        self._body_limit = body_limit
        self._runner: asyncio.Runner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._sent_ns = 0

    def get(self, path: str, *, timeout: float | None = None) -> Answer:
        """GET ``path`` (with an encoded query) under the base URL, whatever the status.

        :raises CollectorError: no whole answer came in time.
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._get(self.base + path, min(timeout or 1e9, self._options.timeout)))

    def close(self) -> None:
        """Close the connection and the event loop; a later get() opens new ones."""
        if self._runner is not None:
            if self._session is not None:
                self._runner.run(self._session.close())
            self._runner.close()
        self._runner = self._session = None

    async def _get(self, url: str, timeout: float) -> Answer:
        try:
            async with asyncio.timeout(timeout):
                for _ in range(_REDIRECTS):
                    answer = await self._reconnecting(url)
                    target = answer.headers.get("Location")
                    if answer.status not in (301, 302, 303, 307, 308) or target is None:
                        return answer
                    url = self._same_host(urljoin(url, target))
        except TimeoutError:
            raise CollectorError(
                f"{self.base} gave no whole answer within {timeout:g} s, {_HIDES}; see whether its process is stopped "
                "or its front end saturated (host lanes, `ps -o stat`)."
            ) from None
        raise CollectorError(f"{self.base} redirects in a circle, {_HIDES}; give gaptop the server's own address.")

    async def _reconnecting(self, url: str) -> Answer:
        """Servers close kept connections silently (llama-server each hundredth response): once, that is no failure."""
        try:
            return await self._fetch(url)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as first:
            if isinstance(first, aiohttp.ClientConnectorError):
                raise self._failure(first) from None
        except aiohttp.ClientError as error:
            raise self._failure(error) from None
        try:
            return await self._fetch(url)
        except aiohttp.ClientError as error:
            raise self._failure(error) from None

    async def _fetch(self, url: str) -> Answer:
        session = self._session or self._open_session()
        begun = self._sent_ns = time.monotonic_ns()
        try:
            async with session.get(url, allow_redirects=False) as response:
                first = time.monotonic_ns()
                body = bytearray()
                async for piece in response.content.iter_chunked(65536):
                    body += piece
                    if len(body) > self._body_limit:
                        response.close()
                        raise CollectorError(
                            f"{self.base} sent more than {self._body_limit >> 20} MiB where metrics were expected, "
                            f"{_HIDES}; check that the address is the engine's own."
                        )
                framed = "Content-Length" in response.headers or "chunked" in response.headers.get(
                    "Transfer-Encoding", ""
                )
                return Answer(
                    response.status,
                    response.headers,
                    bytes(body),
                    begun,
                    self._sent_ns,
                    first,
                    time.monotonic_ns(),
                    framed,
                )
        except aiohttp.ClientError:
            raise  # before ValueError: aiohttp's certificate error is one too
        except ValueError:
            raise CollectorError(
                f"A header given for {self.base} cannot be sent (line break or other control character), {_HIDES}; "
                "check --header and the token file.",
                retry=False,
            ) from None

    def _open_session(self) -> aiohttp.ClientSession:
        host, _ = host_and_port(self.base)
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(self._note_sent)
        headers = {
            "User-Agent": "gaptop",
            "Accept": "text/plain;version=0.0.4, application/json, */*;q=0.1",
            # Compressing costs the server's event loop more than the loopback saves.
            "Accept-Encoding": "identity" if host in _LOOPBACK else "gzip",
            **self._options.headers,
        }
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=1, ssl=self._tls()),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            trace_configs=[trace],
        )
        return self._session

    async def _note_sent(self, *_: object) -> None:
        self._sent_ns = time.monotonic_ns()

    def _tls(self) -> ssl.SSLContext | bool:
        if not self.base.startswith("https:"):
            return True
        if self._options.insecure:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            return ssl.create_default_context(cafile=self._options.ca_file)
        except (OSError, ssl.SSLError):
            raise CollectorError(
                f"The certificate file {printable(self._options.ca_file or '')} cannot be read, {_HIDES}; give --ca a "
                "readable PEM file.",
                retry=False,
            ) from None

    def _same_host(self, target: str) -> str:
        if same_origin(self.base, target):
            return target
        where = printable(target.partition("?")[0])
        raise CollectorError(
            f"{self.base} redirects to {where}, which gaptop does not follow because it is another server, {_HIDES}; "
            "give gaptop that address if it is the one to watch."
        )

    def _failure(self, error: aiohttp.ClientError) -> CollectorError:
        base = self.base
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return CollectorError(
                f"The TLS certificate of {base} is not trusted, {_HIDES}; give its authority with --ca FILE, or accept "
                "it unchecked with --insecure.",
                state="refused",
            )
        if isinstance(error, aiohttp.ClientSSLError):
            return CollectorError(
                f"{base} does not speak TLS the way gaptop does, {_HIDES}; if it serves plain HTTP, use http://."
            )
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return CollectorError(
                f"The host name of {base} cannot be resolved, {_HIDES}; check the address.", state="absent"
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            if error.os_error.errno == errno.ECONNREFUSED:
                return CollectorError(
                    f"Nothing listens at {base}, {_HIDES}; start the server, or give gaptop its address.",
                    state="absent",
                )
            why = os.strerror(error.os_error.errno) if error.os_error.errno else "no route"
            return CollectorError(
                f"{base} cannot be reached ({why}), {_HIDES}; check address and network.", state="absent"
            )
        if isinstance(error, aiohttp.ClientPayloadError):
            return CollectorError(
                f"The answer of {base} broke off before its end, {_HIDES} for that moment; if this goes on, look into "
                "the server's log."
            )
        if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError):
            return CollectorError(
                f"{base} closed the connection without an answer, {_HIDES}; if it serves TLS, use https://, else look "
                "into its log."
            )
        return CollectorError(f"{base} does not answer in HTTP, {_HIDES}; check that the address is the engine's.")


def require_ok(answer: Answer, base: str, path: str) -> Answer:
    """The answer itself when its status is 200.

    :raises CollectorError: any other status, as one sentence with its remedy.
    """
    status, where = answer.status, f"{base}{path.partition('?')[0]}"
    if status == 200:
        return answer
    if status in (401, 403):
        raise CollectorError(
            f"{where} wants credentials (HTTP {status}), {_HIDES}; pass them with --token-file FILE, "
            "--header NAME=@FILE or --header NAME=env:VARIABLE.",
            state="refused",
        )
    if status == 404:
        raise CollectorError(
            f"{where} does not exist (HTTP 404), {_HIDES}; check that the address is the engine's own and not a "
            "gateway's.",
            state="absent",
        )
    if status == 503:
        raise CollectorError(
            f"{where} says that the server is not ready (HTTP 503), {_HIDES} until it is; wait for its start.",
            state="starting",
        )
    raise CollectorError(f"{where} answered HTTP {status}, {_HIDES}; look into the server's log.")
