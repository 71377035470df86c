"""llama-server's ``/metrics`` and ``/slots``, as signals.

Of ``/metrics`` only counters and the two request gauges are read: its ``*_seconds`` gauges are means since the previous
scrape by anybody, so that two readers steal from each other. Older builds answer both paths between two batches only,
so a scrape may take as long as a whole prompt batch; ``latency.scrape`` shows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message
from gaptop_collectors.commandline import recognise
from gaptop_collectors.engines.address import printable
from gaptop_collectors.engines.exposition import ExpositionReader, NotMetrics
from gaptop_collectors.engines.http import Answer, Endpoint, require_ok
from gaptop_collectors.engines.llamacpp_slots import Booked, Counted, Progress, Slot, parse_slots
from gaptop_collectors.engines.llamacpp_source import PERIOD, Known, describe
from gaptop_collectors.engines.scrapes import RestartWatch, ScrapeLog, pids_of
from gaptop_collectors.host.proctable import read_argv
from gaptop_collectors.target import HttpOptions, Processes, Server, ServerProcess

_BOOSTED: Final = 0.125
_ASIDE: Final = 1.0
_BRACKETS: Final = 3
"""Tries in one look to read slots between two equal readings of the counters; 1-2 ms each on a current build."""
_STEPS: Final = "llamacpp:n_decode_total"
_PREDICTED: Final = "llamacpp:tokens_predicted_total"
_COMPUTED: Final = "llamacpp:prompt_tokens_total"
_DEFERRED: Final = "llamacpp:requests_deferred"
_PROCESSING: Final = "llamacpp:requests_processing"

Values = dict[str, float | None]


class LlamaCppEngine:
    """The collector; one source ``metrics/<url>`` of kind server."""

    name = "engines.llamacpp"

    def __init__(self, server: Server, http: HttpOptions, processes: Processes | None = None) -> None:
        self.period = PERIOD
        self.deadline = 0.9
        self._server = server
        self._processes = processes
        self._endpoint = Endpoint(server.url, http)
        self._reader = ExpositionReader((_STEPS, _PREDICTED, _COMPUTED, _DEFERRED, _PROCESSING))
        self._source = f"metrics/{server.url}"
        self._log = ScrapeLog(self._source)
        self._restarts = RestartWatch(self._source, "llama-server")
        self._progress = Progress()
        self._known: Known | None = None
        self._info: Message | None = None
        self._boosted_until = 0.0

    def open(self) -> Sequence[Message]:
        """Find out which of the two paths answer, and read a first time."""
        self._known = self._info = None
        return self.sample()

    def sample(self) -> Sequence[Message]:
        """One look at both paths.

        :raises CollectorError: nothing could be read; there are then no readings, old ones are never repeated.
        """
        try:
            if self._known is None:
                self._known = self._ask_aside()
            messages = self._look(self._known)
        except CollectorError as error:
            self._log.failed(error)
            self._known = None
            raise
        self.period = _BOOSTED if time.monotonic() < self._boosted_until else PERIOD
        return messages

    def boost(self, seconds: float) -> None:
        """Eight looks a second for a while."""
        self._boosted_until = time.monotonic() + seconds
        self.period = _BOOSTED

    def close(self) -> None:
        self._endpoint.close()

    def _look(self, known: Known) -> Sequence[Message]:
        metrics, slots, after = self._read(known)
        answer = metrics[0] if metrics else slots[0] if slots else None
        if answer is None:
            raise CollectorError(
                f"llama-server at {self._server.url} offers neither /metrics nor /slots, so its queue, tokens and KV "
                "cache are not visible; restart it with --metrics and without --no-slots.",
                state="absent",
            )
        booked = metrics[1] if metrics else {}
        news = self._restarted(answer, booked, slots[1] if slots else ())
        batches: list[Batch] = []
        if metrics:
            values = self._from_metrics(booked, slots is None)
            values["latency.scrape"] = (answer.done_ns - answer.begun_ns) / 1e9
            batches.append(self._batch(metrics[0], values))
        if slots:
            self._progress.feed(slots[1], _counted(booked), _counted(after[1]) if after else None)
            values = self._from_slots(known, slots[1])
            if not metrics:
                values["latency.scrape"] = (answer.done_ns - answer.begun_ns) / 1e9
            batches.append(self._batch(slots[0], values))
        holes = self._log.read(answer)
        messages = [*holes, *(each for each in news if not (holes and isinstance(each, Hole)))]
        keys = [key for batch in batches for key in batch.values]
        info = describe(self.name, self._server.url, known, keys, pids_of(self._current()), self._log.error)
        if info != self._info:
            self._info = info
            messages.insert(0, info)
        return [*messages, *batches, Delivered(self._source, answer.begun_ns)]

    def _read(
        self, known: Known
    ) -> tuple[tuple[Answer, Values] | None, tuple[Answer, list[Slot]] | None, tuple[Answer, Values] | None]:
        """Metrics, slots, and while the progress has no base yet, metrics once more, until both readings are the same:
        no request ended in between, so what is booked later was made later."""
        # Metrics before slots: a request that ends in between is booked with the next look, never counted twice.
        metrics, slots, after = self._metrics(known), self._slots(known), None
        for _ in range(_BRACKETS):
            if metrics is None or slots is None or self._progress.based:
                break
            after = self._metrics(known)
            if after is None or _counted(after[1]) == _counted(metrics[1]):
                break
            metrics, slots = after, self._slots(known)
            after = None
        return metrics, slots, after

    def _batch(self, answer: Answer, values: Values) -> Batch:
        return Batch(self._source, [self._log.taken_in(answer)], {key: [value] for key, value in values.items()})

    def _metrics(self, known: Known) -> tuple[Answer, Values] | None:
        if not known.has_metrics:
            return None
        answer = self._endpoint.get("/metrics")
        if answer.status in (404, 501):
            known.has_metrics = False
            return None
        text = require_ok(answer, self._server.url, "/metrics").text
        try:
            if answer.cut:
                raise NotMetrics("ends inside a line and may be incomplete")
            found = {sample.name: sample.value for sample in self._reader.read(text)}
            if _STEPS not in found:
                raise NotMetrics("has no llamacpp: lines")
        except NotMetrics as error:
            raise self._wrong("/metrics", error) from None
        return answer, found

    def _slots(self, known: Known) -> tuple[Answer, list[Slot]] | None:
        if not known.has_slots:
            return None
        answer = self._endpoint.get("/slots")
        if answer.status in (404, 501):
            known.has_slots = False
            return None
        try:
            return answer, parse_slots(require_ok(answer, self._server.url, "/slots").body)
        except NotMetrics as error:
            raise self._wrong("/slots", error) from None

    def _wrong(self, path: str, error: NotMetrics) -> CollectorError:
        return CollectorError(
            f"The answer of {self._server.url}{path} {error}, so the engine's queue, tokens and KV cache are not "
            "visible; check that the address is llama-server's own."
        )

    def _restarted(self, answer: Answer, booked: Values, slots: Sequence[Slot]) -> Sequence[Message]:
        counters = {name: booked.get(name) for name in (_STEPS, _PREDICTED, _COMPUTED)}
        tasks = [slot.task for slot in slots if slot.task is not None]
        # Tasks may begin in another order than they came in, so their numbers speak only where nothing else does.
        counters["task number"] = float(max(tasks)) if tasks and not booked else None
        started = answer.headers.get("Process-Start-Time-Unix", "")  # really CLOCK_MONOTONIC in µs
        marker = int(started) / 1e6 if started.isascii() and started.isdigit() else None
        news = self._restarts.look(self._log.taken_in(answer), marker, counters)
        if news:
            self._progress = Progress()
            self._known = None  # looked at anew with the next sample: model and slots may be others
        return news

    def _from_metrics(self, booked: Values, alone: bool) -> Values:
        values: Values = {"sched.waiting": booked.get(_DEFERRED)}
        steps = _booked(booked, _STEPS)
        if steps is not None and steps.exact:
            values["step.count"] = steps.value
        if alone:
            values["sched.running"] = booked.get(_PROCESSING)
            computed = _booked(booked, _COMPUTED)
            if computed is not None and computed.exact:
                values["tokens.prompt"] = computed.value
        return values

    def _from_slots(self, known: Known, slots: Sequence[Slot]) -> Values:
        busy = [slot for slot in slots if slot.busy]
        values: Values = {
            "sched.running": float(len(busy)),
            "slots.prefilling": float(sum(slot.decoded == 0 for slot in busy)),
            "sched.limit": float(len(slots)),
            "tokens.decode": self._progress.decode,
            "tokens.prompt": self._progress.prompt,
        }
        largest = max(slot.context for slot in slots)
        if len(slots) == 1 or sum(slot.held for slot in slots) > largest:
            known.one_cache = False  # more tokens than one slot's context: the slots' contexts are their own
        if known.one_cache is not None:
            capacity = largest if known.one_cache else sum(slot.context for slot in slots)
            values["kv.capacity"] = float(capacity)
            # Live requests only: what an idle slot holds is a cache that the next request may overwrite.
            held = sum(slot.held for slot in busy)
            values["kv.used"] = min(1.0, held / capacity) if capacity else None
        return values

    def _ask_aside(self) -> Known:
        known = Known(model=self._server.model, version=self._server.version)
        current = self._current()
        command = recognise(read_argv(current[0].pid)) if current else None
        known.one_cache = command.one_cache if command else None
        props = self._props()
        build, name = props.get("build_info"), props.get("model_alias") or props.get("model_path")
        if isinstance(build, str):
            known.version = printable(build, 40)
        if isinstance(name, str):
            known.model = printable(PurePath(name).name)
        return known

    def _props(self) -> dict[str, Any]:
        try:
            answer = self._endpoint.get("/props", timeout=_ASIDE)
            found = json.loads(answer.body) if answer.status == 200 else {}
        except (CollectorError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _current(self) -> Sequence[ServerProcess]:
        return self._processes.current() if self._processes else self._server.processes


def _booked(values: Values, name: str) -> Booked | None:
    value = values.get(name)
    return Booked(value) if value is not None else None


def _counted(values: Values) -> Counted:
    return Counted(_booked(values, _PREDICTED), _booked(values, _COMPUTED))
