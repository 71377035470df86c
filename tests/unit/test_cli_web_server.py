"""Who gets an answer from ``gaptop web``, and what its page may load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer

from gaptop.cli.web_server import _Pages


@pytest.fixture
def pages() -> _Pages:
    ends_when_told = "exec head -c 1"
    return _Pages(ends_when_told, "gaptop <b>x")


@pytest.fixture
async def client(pages: _Pages) -> AsyncIterator[TestClient]:  # type: ignore[type-arg]  # what kind of request it makes
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
async def test_own_page(client: TestClient, pages: _Pages, host: str, origin: str | None) -> None:  # type: ignore[type-arg]
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    async with client.get(f"/{pages.secret}/", headers=headers) as answer:
        text = await answer.text()
    assert answer.status == 200
    assert f'data-session-websocket-url="ws://{host}/{pages.secret}/ws"' in text, (
        "also behind a tunnel with another port"
    )
    assert "gaptop &lt;b&gt;x" in text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert f"ws://{host};" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    async with client.ws_connect(f"/{pages.secret}/ws", headers=headers) as opened:
        assert not opened.closed


@pytest.mark.parametrize(("host", "origin"), ELSEWHERE)
@pytest.mark.parametrize("path", ["/", "/static/js/textual.js", "/download/x"])
async def test_another_site(client: TestClient, pages: _Pages, host: str, origin: str | None, path: str) -> None:  # type: ignore[type-arg]
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    async with client.get(f"/{pages.secret}{path}", headers=headers) as answer:
        assert answer.status == 403
        assert "opened as http://127.0.0.1:PORT" in await answer.text()
    with pytest.raises(WSServerHandshakeError, match="403"):
        await client.ws_connect(f"/{pages.secret}/ws", headers=headers)


@pytest.mark.parametrize("given", ["", "/wrong", "/WRONG", "/%ff", "/\N{GREEK SMALL LETTER ALPHA}", "//"])
@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/download/x", "/nothing"])
async def test_who_does_not_know_the_secret(client: TestClient, pages: _Pages, given: str, path: str) -> None:  # type: ignore[type-arg]
    """Another user of this machine."""
    given = given.replace("WRONG", pages.secret.swapcase())
    async with client.get(f"{given}{path}", allow_redirects=False) as answer:
        assert answer.status == 403
        assert "the address that it printed" in (said := await answer.text())
        assert pages.secret not in said
    if path == "/ws":
        with pytest.raises(WSServerHandshakeError, match="403"):
            await client.ws_connect(f"{given}{path}")


async def test_everything_of_the_page_is_behind_the_secret(client: TestClient, pages: _Pages) -> None:  # type: ignore[type-arg]
    for path, status in (("/static/js/textual.js", 200), ("/nothing", 404), ("", 200)):
        async with client.get(f"/{pages.secret}{path}") as answer:
            assert answer.status == status, path
    assert len(pages.secret) >= 32
    assert pages.secret != _Pages("x", "x").secret
