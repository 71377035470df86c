"""A dcgm-exporter's endpoint that misbehaves on the wire: one sentence each, about GPUs and never about an engine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from gaptop_collectors.collector import CollectorError, SourceInfo
from gaptop_collectors.devices.dcgm import DcgmExporter
from gaptop_collectors.target import HttpOptions
from tests.fakes.dcgm import LABELS, exposition
from tests.fakes.endpoint import Site

ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
SERVER = HttpOptions(headers={"Authorization": "Bearer server-secret", "X-Key": "server-secret"}, timeout=1.0)


def failure(address: str) -> CollectorError:
    exporter = DcgmExporter(address, SERVER)
    try:
        with pytest.raises(CollectorError) as raised:
            exporter.open()
    finally:
        exporter.close()
    assert "so the GPUs it tells of are not visible" in raised.value.says
    assert "engine" not in raised.value.says
    assert "server-secret" not in raised.value.says
    return raised.value


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = failure(f"127.0.0.1:{port}")
    assert error.state == "absent"
    assert "9400" in error.says


async def _never(request: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


def _huge(request: web.Request) -> web.Response:
    return web.Response(text="# HELP x y\n" * 800_000)


def _elsewhere(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://198.51.100.1/metrics"})


@pytest.mark.parametrize(
    ("handler", "words"), [(_never, "within 1 s"), (_huge, "8 MiB"), (_elsewhere, "198.51.100.1"), ("{}", "JSON")]
)
def test_it_answers_wrongly(handler: Callable[[web.Request], Any] | str, words: str) -> None:
    with Site({"/metrics": handler}) as site:
        assert words in failure(site.url).says


def test_tls_where_there_is_none() -> None:
    with Site({"/metrics": ""}) as site:
        failure(site.url.replace("http://", "https://"))


def test_its_own_password_goes_there_and_the_servers_secrets_do_not() -> None:
    got: list[str] = []

    def answer(request: web.Request) -> web.Response:
        got.append(str(request.headers))
        wanted = request.headers.get("Authorization") == "Basic bWU6d29yZA=="
        return web.Response(text=exposition({ENERGY: 5})) if wanted else web.Response(status=401)

    with Site({"/metrics": answer}) as site:
        exporter = DcgmExporter(site.url.replace("://", "://me:word@"), SERVER)
        said = exporter.open()
        exporter.close()
        assert failure(site.url).state == "refused"
    assert not [one for one in got if "server-secret" in one]
    assert "word" not in "".join(one.says + one.source for one in said if isinstance(one, SourceInfo))


def test_a_body_of_thousands_of_gpus_is_bounded() -> None:
    body = "".join(exposition({ENERGY: n}, LABELS.replace("GPU-12345678", f"GPU-{n:08}")) for n in range(3000))
    with Site({"/metrics": body}) as site:
        exporter = DcgmExporter(site.url, SERVER)
        said = exporter.open()
        exporter.close()
    assert len([one for one in said if isinstance(one, SourceInfo)]) == 256
