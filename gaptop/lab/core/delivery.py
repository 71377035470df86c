"""From sampled tokens to what the front end books: in the order and at the moments at which vLLM's metrics move."""

from __future__ import annotations

from collections.abc import Sequence

from gaptop.lab.core.cpu import Core
from gaptop.lab.core.events import Finished, First, HostSpan, Open, Output, StepDone
from gaptop.lab.core.faults import strength
from gaptop.lab.core.frontend import FrontEnd
from gaptop.lab.core.machine import Machine
from gaptop.lab.core.requests import Request
from gaptop.lab.core.scheduler import Scheduler


class Delivery:
    """The engines' messages and the front end's output handler, which detokenises one message after the other.

    Its state is that of all ``schedulers`` together: they are one server's.
    """

    def __init__(self, machine: Machine, schedulers: Sequence[Scheduler], front: FrontEnd) -> None:
        self._machine = machine
        self._schedulers = tuple(schedulers)
        self._front = front
        self._core = Core(machine.faults)
        self._count = 0
        self.free = self._since = 0.0
        self.stale = False
        """Requests have gone since the last message: what it said is no longer so."""

    def deliver(self, now: float, sampled: Sequence[Request], scheduler: Scheduler, deferred: int) -> None:
        """Book one token for each of ``sampled``, which ``scheduler`` ran, and tell the server's state after it."""
        self.stale = False
        faults = self._machine.faults
        start = self._logs(self._start(now), faults.strike("access_log", now))
        cost = self._machine.host.cost("detokenize", len(sampled)) + faults.strike("detokenize", start)
        slow = faults.lasting("gil", start)
        if slow is not None:
            cost += strength(slow.fault)
        stretches = self._core.run(start, cost)
        self.free = stretches[-1].end
        outputs = tuple(self._output(request, now, scheduler) for request in sampled)
        self._machine.add(self._state(now, outputs, deferred))
        for begin, end, held_by in stretches:
            self._machine.add(HostSpan(begin, end, "output", "detokenize", False, bool(held_by)))

    def behind(self, now: float, by: float = 0.0) -> bool:
        """Whether tokens sampled before ``now`` take at least ``by`` seconds more until clients have them."""
        return self._since <= now and self.free > now + by

    def hang_up(self, now: float) -> None:
        """The client of the oldest running request hangs up, where others stay, and asks for something else."""
        for each in self._schedulers:
            if len(each.running) > 1:
                request = each.running[0]
                each.drop(request)
                self._machine.add(Open(now, -1))
                self._front.answered(request, now)
                return

    def abort(self, now: float, again: float) -> None:
        """Every client hangs up, and no message tells of it; they ask again at ``again``."""
        gone = [request for each in self._schedulers for request in each.abort()]
        for request in gone + self._front.abort(again):
            self._machine.add(Open(now, -1))
            self._front.answered(request, again)
        self.stale = True

    def _logs(self, start: float, seconds: float) -> float:
        """A log is written from ``start`` on, if there is one; returns when that ends."""
        if seconds <= 0:
            return start
        for begin, end, held_by in self._core.run(start, seconds):
            self._machine.add(HostSpan(begin, end, "output", "log", False, bool(held_by)))
            start = end
        return start

    def _start(self, now: float) -> float:
        start = max(now, self.free)
        if now > self.free:
            self._core.woke()
            self._since = now
        stopped = self._machine.faults.lasting("stop", start)
        return stopped.end if stopped is not None else start

    def _state(self, now: float, outputs: tuple[Output, ...], deferred: int) -> StepDone:
        self._count += 1
        own = self._schedulers
        done = StepDone(
            start=now,
            end=self.free,
            number=self._count,
            running=sum(len(each.running) for each in own),
            waiting=sum(len(each.waiting) for each in own),
            used_blocks=sum(each.pool.used for each in own),
            blocks=sum(each.pool.capacity for each in own),
            queried_tokens=sum(each.queried for each in own),
            hit_tokens=sum(each.hits for each in own),
            outputs=outputs,
            deferred=deferred,
        )
        for each in own:
            each.queried = each.hits = 0
        return done

    def _output(self, request: Request, now: float, scheduler: Scheduler) -> Output:
        request.delivered += 1
        wish = request.wish
        before = request.last_token
        request.last_token = now
        if before is not None and not request.preemptions_to_tell and request.delivered < wish.output:
            return Output(request.id, now - before, 0, None, None)
        since_last = None if before is None else now - before
        first = None
        if request.first_token is None:
            request.first_token = now
            first = First(wish.prompt, request.hit, now - request.arrived)
        preemptions, request.preemptions_to_tell = request.preemptions_to_tell, 0
        request.told_preemptions += preemptions
        finished = None
        if request.delivered == wish.output:
            scheduler.finish(request)
            self._machine.add(Open(self.free, -1))
            self._front.answered(request, self.free)
            scheduled = request.first_scheduled if request.first_scheduled is not None else request.queued
            finished = Finished(
                prompt_tokens=wish.prompt,
                cached_tokens=request.hit,
                output_tokens=wish.output,
                queue=scheduled - request.queued,
                prefill=request.first_token - scheduled,
                decode=now - request.first_token,
                e2e=now - request.arrived,
                preemptions=request.preemptions,
            )
        return Output(request.id, since_last, preemptions, first, finished)
