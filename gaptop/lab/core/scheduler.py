"""Who computes how many tokens in the next step, in the manner of vLLM's V1 scheduler.

Running requests come first; where blocks run out the least entitled one is preempted and will recompute everything, or
come back from host memory. Waiting requests are admitted after that, unless somebody was preempted in the same step.
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from gaptop.lab.core.blocks import BlockPool
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.core.requests import Request


class Part(NamedTuple):
    """One request's share of a step. ``context`` tokens were computed before; ``recomputed`` of its tokens were too,
    until a preemption took them away; ``samples``: it ends with a new token."""

    request: Request
    tokens: int
    context: int
    recomputed: int
    samples: bool


class NeverFits(ValueError):
    """A request is longer than the server's settings allow."""


class Scheduler:
    """Owns the queues and the blocks. Times are not its business, but ``now`` is kept for the queue time."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks, config.block_size)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.leaving: list[Request] = []
        """Requests whose blocks are still being copied to another device."""
        self.queried = 0
        self.hits = 0
        self.moved = 0
        """Tokens whose KV cache was swapped out or in by the last schedule()."""
        self._no_room = False
        self._spent_on = ""
        """What the last schedule() ran out of tokens on before it ran out of requests that it could take in: a key of
        ``CAUSES``, or "" where it did not."""

    def add(self, request: Request) -> None:
        """Queue a request. Raises NeverFits for one that could never run."""
        total = request.wish.prompt + request.wish.output
        room = min(self.config.max_model_len, self.config.num_blocks * self.config.block_size)
        budget = self.config.max_num_batched_tokens
        if total > room or (not self.config.chunked and total > budget):
            raise NeverFits(f"a request of {total} tokens can never run here")
        if self.config.policy == "priority":
            insort(self.waiting, request, key=lambda each: each.order)
        else:
            self.waiting.append(request)

    def gate_open(self, held: bool) -> bool:
        """Whether a waiting request may be tried at all."""
        if held or not self.waiting or len(self.running) >= self.config.max_num_seqs:
            return False
        return self.config.membership == "continuous" or not self.running

    def kept_waiting_by(self, held: bool) -> str:
        """Why requests wait, as a key of ``CAUSES``; "" where none does."""
        if not self.waiting:
            return ""
        if not self.gate_open(held):
            return "admission"
        return "blocks" if self._no_room else self._spent_on or "admission"

    def has_work(self, held: bool) -> bool:
        """Whether schedule() could find something to do."""
        return self.gate_open(held) or any(request.needs for request in self.running)

    def schedule(self, now: float, held: bool) -> list[Part]:
        """The next step; empty where nothing could be scheduled."""
        self.moved = 0
        self._no_room, self._spent_on = False, ""
        if not self.config.chunked and self.gate_open(held):
            parts = self._admit(now, held, [], self.config.max_num_batched_tokens)
            if parts:
                return parts
        parts, preempted, budget = self._continue()
        if preempted or not self.config.chunked:
            return parts
        return self._admit(now, held, parts, budget)

    def finish(self, request: Request) -> None:
        """The request's last token has been delivered."""
        self.pool.free(request)
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove(request)

    def drop(self, request: Request) -> None:
        """Forget one that runs."""
        request.aborted = True
        self.pool.free(request)
        self.running.remove(request)

    def abort(self) -> list[Request]:
        """Forget every request; returns them."""
        gone = self.running + self.waiting + self.leaving
        for request in gone:
            request.aborted = True
            self.pool.free(request)
        self.running.clear()
        self.waiting.clear()
        self.leaving.clear()
        return gone

    def _continue(self) -> tuple[list[Part], bool, int]:
        parts: dict[int, Part] = {}
        budget = self.config.max_num_batched_tokens
        block_size = self.config.block_size
        preempted = False
        for request in list(self.running):
            if preempted and request not in self.running:
                continue
            tokens = min(request.needs, budget)
            if not tokens:
                continue
            if request.computed + tokens <= (request.blocks + request.shared) * block_size:
                parts[request.id] = self._take(request, tokens)
                budget -= tokens
                continue
            while tokens and not self.pool.grow(request, request.computed + tokens):
                victim = self._victim()
                part = parts.pop(victim.id, None)
                if part is not None:
                    budget += part.tokens
                    victim.scheduled -= part.samples
                    victim.computed -= part.tokens
                self._preempt(victim)
                preempted = True
                if victim is request:
                    tokens = 0
            if tokens:
                parts[request.id] = self._take(request, tokens)
                budget -= tokens
        return list(parts.values()), preempted, budget

    def _victim(self) -> Request:
        if self.config.policy == "priority":
            return max(self.running, key=lambda each: each.order)
        return self.running[-1]

    def _preempt(self, victim: Request) -> None:
        self.pool.free(victim)
        self.running.remove(victim)
        self._no_room = True
        if self.config.preemption == "swap":
            victim.swapped = True
            self.moved += victim.computed
        else:
            victim.lost = max(victim.lost, victim.computed)
            victim.computed = 0
        victim.preemptions += 1
        if self.config.policy == "priority":
            insort(self.waiting, victim, key=lambda each: each.order)
        else:
            self.waiting.insert(0, victim)

    def _admit(self, now: float, held: bool, parts: list[Part], budget: int) -> list[Part]:
        gate = self.gate_open(held)
        while gate and self.waiting and budget and len(self.running) < self.config.max_num_seqs:
            request = self.waiting[0]
            if not request.needs:  # preempted while its last token was under way
                break
            fresh = request.first_scheduled is None
            start = self._start(request, fresh)
            tokens = min(request.length - start, budget)
            if not self.config.chunked and tokens < request.length - start:
                self.pool.free(request)
                break
            if not self.pool.grow(request, start + tokens):
                self.pool.free(request)
                self._no_room = True
                break
            self.waiting.pop(0)
            self.running.append(request)
            if fresh:
                request.first_scheduled = now
                self.queried += request.wish.prompt
                self.hits += start
                request.hit = start
            if request.swapped:
                request.swapped = False
                self.moved += start
            request.carried = False
            request.preemptions_to_tell = request.preemptions - request.told_preemptions
            request.computed = start
            parts.append(self._take(request, tokens))
            budget -= tokens
        if gate and self.waiting and not budget and len(self.running) < self.config.max_num_seqs:
            again = 2 * sum(part.recomputed for part in parts) > sum(part.tokens for part in parts if part.tokens > 1)
            self._spent_on = "recompute" if again else "prefill"
        return parts

    def _start(self, request: Request, fresh: bool) -> int:
        """Tokens that need not be computed when ``request`` is admitted."""
        if request.swapped or request.carried:
            return request.computed
        if request.wish.group >= 0:
            self.pool.share(request)
            return request.shared * self.config.block_size
        return request.wish.cached if fresh else 0

    def _take(self, request: Request, tokens: int) -> Part:
        context = request.computed
        request.computed = computed = context + tokens
        if computed >= request.keeps:
            self.pool.keep(request)
        samples = computed == request.wish.prompt + request.scheduled
        if samples:
            request.scheduled += 1
        return Part(request, tokens, context, max(0, min(request.lost, computed) - context), samples)
