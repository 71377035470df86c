"""From sampled tokens to what the front end books: in the order and at the moments at which vLLM's metrics move."""

from __future__ import annotations

from collections.abc import Sequence

from gaptop.lab.core.events import Event, Finished, First, HostSpan, Output, StepDone
from gaptop.lab.core.faults import Faults
from gaptop.lab.core.frontend import FrontEnd
from gaptop.lab.core.model import HostModel
from gaptop.lab.core.requests import Request
from gaptop.lab.core.scheduler import Scheduler


class Delivery:
    """The engine's messages and the front end's output handler, which detokenises one message after the other."""

    def __init__(self, scheduler: Scheduler, front: FrontEnd, host: HostModel, faults: Faults) -> None:
        self._scheduler = scheduler
        self._front = front
        self._host = host
        self._faults = faults
        self._count = 0
        self.free = 0.0

    def deliver(self, now: float, sampled: Sequence[Request]) -> tuple[Event, ...]:
        """Book one token for each of ``sampled``, and tell the scheduler's state after it."""
        start = max(now, self.free)
        cost = self._host.cost("detokenize", len(sampled)) + self._faults.strike("detokenize", start)
        self.free = start + cost
        outputs = tuple(self._output(request, now) for request in sampled)
        scheduler = self._scheduler
        self._count += 1
        done = StepDone(
            start=now,
            end=self.free,
            number=self._count,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            used_blocks=scheduler.pool.used,
            blocks=scheduler.pool.capacity,
            queried_tokens=scheduler.queried,
            hit_tokens=scheduler.hits,
            outputs=outputs,
        )
        scheduler.queried = scheduler.hits = 0
        return done, HostSpan(start, self.free, "output", "detokenize", False)

    def _output(self, request: Request, now: float) -> Output:
        request.delivered += 1
        wish = request.wish
        since_last = None if request.last_token is None else now - request.last_token
        request.last_token = now
        first = None
        if request.first_token is None:
            request.first_token = now
            first = First(wish.prompt, wish.cached, now - request.arrived)
        preemptions, request.preemptions_to_tell = request.preemptions_to_tell, 0
        request.told_preemptions += preemptions
        finished = None
        if request.delivered == wish.output:
            self._scheduler.finish(request)
            self._front.answered(request, self.free)
            scheduled = request.first_scheduled if request.first_scheduled is not None else request.queued
            finished = Finished(
                prompt_tokens=wish.prompt,
                cached_tokens=wish.cached,
                output_tokens=wish.output,
                queue=scheduled - request.queued,
                prefill=request.first_token - scheduled,
                decode=now - request.first_token,
                e2e=now - request.arrived,
                preemptions=request.preemptions,
            )
        return Output(request.id, since_last, preemptions, first, finished)
