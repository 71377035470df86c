"""Ask one URL which engine answers there: two or three small GETs with the standard library, one second each."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from gaptop_collectors.engines.address import host_and_port, printable
from gaptop_collectors.engines.dialects import OTHERS, SUPPORTED, engine_of
from gaptop_collectors.target import HttpOptions

TIMEOUT: Final = 1.0
_LIMIT: Final = 256 * 1024
_OWNERS: Final = {"vllm": "vllm", "llamacpp": "llamacpp", "sglang": "sglang", "aphrodite": "aphrodite"}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers: engine word (``unknown`` when it speaks HTTP but is none that gaptop knows), version, model;
    ``trouble`` is a clause on how an unknown one answered, where that was an error: " with HTTP 500"."""

    engine: str
    version: str | None = None
    model: str | None = None
    trouble: str = ""


class NoAnswer(Exception):
    """The URL cannot be used; the message is a clause about it ("does not answer within 1 s") with its remedy.

    ``kind`` is ``down`` (nothing listens, no route), ``silent`` (no answer in time), ``loading`` or ``wrong``.
    """

    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind = kind
        self.says = says


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body) if self.status == 200 else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def identify(url: str, options: HttpOptions) -> Identity:
    """The engine behind a base URL.

    :raises NoAnswer: no connection, no answer in time, loading, credentials wanted, or a TLS failure.
    """
    models = _get(url, "/v1/models", options)
    if models.status in (401, 403):
        raise NoAnswer(
            "wrong",
            f"wants credentials (HTTP {models.status}), so nothing of it can be read; pass them with --token-file or "
            "--header",
        )
    if 300 <= models.status < 400:
        raise NoAnswer(
            "wrong", "redirects to another place, which is not followed; give gaptop the server's own address"
        )
    if models.status == 503:
        raise NoAnswer("loading", "is still loading its model, so there is nothing to see yet; wait until it has")
    trouble = f" with HTTP {models.status}" if models.status >= 400 and models.status != 404 else ""
    owner, model = _first_model(models.json())
    engine = next((word for mark, word in _OWNERS.items() if owner.startswith(mark)), None)
    if engine is None:
        metrics = _get(url, "/metrics", options)
        engine = "llamacpp" if metrics.status == 501 else engine_of(metrics.body.decode("utf-8", "replace"))
    version = None
    if engine == "vllm":
        version = _get(url, "/version", options).json().get("version")
    elif engine == "llamacpp":
        props = _get(url, "/props", options).json()
        version = props.get("build_info")
        name = props.get("model_alias") or props.get("model_path")
        model = PurePath(name).name if isinstance(name, str) else model
    known = engine if engine in SUPPORTED or engine in OTHERS else "unknown"
    return Identity(
        known or "unknown",
        printable(version, 40) if isinstance(version, str) else None,
        printable(model) if model else None,
        trouble if known == "unknown" else "",
    )


def _first_model(models: dict[str, Any]) -> tuple[str, str | None]:
    data = models.get("data")
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    owner, model = first.get("owned_by"), first.get("id")
    return owner if isinstance(owner, str) else "", model if isinstance(model, str) else None


def _get(url: str, path: str, options: HttpOptions) -> _Reply:
    host, port = host_and_port(url)
    parts = urlsplit(url)
    until = time.monotonic() + TIMEOUT
    try:
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=_tls(options))
        else:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        try:
            headers = {"User-Agent": "gaptop", "Accept-Encoding": "identity", **options.headers}
            connection.request("GET", parts.path + path, headers=headers)
            response = connection.getresponse()
            body = b""
            while len(body) < _LIMIT and time.monotonic() < until and (piece := response.read1(65536)):
                body += piece
            return _Reply(response.status, body)
        finally:
            connection.close()
    except ssl.SSLCertVerificationError:
        raise NoAnswer(
            "wrong", "has a TLS certificate that is not trusted, so it is not asked; use --ca FILE or --insecure"
        ) from None
    except ssl.SSLError:
        raise NoAnswer(
            "wrong", "does not speak TLS, so it cannot be asked; use http:// if it serves plain HTTP"
        ) from None
    except TimeoutError:
        raise NoAnswer(
            "silent",
            f"does not answer within {TIMEOUT:g} s, so nothing of it can be read; see whether its process is stopped",
        ) from None
    except ConnectionRefusedError:
        raise NoAnswer(
            "down", "has nothing listening, so there is nothing to watch; start the server, or give gaptop its address"
        ) from None
    except ConnectionResetError as error:
        if isinstance(error, http.client.HTTPException):
            raise NoAnswer("wrong", "closes the connection without an answer; if it serves TLS, use https://") from None
        raise NoAnswer("down", "breaks the connection without an answer; if it serves TLS, use https://") from None
    except socket.gaierror:
        raise NoAnswer(
            "down", "has a host name that cannot be resolved, so it cannot be asked; check the address"
        ) from None
    except http.client.HTTPException:
        raise NoAnswer(
            "wrong", "does not answer in HTTP, so it cannot be asked; if it serves TLS, use https://"
        ) from None
    except ValueError:
        raise NoAnswer("wrong", "cannot be asked: a given header has a line break; check --header") from None
    except OSError as error:
        why = re.sub(r"[^\w ]", "", error.strerror or "network error")
        raise NoAnswer(
            "down", f"cannot be reached ({why}), so there is nothing to watch; check address and network"
        ) from None


def _tls(options: HttpOptions) -> ssl.SSLContext:
    if options.ca_file is not None and not options.insecure:
        try:
            return ssl.create_default_context(cafile=options.ca_file)
        except OSError:
            raise NoAnswer(
                "wrong", "cannot be verified: the file given with --ca is not a readable PEM file; give one that is"
            ) from None
    context = ssl.create_default_context()
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
