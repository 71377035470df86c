"""llama-server's endpoints, as a build of 2025 answers them: while a batch computes, with what the last one left."""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

from aiohttp import web

from gaptop.lab.core.events import DeviceSpan, StepDone
from gaptop.lab.core.model import EngineConfig
from gaptop.lab.dialect.llamacpp.slots import NOBODY, Slot, Slots
from gaptop.lab.live.http import MODEL

_TYPE: Final = "text/plain; version=0.0.4"


class LlamaEndpoints:
    """One KV cache for all slots, as with ``--kv-unified``: each slot shows the whole context."""

    def __init__(self, config: EngineConfig, version: str) -> None:
        self._context = config.num_blocks * config.block_size
        self._slots = Slots(config.max_num_seqs)
        self._told_version = version
        self._started = monotonic_ns() // 1000  # the header's name says Unix time, but it is this

    def record(self, step: StepDone) -> None:
        """Book one message of the engine."""
        self._slots.record(step)

    def launched(self, span: DeviceSpan) -> None:
        """A batch begins."""
        self._slots.launched(span)

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/slots", self._show_slots),
                web.get("/props", self._props),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
            ]
        )
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        slots = self._slots
        mean = slots.busy_sum / slots.decodes if slots.decodes else 0.0
        counters = (
            ("prompt_tokens_total", "Number of prompt tokens processed.", slots.computed),
            ("prompt_tokens_cached_total", "Number of prompt tokens reused from the cache.", slots.cached),
            ("tokens_predicted_total", "Number of generation tokens processed.", slots.predicted),
            ("n_decode_total", "Total number of llama_decode() calls", slots.decodes),
        )
        gauges = (
            ("n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", mean),
            ("requests_processing", "Number of requests processing.", slots.processing),
            ("requests_deferred", "Number of requests deferred.", slots.deferred),
        )
        lines = []
        for kind, found in (("counter", counters), ("gauge", gauges)):
            for name, text, value in found:
                lines += [f"# HELP llamacpp:{name} {text}", f"# TYPE llamacpp:{name} {kind}"]
                lines.append(f"llamacpp:{name} {value:g}")  # six digits, as a C++ stream prints them
        body = "\n".join(lines) + "\n"
        headers = {"Content-Type": _TYPE, "Process-Start-Time-Unix": str(self._started)}
        return web.Response(body=body.encode(), headers=headers)

    async def _show_slots(self, request: web.Request) -> web.Response:
        return web.json_response([self._slot(index, slot) for index, slot in enumerate(self._slots.all)])

    def _slot(self, index: int, slot: Slot) -> dict[str, object]:
        shown: dict[str, object] = {
            "id": index,
            "n_ctx": self._context,
            "speculative": False,
            "is_processing": slot.busy,
        }
        if slot.task is None:
            return shown
        return {
            **shown,
            "id_task": slot.order,
            "n_prompt_tokens": slot.processed + slot.cached + slot.generated,
            "n_prompt_tokens_processed": slot.processed,
            "n_prompt_tokens_cache": slot.cached,
            "params": {},
            "next_token": [{"has_next_token": slot.busy, "n_remain": NOBODY, "n_decoded": slot.decoded}],
        }

    async def _props(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "default_generation_settings": {"n_ctx": self._context},
                "total_slots": len(self._slots.all),
                "model_alias": MODEL,
                "model_path": MODEL,
                "build_info": self._told_version,
                "endpoint_slots": True,
                "endpoint_metrics": True,
            }
        )

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": self._context}}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})
