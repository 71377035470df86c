"""Each way an endpoint can be wrong gives one clear sentence, in time, with nothing read and no secret told."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from gaptop_collectors.collector import CollectorError, Message
from gaptop_collectors.engines.http import Endpoint
from gaptop_collectors.engines.vllm import VllmEngine
from gaptop_collectors.target import HttpOptions, Server
from tests.fakes.endpoint import Handler, Site

SECRET = "Bearer sk-very-secret"
BODY = (Path(__file__).parents[1] / "data" / "vllm" / "0.32_bursty.prom").read_text()


def look(url: str, options: HttpOptions | None = None) -> list[Message]:
    engine = VllmEngine(Server(url, "vllm"), options or HttpOptions(headers={"Authorization": SECRET}, timeout=1.0))
    try:
        return list(engine.open())
    finally:
        engine.close()


def refused(url: str, options: HttpOptions | None = None) -> CollectorError:
    begun = time.monotonic()
    with pytest.raises(CollectorError) as caught:
        look(url, options)
    assert time.monotonic() - begun < 3
    says = caught.value.says
    assert "secret" not in says
    assert "\n" not in says
    assert says.endswith(".")
    assert "not visible" in says or "none of it is used" in says
    return caught.value


def status(code: int) -> Handler:
    return lambda request: web.Response(status=code, text="<h1>oops</h1>")


async def cut_inside_a_length(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "5000"})
    await response.prepare(request)
    await response.write(BODY[:2000].encode())
    assert request.transport is not None
    request.transport.close()
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"vllm:num_requests_running 1\n")
        await asyncio.sleep(0.05)


async def huge(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(50 << 20)})
    await response.prepare(request)
    for _ in range(50):
        await response.write(b"# " + b"x" * (1 << 20))
    return response


async def slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(10)
    return web.Response(text=BODY)


@pytest.mark.parametrize(
    ("handler", "state", "words"),
    [
        (status(404), "absent", "404"),
        (status(500), "failing", "500"),
        (status(501), "failing", "501"),
        (status(503), "starting", "503"),
        (status(401), "refused", "--token-file"),
        (status(403), "refused", "--token-file"),
        ("<!doctype html><html>running 1</html>", "failing", "HTML"),
        ('{"running": 1}', "failing", "JSON"),
        ("nothing to see\n", "failing", "not a single metric"),
        ("", "failing", "is empty"),
        ("# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 1\n", "absent", "SGLang"),
        (cut_inside_a_length, "failing", "broke off"),
        (endless, "failing", "within 1 s"),
        (huge, "failing", "8 MiB"),
        (slow, "failing", "within 1 s"),
    ],
)
def test_a_wrong_answer_is_one_sentence(
    handler: str | Callable[[web.Request], Awaitable[web.StreamResponse]], state: str, words: str
) -> None:
    with Site({"/metrics": handler}) as site:
        error = refused(site.url)
    assert words in error.says
    assert error.state == state


def test_redirect_to_another_host_is_not_followed_and_gets_no_secret() -> None:
    with Site({"/metrics": BODY}) as other, Site({}) as site:
        site.routes["/metrics"] = lambda request: web.Response(
            status=302, headers={"Location": f"{other.url}/metrics?password=hunter2"}
        )
        error = refused(site.url)
        assert f"redirects to {other.url}" in error.says
        assert "hunter2" not in error.says
        assert other.seen == []


def test_redirect_on_the_same_host_is_followed_but_not_in_a_circle() -> None:
    with Site({"/other": BODY}) as site:
        site.routes["/metrics"] = lambda request: web.Response(status=307, headers={"Location": "/other"})
        assert look(site.url)
        site.routes["/other"] = lambda request: web.Response(status=307, headers={"Location": "/metrics"})
        assert "circle" in refused(site.url).says


def test_nothing_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = refused(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert error.state == "absent"
    assert "Nothing listens" in error.says


def test_a_name_that_does_not_resolve() -> None:
    assert refused("http://no-such-host.invalid:8000").state == "absent"


def test_close_without_an_answer() -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with Site({"/metrics": hang_up}) as site:
        assert "https://" in refused(site.url).says


def test_a_body_of_unknown_length_cut_in_a_line_is_not_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nvllm:num_requests_running 1\nvllm:generation_tok"
            )
            writer.close()

        import threading

        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, sock=listener.dup()), loop).result(5)
        try:
            assert "ends inside a line" in refused(f"http://127.0.0.1:{port}").says
        finally:
            loop.call_soon_threadsafe(server.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return context, cert


def test_tls(certificate: tuple[ssl.SSLContext, Path], tmp_path: Path) -> None:
    context, authority = certificate
    with Site({"/metrics": BODY}, tls=context) as site:
        error = refused(site.url)
        assert error.state == "refused"
        assert "--ca FILE" in error.says
        assert "--insecure" in error.says
        assert look(site.url, HttpOptions(ca_file=str(authority)))
        assert look(site.url, HttpOptions(insecure=True))
        gone = refused(site.url, HttpOptions(ca_file=str(tmp_path / "gone.pem")))
        assert "--ca" in gone.says
        assert not gone.retry
        assert "https://" in refused(site.url.replace("https", "http")).says
    with Site({"/metrics": BODY}) as plain:
        assert "http://" in refused(plain.url.replace("http", "https")).says


def test_credentials_open_the_door() -> None:
    def guarded(request: web.Request) -> web.StreamResponse:
        ok = request.headers.get("Authorization") == SECRET
        return web.Response(text=BODY) if ok else web.Response(status=401)

    with Site({"/metrics": guarded}) as site:
        assert look(site.url)
        assert refused(site.url, HttpOptions()).state == "refused"


def test_a_header_that_cannot_be_sent_is_told_without_its_value() -> None:
    with Site({"/metrics": BODY}) as site:
        error = refused(site.url, HttpOptions(headers={"Authorization": "Bearer secret\nX: y"}))
        assert not error.retry


def test_gzip_and_its_bomb() -> None:
    packed = {"small": gzip.compress(BODY.encode()), "bomb": gzip.compress(b"# x\n" * (16 << 20), 1)}
    which = "small"
    with Site({}) as site:
        site.routes["/metrics"] = lambda request: web.Response(
            body=packed[which], headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"}
        )
        assert look(site.url)
        which = "bomb"
        assert "8 MiB" in refused(site.url, HttpOptions(timeout=5)).says


def test_a_kept_connection_that_the_server_closed_is_no_failure() -> None:
    def last(request: web.Request) -> web.StreamResponse:
        response = web.Response(text="ok")
        assert request.transport is not None
        asyncio.get_running_loop().call_later(0.01, request.transport.close)
        return response

    with Site({"/": last}) as site:
        endpoint = Endpoint(site.url, HttpOptions(timeout=2))
        try:
            for _ in range(5):
                assert endpoint.get("/").text == "ok"
                time.sleep(0.03)
        finally:
            endpoint.close()
