"""The server's source: when it is scraped, what it answers, and when the answer comes.

The front end's event loop answers: a scrape that meets it at work waits for that work's end, and one that meets a
stopped process waits until it runs again. Values are those of the moment of the answer, and stamped half of the
quickest recent answer before it, as the real collector does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.fast.counters import Values, VllmCounters, usual
from gaptop.lab.fast.machine import MODEL, URL, VERSIONS
from gaptop.lab.fast.slots import LlamaCounters
from gaptop.lab.fast.told import source_line
from gaptop.lab.fast.view import View
from gaptop.recording.lines import Batch, Event, Health, Hole, Line, Source, Watermark
from gaptop_collectors.collector import SourceInfo
from gaptop_collectors.engines import llamacpp_source, vllm_source
from gaptop_collectors.engines.vllm_names import FAST, RARE

SOURCE: Final = f"metrics/{URL}"
SERVICE: Final = (0.0011, 0.0022)
"""Seconds that the endpoint takes for a filtered scrape, least and most (a real vLLM under load: 1.2 to 1.5 ms)."""
TIMEOUT: Final = 5.0
JITTER: Final = 0.002
"""Seconds by which a scrape is sent late, on average: a thread that slept wakes when it gets a core."""
BUSY: Final = 0.005
"""Seconds of work before it from which on an event loop is busy: a step of an ordinary batch takes less."""
SLOW: Final = 0.1
"""Of the scrapes that meet a busy one wait for more than that: others' callbacks stand in the line."""
QUEUED: Final = (0.1, 1.0)
"""Seconds that they wait, least and most."""
DEADLINE: Final = 0.9
_RARE_S: Final = 5.0
_WHOLE_S: Final = 0.4
_ERRORS: Final = (0.005, 0.02, 0.1, 0.5, 2.5)
_REMEMBERED: Final = 64


class Scrapes:
    """Feed it messages and batches in their order; it is due first when it sends, then when the answer comes."""

    def __init__(
        self, config: EngineConfig, view: View, pids: tuple[int, ...], engines: int, zero: float, rng: Random
    ) -> None:
        self._view = view
        self._engines = engines
        self._pids = pids
        self._zero = zero
        self._rng = rng
        self._vllm = None if view.dialect == "llamacpp" else VllmCounters(config, view.dialect)
        self._llama = LlamaCounters(config) if view.dialect == "llamacpp" else None
        self._pending: deque[StepDone] = deque()
        self._shown: tuple[Values, Values] = self._read()
        self._messages = 0
        self._moved = zero
        self._sent: float | None = None
        self._next_send = self.due = zero + 0.25 + 0.1 * rng.random()
        self._rare_at = self._whole_at = zero - _RARE_S
        self._took: deque[float] = deque(maxlen=_REMEMBERED)
        self._early: deque[float] = deque(maxlen=_REMEMBERED)
        self._failing = False
        self._last: float | None = None
        self._info: SourceInfo | None = None
        self.newest: float | None = None

    def step(self, step: StepDone) -> None:
        """A message; it counts from when the front end has handled it."""
        self._pending.append(step)

    def launched(self, span: DeviceSpan) -> None:
        """A batch begins on the device."""
        if self._llama is not None:
            self._llama.launched(span)

    def act(self, now: float, free: float) -> Iterator[Line]:
        """At ``due``: send, or take in the answer. ``free`` is when the front end's main thread ends what it is at."""
        if self._sent is None:
            self._sent = now
            wait = max(0.0, free - now)
            if wait > BUSY and self._rng.random() < SLOW:
                wait += self._rng.uniform(*QUEUED)
            low, high = SERVICE
            if wait >= TIMEOUT:
                self.due = now + TIMEOUT
            else:
                self.due = now + wait + low + (high - low) * self._rng.random()
            return
        sent, self._sent = self._sent, None
        self._next_send = max(self._next_send + self._view.scrape_s, now)
        self.due = self._next_send + self._rng.expovariate(1 / JITTER)
        if now - sent >= TIMEOUT:
            yield from self._failed(now)
        else:
            yield from self._answered(sent, now)

    def health(self, now: float) -> Health:
        """The line of each second."""
        t = self._t(now)
        state = "failing" if self._failing else "ok"
        says = _NO_ANSWER if self._failing else ("" if self._info is None else self._info.says)
        return Health(t, SOURCE, self._collector, state, self.newest, self._view.scrape_s, None, says)

    @property
    def _collector(self) -> str:
        return "engines.vllm" if self._vllm is not None else "engines.llamacpp"

    def _t(self, time: float) -> float:
        return round(time - self._zero, 6)

    def _failed(self, now: float) -> Iterator[Line]:
        self._failing = True
        yield self.health(now)

    def _answered(self, sent: float, now: float) -> Iterator[Line]:
        taken = now - min(now - sent, *self._took) / 2 if self._took else (sent + now) / 2
        self._took.append(now - sent)
        self._early.append(taken - sent)
        at = self._t(taken)
        values, slots = self._published(now)
        values = dict(values)
        if self._vllm is not None:
            values = self._asked_for(values, now)
        values["latency.scrape"] = round(now - sent, 6)
        if self._failing and self._last is not None:
            yield Hole(SOURCE, self._last, at, "no usable answer")
        self._failing, self._last, self.newest = False, at, at
        if self._vllm is None or self._whole_at == now:
            yield from self._told(now, [*values, *slots, *(RARE if self._vllm is not None else ())])
        yield Batch(SOURCE, (at,), {key: (value,) for key, value in values.items()})
        if slots:
            later = round(at + 0.001, 6)
            yield Batch(SOURCE, (later,), {key: (value,) for key, value in slots.items()})
        yield Watermark(SOURCE, self._t(sent))
        if now - sent > DEADLINE:
            data = {"collector": self._collector, "seconds": round(now - sent, 3), "call": "sample"}
            says = (
                f"{self._collector} took {now - sent:.1f} s to sample: what it measures came late or is missing there."
            )
            yield Event(self._t(now), "our_slow_call", says, None, data)

    def _asked_for(self, values: Values, now: float) -> Values:
        """More often than twice a second only what is worth it; what no verdict needs each five seconds."""
        assert self._vllm is not None
        if now - self._whole_at < _WHOLE_S:
            return {key: value for key, value in values.items() if key in FAST}
        self._whole_at = now
        if now - self._rare_at < _RARE_S:
            values = usual(values)
        else:
            self._rare_at = now
        return values | self._vllm.limits

    def _told(self, now: float, keys: list[str]) -> Iterator[Source]:
        """The description, where it has changed."""
        info = self._describe(keys)
        if self._view.refresh != "step":
            # What a collector of an engine with that rule would say of it.
            unit, number = self._view.refresh
            info = replace(info, refresh=f"{number:g} {'s' if unit == 'seconds' else 'steps'}")
        if info != self._info:
            self._info = info
            yield source_line(self._t(now), info)

    def _published(self, now: float) -> tuple[Values, Values]:
        """What the endpoint shows: everything that was handled by now, as far as its refresh rule shows it."""
        counters = self._vllm or self._llama
        assert counters is not None
        while self._pending and self._pending[0].end <= now:
            step = self._pending.popleft()
            refresh = self._view.refresh
            if refresh != "step" and refresh[0] == "seconds" and step.end >= self._moved + refresh[1]:
                self._moved += refresh[1] * ((step.end - self._moved) // refresh[1])
                self._shown = self._read()
            counters.book(step)
            self._messages += 1
            if refresh != "step" and refresh[0] == "steps" and self._messages % refresh[1] == 0:
                self._shown = self._read()
        refresh = self._view.refresh
        if refresh == "step":
            self._shown = self._read()
        elif refresh[0] == "seconds" and now >= self._moved + refresh[1]:
            self._moved += refresh[1] * ((now - self._moved) // refresh[1])
            self._shown = self._read()
        return self._shown

    def _read(self) -> tuple[Values, Values]:
        if self._vllm is not None:
            return self._vllm.values(), {}
        assert self._llama is not None
        return self._llama.from_metrics(), self._llama.from_slots()

    def _describe(self, keys: list[str]) -> SourceInfo:
        worst = max(self._early)
        error = next((step for step in _ERRORS if step >= worst), _ERRORS[-1])
        version = VERSIONS[self._view.dialect]
        if self._vllm is not None:
            known = vllm_source.Known(
                filtered="/metrics/", version=version, model=MODEL, engines=self._engines, load=False
            )
            return vllm_source.describe("engines.vllm", URL, known, keys, self._pids, error)
        llama = llamacpp_source.Known(one_cache=True, version=version, model=MODEL)
        return llamacpp_source.describe("engines.llamacpp", URL, llama, keys, self._pids, error)


_NO_ANSWER: Final = (
    f"{URL} did not answer within 5 s, so the engine's queue, tokens and KV cache are not visible; look at the "
    "server's front end."
)
