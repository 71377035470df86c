"""llama-server: progress out of slots and booked counters, on a recording and on made-up sequences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gaptop_collectors.collector import Batch, CollectorError, Hole, Message, Note, SourceInfo
from gaptop_collectors.engines.exposition import NotMetrics
from gaptop_collectors.engines.llamacpp import LlamaCppEngine
from gaptop_collectors.engines.llamacpp_slots import Booked, Counted, Progress, Slot, parse_slots
from gaptop_collectors.target import HttpOptions, Server
from tests.fakes.endpoint import Site

LOOKS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "llama" / "mid_oversub.jsonl").read_text().splitlines()
]


def metrics_text(values: dict[str, str]) -> str:
    return "".join(f"# TYPE {name} counter\n{name} {value}\n" for name, value in values.items())


def readings(messages: Sequence[Message]) -> dict[str, float | None]:
    return {k: c[0] for batch in messages if isinstance(batch, Batch) for k, c in batch.values.items()}


def played(looks: Sequence[dict[str, Any]], *, metrics: bool = True) -> list[dict[str, float | None]]:
    with Site({}) as site:
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        seen = []
        for index, look in enumerate(looks):
            if metrics:
                site.routes["/metrics"] = metrics_text(look["metrics"])
            site.routes["/slots"] = json.dumps(look["slots"])
            seen.append(readings(engine.open() if index == 0 else engine.sample()))
        engine.close()
    return seen


def test_a_recording_gives_every_token_once_and_early() -> None:
    seen = played(LOOKS)
    decode = [each["tokens.decode"] for each in seen]
    prompt = [each["tokens.prompt"] for each in seen]
    assert decode[0] == 0
    assert decode[-1] == 720, "12 requests of 60 tokens"
    assert prompt[-1] == 600
    assert all(a is not None and b is not None and b >= a for a, b in zip(decode, decode[1:], strict=False))
    moving = sum(a != b for a, b in zip(decode, decode[1:], strict=False))
    booked = {look["metrics"]["llamacpp:tokens_predicted_total"] for look in LOOKS}
    assert moving > 2 * len(booked), "it moves while requests run, not only when one ends"
    assert max(each["sched.waiting"] or 0 for each in seen) == 8
    assert {each["sched.limit"] for each in seen} == {4.0}
    assert max(each["sched.running"] or 0 for each in seen) == 4
    assert any(each["slots.prefilling"] for each in seen)
    assert seen[-1]["step.count"] == 2010
    assert seen[-1]["kv.used"] == 0, "what idle slots hold is no live request's"
    assert all(each["kv.capacity"] == 4096 for each in seen), "969 x 4 tokens do not fit one context: four own caches"


def test_without_metrics_waiting_is_unknown_not_zero() -> None:
    seen = played(LOOKS, metrics=False)
    assert all("sched.waiting" not in each and "step.count" not in each for each in seen)
    decode = seen[-1]["tokens.decode"]
    assert decode is not None
    assert 600 < decode <= 720, "only the tails of requests between two looks are missed"


def slot(number: int = 0, **changes: Any) -> Slot:
    return Slot(
        **{"number": number, "context": 512, "busy": True, "task": 1, "held": 0, "prompt": 0, "decoded": 0, **changes}
    )


def counted(predicted: float, computed: float | None = 0) -> Counted:
    return Counted(Booked(predicted), None if computed is None else Booked(computed))


def test_tails_and_short_requests_are_booked_at_their_end() -> None:
    progress = Progress()
    progress.feed([slot(decoded=10)], counted(100, 50), counted(100, 50))
    assert progress.decode == 0, "what ran before we looked is no increment"
    progress.feed([slot(decoded=15)], counted(100, 50))
    assert progress.decode == 5
    progress.feed([slot(busy=False, decoded=0)], counted(120, 50))
    assert progress.decode == 10, "the request made 20 in all: 10 before, 5 seen, 5 missed"
    progress.feed([slot(busy=False, task=3)], counted(127, 58))
    assert (progress.decode, progress.prompt) == (17, 8), "a request that nobody saw"


def test_an_end_seen_before_it_is_booked_is_not_counted_twice() -> None:
    progress = Progress()
    progress.feed([slot(task=1)], counted(0), counted(0))
    progress.feed([slot(task=1, decoded=30)], counted(0))
    progress.feed([slot(task=2, decoded=4)], counted(0))
    assert progress.decode == 34
    progress.feed([slot(task=2, decoded=6)], counted(30))
    assert progress.decode == 36


@pytest.mark.parametrize(("value", "least"), [(999_000, 1), (1_065_900, 20), (12_345_600, 200)])
def test_six_digits_are_no_increments(value: float, least: float) -> None:
    assert Booked(value).least == least
    progress = Progress()
    progress.feed([slot(task=None, busy=False)], counted(value, None), counted(value, None))
    progress.feed([slot(task=None, busy=False)], counted(value + least / 2, None))
    assert progress.decode == 0
    progress.feed([slot(task=None, busy=False)], counted(value + 2 * least, None))
    assert progress.decode == 2 * least


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b'[{"id":0}]',
        b'[{"id":"x","n_ctx":1,"is_processing":true}]',
        b"<html>",
        b"[" * 100000,
    ],
)
def test_what_is_no_list_of_slots(body: bytes) -> None:
    with pytest.raises(NotMetrics):
        parse_slots(body)


def test_old_builds_show_the_next_token_as_an_object() -> None:
    body = b'[{"id":0,"n_ctx":8,"is_processing":true,"id_task":5,"next_token":{"n_decoded":3}}]'
    assert parse_slots(body) == [Slot(0, 8, True, 5, 0, 0, 3)]


def test_neither_path_is_an_error_with_its_remedy() -> None:
    with Site({}) as site:
        site.routes["/metrics"] = site.routes["/slots"] = lambda request: web.Response(status=501)
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        with pytest.raises(CollectorError, match="--metrics") as caught:
            engine.open()
        engine.close()
    assert caught.value.state == "absent"


def test_loading_is_starting() -> None:
    with Site({}) as site:
        site.routes["/metrics"] = lambda request: web.Response(status=503, text='{"error":{"message":"Loading model"}}')
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        with pytest.raises(CollectorError) as caught:
            engine.open()
        engine.close()
    assert caught.value.state == "starting"


def test_generated_tokens_without_slots_are_unknown() -> None:
    with Site({"/metrics": metrics_text(LOOKS[0]["metrics"])}) as site:
        site.routes["/slots"] = lambda request: web.Response(status=501)
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        messages = engine.open()
        engine.close()
    info = next(m for m in messages if isinstance(m, SourceInfo))
    assert "tokens.decode" not in readings(messages)
    assert "ends" in info.unsupported["tokens.decode"]
    assert "--no-slots" in info.says


def test_steps_past_a_million_are_too_coarse_to_show() -> None:
    values = {**LOOKS[0]["metrics"], "llamacpp:n_decode_total": "1.0659e+06"}
    with Site({"/metrics": metrics_text(values), "/slots": json.dumps(LOOKS[0]["slots"])}) as site:
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        messages = engine.open()
        engine.close()
    info = next(m for m in messages if isinstance(m, SourceInfo))
    assert "step.count" not in readings(messages)
    assert "six digits" in info.unsupported["step.count"]


def test_a_restart_is_told() -> None:
    fresh = dict.fromkeys(LOOKS[0]["metrics"], "0")
    with Site({"/metrics": metrics_text(LOOKS[-1]["metrics"]), "/slots": json.dumps(LOOKS[-1]["slots"])}) as site:
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        engine.open()
        site.routes["/metrics"] = metrics_text(fresh)
        messages = engine.sample()
        engine.close()
    assert [m.what for m in messages if isinstance(m, Note)] == ["server_restarted"]
    assert len([m for m in messages if isinstance(m, Hole)]) == 1
    assert readings(messages)["tokens.decode"] == 0


def test_one_shared_cache_is_told_only_when_known() -> None:
    slots = [{"id": n, "n_ctx": 100, "is_processing": n == 0, "id_task": n, "n_prompt_tokens": 20} for n in range(4)]
    with Site({"/slots": json.dumps(slots)}) as site:
        engine = LlamaCppEngine(Server(site.url, "llamacpp"), HttpOptions())
        messages = engine.open()
        assert "kv.used" not in readings(messages)
        assert engine._known is not None
        engine._known.one_cache = True
        assert readings(engine.sample())["kv.used"] == 0.2
        engine._known.one_cache = False
        assert readings(engine.sample())["kv.used"] == 0.05
        engine.close()
