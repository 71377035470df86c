"""Which collector reads which server; the address that people type."""

from __future__ import annotations

import pytest
from aiohttp import web

from gaptop_collectors.collector import CollectorError, SourceInfo
from gaptop_collectors.engines.address import BadAddress, host_and_port, printable, same_origin, split_address
from gaptop_collectors.engines.dialects import engine_of
from gaptop_collectors.engines.llamacpp import LlamaCppEngine
from gaptop_collectors.engines.registry import UnknownEngine, make_engine
from gaptop_collectors.engines.vllm import VllmEngine
from gaptop_collectors.target import HttpOptions, Server
from tests.fakes.endpoint import Site

VLLM = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"


def test_known_engines() -> None:
    assert isinstance(make_engine(Server("http://a:1", "vllm"), HttpOptions()), VllmEngine)
    assert isinstance(make_engine(Server("http://a:1", "llamacpp"), HttpOptions()), LlamaCppEngine)
    with pytest.raises(CollectorError, match="SGLang") as caught:
        make_engine(Server("http://a:1", "sglang"), HttpOptions())
    assert not caught.value.retry


@pytest.mark.parametrize(("text", "collector"), [(VLLM, "engines.vllm"), (None, "engines.llamacpp")])
def test_an_unknown_engine_is_asked(text: str | None, collector: str) -> None:
    slots = '[{"id":0,"n_ctx":8,"is_processing":false}]'
    with Site({"/metrics": text or (lambda request: web.Response(status=501)), "/slots": slots}) as site:
        engine = make_engine(Server(site.url, "unknown"), HttpOptions())
        assert isinstance(engine, UnknownEngine)
        infos = [m for m in engine.open() if isinstance(m, SourceInfo)]
        engine.sample()
        engine.boost(1)
        engine.close()
    assert [info.collector for info in infos] == [collector]


@pytest.mark.parametrize("text", ["tgi_queue_size 1\n", "node_load1 3\n"])
def test_an_engine_that_stays_unknown_says_what_is_read(text: str) -> None:
    with Site({"/metrics": text}) as site, pytest.raises(CollectorError, match="vLLM and llama"):
        make_engine(Server(site.url, "unknown"), HttpOptions()).open()


def test_the_first_prefix_decides_the_dialect() -> None:
    assert engine_of(VLLM) == "vllm"
    assert engine_of("# HELP dynamo_x y\ndynamo_x 1\nvllm:a 1\n") == "dynamo"
    assert engine_of("process_cpu_seconds_total 1\n") is None
    assert engine_of('x{a="\\nvllm:b"} 1\n') is None


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/metrics", "http://h:8000"),
        ("http://h:8000/v1/models?x=1#y", "http://h:8000"),
        ("https://h/llm/v1", "https://h/llm"),
        ("https://h:443", "https://h"),
        ("http://[::1]:8080/slots", "http://[::1]:8080"),
        (" http://u:p%40ss@h:1 ", "http://h:1"),
    ],
)
def test_addresses(typed: str, base: str) -> None:
    assert split_address(typed)[0] == base


def test_credentials_become_a_header_and_leave_the_address() -> None:
    base, headers = split_address("http://user:p%40ss@h:1/metrics")
    assert base == "http://h:1"
    assert headers == {"Authorization": "Basic dXNlcjpwQHNz"}


@pytest.mark.parametrize(
    "typed", ["", "ftp://h", "http://", "http://h:99999", "http://h:x", "http://h:0", "http://a\x1bb"]
)
def test_bad_addresses_are_one_sentence(typed: str) -> None:
    with pytest.raises(BadAddress, match=r"\.$") as caught:
        split_address(typed)
    assert "\x1b" not in str(caught.value)


def test_the_password_of_a_bad_address_is_not_told() -> None:
    with pytest.raises(BadAddress) as caught:
        split_address("ftp://user:hunter2@h")
    assert "hunter2" not in str(caught.value)


def test_helpers() -> None:
    assert host_and_port("https://h") == ("h", 443)
    assert same_origin("http://h", "http://h:80/x")
    assert not same_origin("http://h", "https://h:80")
    assert not same_origin("http://h", "gopher://h")
    assert printable("a\nb\x1b[31m") == "a␊b␛[31m"
    assert len(printable("x" * 500)) == 80
