"""Load for the real servers: bounded in time and number, with what the client itself saw."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp

MAX_REQUESTS = 2000

PENALTIES: Final[Mapping[str, object]] = {"presence_penalty": 0.5, "frequency_penalty": 0.3, "repetition_penalty": 1.1}
_WORDS: Final = (
    "def",
    "class",
    "import",
    "return",
    "self",
    "async",
    "await",
    "for",
    "while",
    "lambda",
    "yield",
    "raise",
)

Options = Callable[[], Mapping[str, object]]
"""Called for each request; what it gives replaces or joins the fields of the request's body."""


@dataclass(slots=True)
class Phase:
    """One phase of a drive, on CLOCK_MONOTONIC."""

    name: str
    start: float
    end: float = 0.0


@dataclass(slots=True)
class Drive:
    """What was sent, and what came back."""

    phases: list[Phase] = field(default_factory=list)
    sent: int = 0
    finished: int = 0
    failed: int = 0
    tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    """From first to last token of each finished request."""

    def phase(self, name: str) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)


class Client:
    """Streams completions from an OpenAI-style (vLLM) or llama-server endpoint.

    Prompts are lists of token ids, so that the server need not tokenise, unless the options bring a text.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, engine: str, drive: Drive) -> None:
        self._session, self._url, self._engine, self.drive = session, url, engine, drive
        self._random = random.Random(7)

    def _body(self, prompt_tokens: int, output_tokens: int) -> tuple[str, dict[str, object]]:
        prompt = [self._random.randrange(300, 1000) for _ in range(prompt_tokens)]
        if self._engine == "vllm":
            body = {"model": "random", "prompt": prompt, "max_tokens": output_tokens, "ignore_eos": True}
            return "/v1/completions", {**body, "stream": True}
        body = {"prompt": prompt, "n_predict": output_tokens, "ignore_eos": True, "cache_prompt": False}
        return "/completion", {**body, "stream": True}

    def text(self, words: int) -> str:
        """A prompt that the server has to tokenise itself."""
        return " ".join(self._random.choice(_WORDS) for _ in range(words))

    def schema(self, fields: int) -> dict[str, object]:
        """A JSON schema that no request has brought before, so that its grammar has to be compiled."""
        number = self._random.randrange(10**9)
        names = [f"field_{number}_{index}" for index in range(fields)]
        kinds: list[dict[str, object]] = [
            {"type": "string", "pattern": "^[0-9]{5}$"},
            {"type": "integer"},
            {"type": "array", "items": {"type": "string"}},
        ]
        properties = {name: kinds[index % len(kinds)] for index, name in enumerate(names)}
        return {"type": "object", "properties": properties, "required": names}

    async def one(self, prompt_tokens: int, output_tokens: int, options: Options = dict) -> None:
        """One request, read to its end; a refused or broken one is counted, not raised."""
        self.drive.sent += 1
        if self.drive.sent > MAX_REQUESTS:
            raise RuntimeError("more requests than a test may send")
        path, body = self._body(prompt_tokens, output_tokens)
        body |= options()
        first = 0.0
        try:
            async with self._session.post(self._url + path, json=body) as answer:
                answer.raise_for_status()
                async for _ in _events(answer):
                    first = first or time.monotonic()
                    self.drive.tokens += 1
            self.drive.finished += 1
            self.drive.seconds.append(time.monotonic() - first)
        except (aiohttp.ClientError, TimeoutError):
            self.drive.failed += 1

    async def closed_loop(
        self, clients: int, seconds: float, prompt_tokens: int, output_tokens: int, options: Options = dict
    ) -> None:
        """So many clients, each sending its next request when the last has ended, for about so many seconds."""
        end = time.monotonic() + seconds

        async def client() -> None:
            while time.monotonic() < end:
                await self.one(prompt_tokens, output_tokens, options)

        await asyncio.gather(*(client() for _ in range(clients)))

    async def phase(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run one named phase and note when it was."""
        phase = Phase(name, time.monotonic())
        self.drive.phases.append(phase)
        await work()
        phase.end = time.monotonic()


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[object]:
    async for line in answer.content:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield json.loads(line[6:])


async def drive(url: str, engine: str, script: Callable[[Client], Awaitable[None]], limit: float = 120.0) -> Drive:
    """Run a script of phases against a server, for at most ``limit`` seconds."""
    seen = Drive()
    timeout = aiohttp.ClientTimeout(total=limit)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)  # llama-server closes kept connections at will
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        async with asyncio.timeout(limit):
            await script(Client(session, url, engine, seen))
    return seen
