"""Redaction: secrets go, what a reader needs stays."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.recording.lines import Event, Health, Source
from gaptop.recording.redact import redact, redact_argv, redact_line

SECRET = "s3cr3tV4lue"


@pytest.mark.parametrize(
    "text",
    [
        "http://user:{}@host:8000/metrics",
        "https://{}@host/",
        "http://user:p@{}@host/",
        "vllm serve m --api-key {}",
        "vllm serve m --api-key={} --port 1",
        "--api-key 'a {}' --port 1",
        "--api-key first1234 {} --port 1",
        "--api_key {}",
        "llama-server --hf-token {}",
        "--hf-token={}",
        "--password={}",
        "HF_TOKEN={}",
        "env OPENAI_API_KEY={} PGPASSWORD=x python",
        "PGPASSWORD={}",
        "AWS_SECRET_ACCESS_KEY={}",
        "curl -H 'Authorization: Bearer {}'",
        "Authorization: Basic {}",
        "authorization={}",
        "got Bearer {} back",
        "X-API-Key: {}",
        "password: {}",
        "GET /v1?api_key={}&x=1",
        '{{"token": "{}"}}',
        "--kv-transfer-config {{'secret':'{}'}}",
        "Cookie: session={}; theme=dark",
        "Cookie: theme=dark; session={}",
        "set-cookie: {}",
        "-H 'Cookie: a=b; sid={}' --port 1",
        "X-Auth-Token: {}",
        "X-Auth: {}",
        "x-auth-user={}",
        "x-authentication: {}",
        "https://store/blob?sv=2024&sig={}",
        "https://store/blob?sig={}&se=1",
        "https://id/cb?code={}",
        "AccountKey={};EndpointSuffix=core",
        "DefaultEndpointsProtocol=https;AccountName=n;AccountKey={}",
        "SharedAccessSignature={}",
        "https://s3/x?X-Amz-Signature={}",
        "lmdeploy serve --api-keys {}",
        "ollama -api-key {}",
        "server -k {} --port 1",
        "curl -u me:{} http://h",
        "sshpass -p {} ssh h",
        "mysql -p{} db",
        "docker login -p {}",
    ],
)
def test_secrets_go(text: str) -> None:
    shown = redact(text.format(SECRET))
    assert SECRET not in shown
    assert "***" in shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "sk-abcdef0123456789",
        "hf_AbCdEfGhIjKl",
        "ghp_0123456789abcdef0123",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmVk",
    ],
)
def test_strings_that_look_like_keys_go(text: str) -> None:
    assert text not in redact(f"failed with {text}, sorry")


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --max-num-batched-tokens 8192 --tokenizer t --token-file /run/token --ssl-keyfile /etc/k",
        "the server wants a token: give it with --token-file FILE",
        "the bearer token is missing",
        "http://127.0.0.1:8000/metrics",
        "http://[::1]:8000/a@b",
        "device.limit_seconds{reason=sw_power_cap}",
        "tokens.decode stood still for 3 s",
        "task-scheduling took 0.3 s",
        "curl -k https://127.0.0.1:8443/metrics",
        "llama-server -m model-7b.gguf -k 4 -u 2 -p prompt1234",
        "the cookie jar is empty",
        "GET /x?design=1&encode=2",
        "exit code=3",
        "the server asks for X-Auth headers",
        "-u https://127.0.0.1:8000",
    ],
)
def test_what_a_reader_needs_stays(text: str) -> None:
    assert redact(text) == text


def test_a_command_line_word_by_word() -> None:
    argv = ["vllm", "serve", "m", "--api-key", "a", "b", "--port", "80", "--hf-token=x", "-H", "Authorization: Basic y"]
    assert " ".join(redact_argv(argv)) == (
        "vllm serve m --api-key *** *** --port 80 --hf-token=*** -H Authorization: ***"
    )


def test_short_options_word_by_word() -> None:
    argv = ["server", "-k", "a1b2c3d4", "-u", "me:pw", "-k", "4", "-p", "8000", "Cookie: a=b; c=d"]
    assert redact_argv(argv) == ["server", "-k", "***", "-u", "me:***", "-k", "4", "-p", "8000", "Cookie: ***"]


def test_every_text_of_a_line() -> None:
    url = f"http://u:{SECRET}@h"
    source = Source(
        0, "id", "c", "server", {"url": url, "api_key": SECRET, "argv": ["--key", SECRET]}, [], 1, {"x": url}
    )
    event = Event(0, "w", url, data={"deep": [{"deeper": (url,)}], "token": SECRET})
    for line in (source, event, Health(0, "s", "c", "failing", says=f"token={SECRET}")):
        assert SECRET not in str(redact_line(line))
        assert redact_line(redact_line(line)) == redact_line(line)


PIECES = [
    " ",
    "--api-key",
    "=",
    ":",
    "'",
    '"',
    "token",
    "TOKEN",
    "a1",
    "***",
    "Bearer",
    "Authorization",
    "http://",
    "@",
]
PIECES += ["-", "_", "sk-", "Cookie", "X-Auth", "?sig=", "-k ", "-u ", ";", "mysql -p"]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join))
def test_redacting_again_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "piece",
    [
        "a-",
        "a.a_",
        "key ",
        "--key ",
        "http://",
        "bearer ",
        "token: ",
        "x@",
        "://a@",
        "--key a1111111 ",
        "token",
        "x-auth-",
        "cookie: ",
        "-k a",
        "-u a:",
        "?sig=",
        "a:",
    ],
)
def test_a_long_text_takes_no_long_time(piece: str) -> None:
    def seconds(count: int) -> float:
        text = piece * count
        begun = time.thread_time()
        redact(text)
        return time.thread_time() - begun

    small = max(min(seconds(2_000) for _ in range(3)), 1e-4)
    # Eight times the text: linear is 8, quadratic would be 64.
    assert min(seconds(16_000) for _ in range(2)) / small < 30
