"""What the probe is told on the first line of its standard input (secrets travel there, never in argv or environ)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from gaptop_collectors.target import Role

_THREADS: Final = ("auto", "off", "fast")
_ROLES: Final = get_args(Role)


class ConfigError(ValueError):
    """The first line is not a configuration; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """A server as discovery found it. ``pids`` is empty where its processes cannot be seen. ``processes`` (pid, role,
    name) is given only by a caller that started them itself and so knows their roles. ``headers`` are sent to it alone,
    instead of those of the same name that are sent to all."""

    url: str
    engine: str
    version: str | None = None
    model: str | None = None
    pids: tuple[int, ...] = ()
    sequence_cap: int | None = None
    processes: tuple[tuple[int, str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """``origin_ns`` (monotonic) is the stream's time zero, null: now. ``restart``: the header was already written by a
    probe before. ``log`` is where the caller sends our standard error, for sentences that refer to it. ``state`` is the
    folder where a collector may keep what it has learnt of this machine for the next run; null: nowhere. ``dcgm`` are
    addresses of dcgm-exporters; one may hold a user and password, and none of ``headers`` is sent there."""

    origin_ns: int | None = None
    restart: bool = False
    intern_base: int = 0
    servers: tuple[WatchedServer, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    ca: str | None = None
    insecure: bool = False
    feeds: tuple[str, ...] = ()
    dcgm: tuple[str, ...] = ()
    simulated: bool = False
    threads: str = "auto"
    gil: bool = False
    gpu: bool = True
    host: bool = True
    duration: float | None = None
    log: str | None = None
    state: str | None = None


def parse(text: bytes | str) -> ProbeConfig:
    """The configuration of one JSON line; unknown keys are skipped. Raises ConfigError."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the probe's configuration is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ConfigError("the probe's configuration is not a JSON object")
    threads = _value(body, "threads", str, "auto")
    if threads not in _THREADS:
        raise ConfigError(f"threads is {threads!r}, not one of {', '.join(_THREADS)}")
    return ProbeConfig(
        origin_ns=_value(body, "origin_ns", int, None),
        restart=_value(body, "restart", bool, False),
        intern_base=_value(body, "intern_base", int, 0),
        servers=tuple(_server(item) for item in _value(body, "servers", list, [])),
        headers=_headers(body),
        ca=_value(body, "ca", str, None),
        insecure=_value(body, "insecure", bool, False),
        feeds=tuple(str(path) for path in _value(body, "feeds", list, [])),
        dcgm=tuple(str(address) for address in _value(body, "dcgm", list, [])),
        simulated=_value(body, "simulated", bool, False),
        threads=threads,
        gil=_value(body, "gil", bool, False),
        gpu=_value(body, "gpu", bool, True),
        host=_value(body, "host", bool, True),
        duration=_value(body, "duration", (int, float), None),
        log=_value(body, "log", str, None),
        state=_value(body, "state", str, None),
    )


def _server(body: Any) -> WatchedServer:
    if not isinstance(body, dict) or not isinstance(body.get("url"), str):
        raise ConfigError("a server has no url")
    pids = _value(body, "pids", list, [])
    if not all(type(pid) is int for pid in pids):
        raise ConfigError(f"the pids of {body['url']} are not numbers")
    return WatchedServer(
        url=body["url"],
        engine=_value(body, "engine", str, "unknown"),
        version=_value(body, "version", str, None),
        model=_value(body, "model", str, None),
        pids=tuple(pids),
        sequence_cap=_value(body, "sequence_cap", int, None),
        processes=tuple(_process(item) for item in _value(body, "processes", list, [])),
        headers=_headers(body),
    )


def _headers(body: Mapping[str, Any]) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in _value(body, "headers", dict, {}).items()}


def _process(body: Any) -> tuple[int, str, str]:
    if not isinstance(body, dict) or type(body.get("pid")) is not int:
        raise ConfigError("a process has no pid")
    role = _value(body, "role", str, "other")
    if role not in _ROLES:
        raise ConfigError(f"role is {role!r}, not one of {', '.join(_ROLES)}")
    return body["pid"], role, _value(body, "name", str, "")


def _value(body: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{name} has a value of the wrong type")
    return value
