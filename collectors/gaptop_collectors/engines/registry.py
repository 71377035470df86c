"""From a server to the collector that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from gaptop_collectors.collector import Collector, CollectorError, Message
from gaptop_collectors.engines.dialects import OTHERS, SUPPORTED, engine_of, not_supported
from gaptop_collectors.engines.http import Endpoint, require_ok
from gaptop_collectors.engines.llamacpp import LlamaCppEngine
from gaptop_collectors.engines.vllm import VllmEngine
from gaptop_collectors.target import HttpOptions, Processes, Server


class _Make(Protocol):
    def __call__(self, server: Server, http: HttpOptions, processes: Processes | None = None) -> Collector: ...


_ENGINES: Final[dict[str, _Make]] = {"vllm": VllmEngine, "llamacpp": LlamaCppEngine}


def make_engine(server: Server, http: HttpOptions, processes: Processes | None = None) -> Collector:
    """The collector for this server; for an ``unknown`` engine one that asks the endpoint when it is opened.

    ``processes`` keeps the pids of the source's entity up to date through restarts.

    :raises CollectorError: an engine that gaptop knows by name but cannot read.
    """
    make = _ENGINES.get(server.engine)
    if make is not None:
        return make(server, http, processes)
    if server.engine in OTHERS:
        raise CollectorError(not_supported(server.engine, server.url), state="absent", retry=False)
    return UnknownEngine(server, http, processes)


class UnknownEngine:
    """Finds out on open() which engine speaks at the URL, and is that engine's collector from then on."""

    name = "engines.unknown"

    def __init__(self, server: Server, http: HttpOptions, processes: Processes | None = None) -> None:
        self.period = 0.5
        self.deadline = 0.9
        self._server = server
        self._http = http
        self._processes = processes
        self._found: Collector | None = None

    def open(self) -> Sequence[Message]:
        """Ask ``/metrics`` for its dialect, then open the engine's own collector.

        :raises CollectorError: no answer, or metrics of an engine that gaptop does not read.
        """
        if self._found is None:
            self._found = _ENGINES[self._identify()](self._server, self._http, self._processes)
        return self._after(self._found.open())

    def sample(self) -> Sequence[Message]:
        return self.open() if self._found is None else self._after(self._found.sample())

    def boost(self, seconds: float) -> None:
        if self._found is not None:
            self._found.boost(seconds)
            self.period = self._found.period

    def close(self) -> None:
        if self._found is not None:
            self._found.close()

    def _after(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self._found is not None:
            self.period = self._found.period
        return messages

    def _identify(self) -> str:
        endpoint = Endpoint(self._server.url, self._http)
        try:
            answer = endpoint.get("/metrics")
            if answer.status == 501:
                return "llamacpp"  # the only one that knows the path and refuses it
            engine = engine_of(require_ok(answer, self._server.url, "/metrics").text)
        finally:
            endpoint.close()
        if engine in SUPPORTED:
            return engine
        if engine is not None:
            raise CollectorError(not_supported(engine, self._server.url), state="absent")
        raise CollectorError(
            f"{self._server.url}/metrics shows no engine that gaptop knows, so its queue, tokens and KV cache are not "
            f"visible; the engines it reads are {' and '.join(SUPPORTED.values())}.",
            state="absent",
        )
