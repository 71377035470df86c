"""vLLM's metrics endpoint, as signals.

``GET /metrics/?name[]=…`` (with the slash; sample names) gives 2 KB for about 1 ms of the server's time, where the
whole ``/metrics`` gives 54 KB for 6 ms: so the whole one is read when the source is opened and after a restart, a
filtered one at every sample, unless this server does not filter. What no verdict needs is asked for each 5 s only.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, SourceInfo
from gaptop_collectors.commandline import recognise
from gaptop_collectors.engines import vllm_names as names
from gaptop_collectors.engines.address import printable
from gaptop_collectors.engines.dialects import engine_of, not_supported
from gaptop_collectors.engines.exposition import ExpositionReader, NotMetrics, Sample
from gaptop_collectors.engines.http import Answer, Endpoint, require_ok
from gaptop_collectors.engines.scrapes import RestartWatch, ScrapeLog, pids_of
from gaptop_collectors.engines.vllm_source import PERIOD, RARE_PERIOD, WHOLE_PERIOD, Known, describe
from gaptop_collectors.host.proctable import read_argv
from gaptop_collectors.target import HttpOptions, Processes, Server, ServerProcess

_BOOSTED: Final = 0.125
_LOOK_AGAIN: Final = 5.0
_ASIDE: Final = 1.0
"""Seconds for what is nice to know (version, model, /load)."""


class VllmEngine:
    """The collector; one source ``metrics/<url>`` of kind server, values of all engine cores together."""

    name = "engines.vllm"

    def __init__(self, server: Server, http: HttpOptions, processes: Processes | None = None) -> None:
        self.period = PERIOD
        self.deadline = 0.9
        self._server = server
        self._processes = processes
        self._endpoint = Endpoint(server.url, http)
        self._reader = ExpositionReader(names.WANTED)
        self._source = f"metrics/{server.url}"
        self._log = ScrapeLog(self._source)
        self._restarts = RestartWatch(self._source, "vLLM")
        self._known: Known | None = None
        self._info: SourceInfo | None = None
        self._news: list[Message] = []
        self._boosted_until = 0.0
        self._whole_at = 0.0
        self._rare_at = 0.0

    def open(self) -> Sequence[Message]:
        """Look at the whole body, find out what this server can be asked for, and read a first time."""
        self._known = self._info = None
        return self.sample()

    def sample(self) -> Sequence[Message]:
        """One scrape: the readings, and whatever changed about the source.

        :raises CollectorError: nothing could be read; there are then no readings, old ones are never repeated.
        """
        try:
            messages = self._sample()
        except CollectorError as error:
            self._log.failed(error)
            self._known = None  # it may come back as another server
            raise
        resting = PERIOD if self._known and self._known.filtered else WHOLE_PERIOD
        fast = self._known and self._known.filtered and time.monotonic() < self._boosted_until
        self.period = _BOOSTED if fast else resting
        return messages

    def boost(self, seconds: float) -> None:
        """Eight scrapes a second for a while, where the server filters its metrics."""
        self._boosted_until = time.monotonic() + seconds
        if self._known and self._known.filtered:
            self.period = _BOOSTED

    def close(self) -> None:
        self._endpoint.close()

    def _sample(self) -> Sequence[Message]:
        known, fast = self._known, False
        stale = known is not None and not known.has_gauges and time.monotonic() - known.looked > _LOOK_AGAIN
        if known is None or stale:
            answer, present = self._look(known)
        else:
            fast = known.filtered is not None and time.monotonic() - self._whole_at < 0.8 * PERIOD
            answer, present = self._scrape(known.fast if fast else self._path(known))
            if known.has_gauges and names.RUNNING not in present:
                answer, present = self._look(known)
                fast = False
        if not fast:
            self._whole_at = time.monotonic()
        values = names.values(present)
        at = self._log.taken_in(answer)
        changed = self._restarts.look(
            at, names.start_marker(present), {signal: values.get(signal) for signal in names.RESTARTS}
        )
        self._news.extend(changed)
        if changed and known is not None:
            answer, present = self._look(None)
            values, at, fast = names.values(present), self._log.taken_in(answer), False
        return self._messages(answer, at, present, values, fast)

    def _messages(
        self,
        answer: Answer,
        at: int,
        present: names.Grouped,
        values: dict[str, float | None],
        fast: bool,
    ) -> Sequence[Message]:
        known = self._known or Known()
        known.engines = max(known.engines, names.engines(present))
        if known.capacity is not None and not fast:
            values["kv.capacity"] = known.capacity
        if not fast:
            values |= {signal: each * max(known.engines, 1) for signal, each in known.limits.items()}
        values["latency.scrape"] = (answer.done_ns - answer.begun_ns) / 1e9
        load = self._in_flight(values.get("sched.running"))
        holes = self._log.read(answer)
        messages = [*holes, *(news for news in self._news if not (holes and isinstance(news, Hole)))]
        self._news.clear()
        if not fast:
            keys = [*values, *known.rare, *(["sched.in_flight"] if known.load else [])]
            info = describe(self.name, self._server.url, known, keys, pids_of(self._current()), self._log.error)
            if info != self._info:
                self._info = info
                messages.insert(0, info)
        messages.append(Batch(self._source, [at], {key: [value] for key, value in values.items()}))
        if load is not None:
            messages.append(Batch(self._source, [load[0]], {"sched.in_flight": [load[1]]}))
        messages.append(Delivered(self._source, answer.begun_ns))
        return messages

    def _path(self, known: Known) -> str:
        """What to ask for at this sample."""
        if known.filtered is None:
            return "/metrics"
        if time.monotonic() - self._rare_at < RARE_PERIOD:
            return known.usual
        self._rare_at = time.monotonic()
        return known.filtered

    def _scrape(self, path: str) -> tuple[Answer, dict[str, list[Sample]]]:
        answer = require_ok(self._endpoint.get(path), self._server.url, path)
        where = f"{self._server.url}{path.partition('?')[0]}"
        if answer.cut:
            raise CollectorError(
                f"The answer of {where} ends inside a line, so it may be incomplete and none of it is used; look at "
                "what stands between gaptop and the server."
            )
        try:
            return answer, names.group(self._reader.read(answer.text))
        except NotMetrics as error:
            raise CollectorError(
                f"The answer of {where} {error}, so the engine's queue, tokens and KV cache are not visible; check "
                "that the address is the engine's own."
            ) from None

    def _look(self, before: Known | None) -> tuple[Answer, dict[str, list[Sample]]]:
        answer, present = self._scrape("/metrics")
        text = answer.text
        engine = engine_of(text)
        if engine not in ("vllm", None):
            raise CollectorError(not_supported(engine, self._server.url), state="absent")
        if not text.strip():
            raise CollectorError(
                f"{self._server.url}/metrics is empty, so the engine's queue, tokens and KV cache are not visible; "
                "check that the address is the engine's own."
            )
        known = Known(looked=time.monotonic())
        known.logs_stats = engine == "vllm"
        known.has_gauges = names.RUNNING in present
        known.several_apis = known.logs_stats and names.STARTED not in present
        known.capacity = names.kv_capacity(present)
        if before is None:
            self._ask_aside(known, present)
        else:
            known.version, known.model, known.limits = before.version, before.model, before.limits
        if known.has_gauges:
            known.filtered = self._filter(present, len(answer.body))
            known.usual = _path([*names.chosen(present, names.USUAL), names.STARTED])
            known.fast = _path(names.chosen(present, names.FAST))
            known.rare = frozenset(key for key in names.values(present) if key in names.RARE)
            self._rare_at = time.monotonic()
        self._known = known
        return answer, present

    def _filter(self, present: names.Grouped, whole: int) -> str | None:
        """The path of the filtered scrape, when this server answers it with the same series in a smaller body."""
        path = _path([*names.chosen(present, names.ALIASES), names.STARTED])
        try:
            answer, filtered = self._scrape(path)
        except CollectorError:
            return None
        same = names.values(filtered).keys() == names.values(present).keys()
        return path if same and len(answer.body) < whole / 2 else None

    def _ask_aside(self, known: Known, present: names.Grouped) -> None:
        """Version, model and limits; each may be missing."""
        version = self._json("/version").get("version")
        known.version = printable(version, 40) if isinstance(version, str) else self._server.version
        labels = [s.labels.get("model_name") for s in present.get(names.RUNNING, ())]
        known.model = self._server.model or next((printable(label) for label in labels if label), None)
        if known.model is None:
            with contextlib.suppress(KeyError, IndexError, TypeError):
                known.model = printable(str(self._json("/v1/models")["data"][0]["id"]))
        # Not from /server_info, where a development server tells them: it answers by running pip in the front end.
        processes = self._current()
        command = recognise(read_argv(processes[0].pid)) if processes else None
        cap = command.sequence_cap if command else self._server.sequence_cap
        if cap:
            known.limits["sched.limit"] = cap
        if command is not None and command.token_budget:
            known.limits["sched.token_budget"] = command.token_budget

    def _current(self) -> Sequence[ServerProcess]:
        return self._processes.current() if self._processes else self._server.processes

    def _json(self, path: str) -> Mapping[str, Any]:
        try:
            answer = self._endpoint.get(path, timeout=_ASIDE)
            found = json.loads(answer.body) if answer.status == 200 else {}
        except (CollectorError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _in_flight(self, running: float | None) -> tuple[int, float] | None:
        """``/load`` stays 0 without its flag: so ask once while requests run, and from then on always or never."""
        known = self._known
        if known is None or known.several_apis or known.load is False or (known.load is None and not running):
            return None
        begun = time.monotonic_ns()
        load = self._json("/load").get("server_load")
        if not isinstance(load, int) or (known.load is None and load == 0):
            known.load = False
            return None
        known.load = True
        return self._log.taken(begun, time.monotonic_ns()), float(load)


def _path(wanted: Sequence[str]) -> str:
    return "/metrics/?" + "&".join(f"name%5B%5D={name}" for name in wanted)
