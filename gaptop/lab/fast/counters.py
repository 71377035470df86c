"""vLLM's counters and gauges as plain numbers that the engine's messages move, with the traps that its metrics have.

The same rules as in ``dialect/vllm/v1/metrics/loggers.py``, which fills real metric families; a test holds both against
each other through the exposition's text and the real parser.
"""

from __future__ import annotations

from typing import Final

from gaptop.lab.core.events import Output, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.fast.view import Dialect
from gaptop_collectors.engines.vllm_names import RARE

Values = dict[str, float | None]
"""Series key to value."""

_NEWER: Final = frozenset(
    {"sched.waiting_by_reason{reason=capacity}", "sched.waiting_by_reason{reason=deferred}", "sched.sleeping"}
)
"""Series that 0.8 has not."""


class VllmCounters:
    """What the front end's metrics say. Gauges move with messages only: they are 0 in the first step after silence."""

    def __init__(self, config: EngineConfig, dialect: Dialect) -> None:
        self._old = dialect == "vllm-0.8"
        self._limits: Values = {
            "kv.capacity": float(config.num_blocks * config.block_size),
            "sched.limit": float(config.max_num_seqs),
            "sched.token_budget": float(config.max_num_batched_tokens),
        }
        self.running = self.waiting = self.deferred = 0
        self.kv = 0.0
        self.queries = self.hits = self.preemptions = 0
        self.prompt = self.decode = self.step_tokens = self.steps = self.finished = 0
        self.ttft_sum = self.itl_sum = self.queue_sum = 0.0
        self.ttft_count = self.itl_count = 0

    def book(self, step: StepDone) -> None:
        """One message of the engine, at the moment when the front end has handled it."""
        self.running, self.waiting, self.deferred = step.running, step.waiting, step.deferred
        self.kv = step.used_blocks / step.blocks
        self.queries += step.queried_tokens
        self.hits += step.hit_tokens
        outputs = step.outputs
        if not outputs:
            return
        tokens = len(outputs)
        self.decode += tokens
        for output in outputs:
            if output.since_last is not None:
                self.itl_sum += output.since_last
                self.itl_count += 1
            if output.first is not None or output.finished is not None or output.preemptions:
                tokens += self._ends(output)
        self.steps += 1
        self.step_tokens += tokens

    def _ends(self, output: Output) -> int:
        """What is told with a request's first and last token; the prompt tokens that this step is booked with."""
        self.preemptions += output.preemptions
        if output.finished is not None:
            self.finished += 1
            self.queue_sum += output.finished.queue
        if output.first is None:
            return 0
        self.ttft_sum += output.first.ttft
        self.ttft_count += 1
        prompt = output.first.prompt_tokens - (0 if self._old else output.first.cached_tokens)
        self.prompt += prompt
        return prompt

    def values(self) -> Values:
        """Everything that a whole scrape gives, under the keys and in the order of ``vllm_names.values``."""
        found: Values = {
            "sched.running": float(self.running),
            "sched.waiting": float(self.waiting),
            "sched.waiting_by_reason{reason=capacity}": float(self.waiting - self.deferred),
            "sched.waiting_by_reason{reason=deferred}": float(self.deferred),
            "sched.sleeping": 0.0,
            "sched.preemptions": float(self.preemptions),
            "sched.finished": float(self.finished),
            "sched.http_requests": float(self.finished),
            "kv.used": self.kv,
            "kv.queries": float(self.queries),
            "kv.hits": float(self.hits),
            "tokens.prompt": float(self.prompt),
            "tokens.decode": float(self.decode),
            "tokens.per_step": float(self.step_tokens),
            "step.count": float(self.steps),
            "latency.ttft_sum": self.ttft_sum,
            "latency.ttft_count": float(self.ttft_count),
            "latency.itl_sum": self.itl_sum,
            "latency.itl_count": float(self.itl_count),
            "latency.queue_sum": self.queue_sum,
            "latency.queue_count": float(self.finished),
        }
        if self._old:
            for key in _NEWER:
                del found[key]
        return found

    @property
    def limits(self) -> Values:
        """What the command line and the cache's configuration tell beside the metrics."""
        return self._limits


def usual(values: Values) -> Values:
    """Without what no verdict needs, which the collector asks for each five seconds only."""
    return {key: value for key, value in values.items() if key not in RARE}
