"""A random server and its ordinary load: hardware, settings, clients. Conditions change it before it is built."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from gaptop.lab.core.loads import Arrivals, Clients, Load, Range
from gaptop.lab.core.model import HARDWARE, DeviceModel, EngineConfig

BLOCK: Final = 16
DECODE_SHARE: Final = 0.5
"""Open-loop load is kept under this share of what the largest batch could decode, so that no queue grows for ever."""

PREFILL: Final = (0.1, 0.6)
"""Share of the device's time that ordinary prompts may take at most, least and most: chats leave nearly all of it to
decoding, retrieval and agents half or less."""

UNCUT: Final = 1e9
"""Tokens a second: with this pace no answer is cut so that it ends by the pause."""


class Pause(NamedTuple):
    """Nobody asks over [start, end). Closed-loop clients cut their answers to stop together; ``abrupt``: they do not,
    and something else ends them."""

    start: float
    end: float
    abrupt: bool = False


@dataclass
class Server:
    """What a case is built from. ``settings`` are those of EngineConfig; ``step`` seconds of a decode step;
    ``prefill`` the most of the device's time that ordinary prompts take."""

    hardware: str
    model: DeviceModel
    ranks: int
    count: int
    prompt: Range
    output: Range
    think: float
    open_loop: bool
    prefill: float = 0.3
    settings: dict[str, Any] = field(default_factory=dict)
    longest: int = 4096
    """Tokens of the longest request."""
    blocks: int = 0

    @property
    def step(self) -> float:
        middle = sum(self.prompt) / 2 + sum(self.output) / 4
        seconds, _ = self.model.step(self.count, 0.0, round(self.count * middle))
        return self.model.on_ranks(seconds, self.ranks)

    @property
    def drain(self) -> float:
        """Seconds in which the running requests end where none is admitted any more."""
        return self.output[1] * self.step * 1.05

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second of a device that does nothing else."""
        return self.ranks * self.model.flops / (2 * self.model.parameters)

    @property
    def held(self) -> int:
        """KV blocks that the ordinary load needs at most."""
        return self.count * -(-(self.prompt[1] + self.output[1]) // BLOCK)

    def needs(self, tokens: int, blocks: int = 0) -> None:
        """Make room for one request of so many tokens, and so many blocks beside the ordinary load."""
        self.longest = max(self.longest, tokens)
        self.blocks = max(self.blocks, self.held + blocks)

    def engine(self) -> EngineConfig:
        # A chunk budget under the batch would starve decode for good; whole prompts need a budget for the longest one.
        settings = dict(self.settings)
        # A condition may have made answers longer: the longest ordinary request must be able to run.
        longest = max(self.longest, self.prompt[1] + self.output[1])
        if settings.get("chunked") is False:
            settings["max_num_batched_tokens"] = longest
        return EngineConfig(
            num_blocks=max(self.blocks, -(-longest // BLOCK)),
            block_size=BLOCK,
            max_model_len=longest,
            tensor_parallel_size=self.ranks,
            **settings,
        )

    def ordinary(self, pauses: list[Pause], until: float) -> list[Load]:
        """The load that goes on over [0, until) but for the pauses."""
        loads: list[Load] = []
        begin = 0.0
        for start, end, abrupt in [*sorted(pauses), Pause(until, until)]:
            if start > begin:
                loads.append(self.load(begin, start, abrupt=abrupt))
            begin = max(begin, end)
        return loads

    def load(self, start: float, end: float, *, abrupt: bool = False) -> Load:
        """The ordinary clients over [start, end)."""
        if self.open_loop:
            each = sum(self.output) / 2 * self.step
            each += self.count * sum(self.prompt) / 2 / self.prefill_rate  # meanwhile everybody's prompts are computed
            return Arrivals(DECODE_SHARE * self.count / each, start, end, self.prompt, self.output)
        pace = UNCUT if abrupt else 0.9 / self.step
        return Clients(self.count, start, end, self.prompt, self.output, think=self.think, pace=pace, once=True)


def server(rng: Random) -> Server:
    """One over wide ranges: batches of 4 to 64, steps of 3 to 35 ms, prompts of 20 to 4000 tokens."""
    hardware = rng.choice(sorted(HARDWARE))
    model = HARDWARE[hardware]
    ranks = rng.choices((1, 2, 4), (0.75, 0.18, 0.07))[0]
    count = round(2 ** rng.uniform(2, 5 if hardware != "h100" else 6))
    short = round(2 ** rng.uniform(4.5, 10.5))
    prompt = (short, round(short * rng.uniform(1.2, 3.0)))
    least = round(2 ** rng.uniform(4.5, 7))
    output = (least, round(least * rng.uniform(1.3, 3.0)))
    found = Server(
        hardware=hardware,
        model=model,
        ranks=ranks,
        count=count,
        prompt=prompt,
        output=output,
        think=rng.choice((0.005, 0.01, 0.05)),
        open_loop=rng.random() < 0.3,
        prefill=rng.uniform(*PREFILL),
    )
    found.prompt = _shortened(found)
    found.longest = max(found.longest, found.prompt[1] + found.output[1])
    found.settings = {
        "max_num_seqs": round(count * rng.choice((0.8, 1.0, 1.5, 2.0, 4.0))) + 1,
        "max_num_batched_tokens": rng.choice((512, 1024, 2048, 4096, 8192)),
        "steps_in_flight": rng.choice((1, 2, 2)),
        "preemption": rng.choice(("recompute", "recompute", "recompute", "swap")),
        "tokenizer_workers": rng.choice((1, 1, 2, 4)),
    }
    found.blocks = round(found.held / rng.uniform(0.3, 0.75)) + 64
    return found


def _shortened(found: Server) -> Range:
    """Its prompts, so short that they leave the device to decoding for most of the time."""
    decoding = sum(found.output) / 2 * found.step
    prefill = found.count * sum(found.prompt) / 2 / found.prefill_rate
    most = decoding * found.prefill / (1 - found.prefill)
    share = min(1.0, most / prefill)
    return max(8, round(found.prompt[0] * share)), max(12, round(found.prompt[1] * share))
