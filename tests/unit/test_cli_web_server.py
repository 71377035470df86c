"""Who gets an answer from ``gaptop web``, and what its page may load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer

from gaptop.cli.web_server import _Pages


@pytest.fixture
async def client() -> AsyncIterator[TestClient]:  # type: ignore[type-arg]  # what kind of request it makes
    ends_when_told = "exec head -c 1"
    pages = _Pages(ends_when_told, "gaptop <b>x")
    async with TestClient(TestServer(await pages._make_app())) as client:
        yield client
    await asyncio.sleep(0.1)  # textual-serve does not wait for what it started, so the loop must not close at once


HERE = [("127.0.0.1:9", None), ("localhost:8123", None), ("[::1]", None), ("localhost:9", "http://localhost:9")]
ELSEWHERE = [
    ("evil.test:8123", None),
    ("evil.test", "http://evil.test"),
    ("localhost.evil.test:8123", None),
    ("127.0.0.1.evil.test", None),
    ("localhost:9", "http://evil.test"),
    ("localhost:9", "http://localhost:10"),
    ("localhost:9", "http://127.0.0.1:9"),
    ("localhost:9", "https://localhost:9"),
    ("localhost:9", "null"),
    ("localhost:9;x", None),
]


@pytest.mark.parametrize(("host", "origin"), HERE)
async def test_own_page(client: TestClient, host: str, origin: str | None) -> None:  # type: ignore[type-arg]
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    async with client.get("/", headers=headers) as answer:
        text = await answer.text()
    assert answer.status == 200
    assert f'data-session-websocket-url="ws://{host}/ws"' in text, "also behind a tunnel with another port"
    assert "gaptop &lt;b&gt;x" in text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert f"ws://{host};" in policy
    async with client.ws_connect("/ws", headers=headers) as opened:
        assert not opened.closed


@pytest.mark.parametrize(("host", "origin"), ELSEWHERE)
@pytest.mark.parametrize("path", ["/", "/static/js/textual.js", "/download/x"])
async def test_another_site(client: TestClient, host: str, origin: str | None, path: str) -> None:  # type: ignore[type-arg]
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    async with client.get(path, headers=headers) as answer:
        assert answer.status == 403
        assert "opened as http://127.0.0.1:PORT" in await answer.text()
    with pytest.raises(WSServerHandshakeError, match="403"):
        await client.ws_connect("/ws", headers=headers)
