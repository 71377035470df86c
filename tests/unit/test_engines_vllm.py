"""The vLLM collector against an endpoint that plays recorded bodies and is then changed under it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from gaptop_collectors.collector import Batch, CollectorError, Delivered, Hole, Message, Note, SourceInfo
from gaptop_collectors.engines import vllm_names as names
from gaptop_collectors.engines.vllm import VllmEngine
from gaptop_collectors.target import HttpOptions, Server, ServerProcess
from tests.fakes.endpoint import Site

DATA = Path(__file__).parents[1] / "data" / "vllm"
BURSTY = (DATA / "0.32_bursty.prom").read_text()


def filtering(text: str) -> object:
    """A handler that filters by sample name as prometheus_client's ASGI application does."""

    def answer(request: web.Request) -> web.Response:
        wanted = set(request.query.getall("name[]", []))
        lines = [line for line in text.splitlines(True) if line.partition("{")[0].partition(" ")[0] in wanted]
        return web.Response(text="".join(lines))

    return answer


def site_of(text: str) -> dict[str, object]:
    return {
        "/metrics": text,
        "/metrics/": filtering(text),
        "/version": '{"version":"0.32.0"}',
        "/v1/models": '{"data":[{"id":"tiny","owned_by":"vllm"}]}',
        "/load": '{"server_load": 0}',
    }


def of(messages: Sequence[Message], kind: type) -> list:  # type: ignore[type-arg]
    return [message for message in messages if isinstance(message, kind)]


def readings(messages: Sequence[Message]) -> dict[str, float | None]:
    return {key: column[0] for batch in of(messages, Batch) for key, column in batch.values.items()}


def test_filtered_scrapes_where_the_server_filters() -> None:
    server = Server("", "vllm", sequence_cap=16, processes=(ServerProcess(7, "api", "vllm", True, 1),))
    with Site(site_of(BURSTY)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm", sequence_cap=16, processes=server.processes), HttpOptions())
        first = engine.open()
        again = engine.sample()
        engine.boost(60)
        assert engine.period == 0.125
        boosted = engine.sample()
        engine.close()
    (info,) = of(first, SourceInfo)
    assert info.source == f"metrics/{site.url}"
    told = {"url": site.url, "engine": "vllm", "version": "0.32.0", "model": "tiny", "pids": [7]}
    assert info.entity == {**told, "engines": 1, "several_api_servers": False}
    assert set(info.signals).isdisjoint(info.unsupported)
    assert of(again, SourceInfo) == [], "nothing changed"
    assert readings(first)["sched.limit"] == 16
    assert readings(first)["kv.capacity"] == 58240
    asked = [path for path in site.seen if path.startswith("/metrics")]
    assert asked[0] == "/metrics"
    assert all(path.startswith("/metrics/?name%5B%5D=") or "name[]" in path for path in asked[1:])
    assert set(readings(boosted)) == {*names.FAST, "latency.scrape"}
    assert readings(boosted)["tokens.decode"] == 16474.0
    (batch, *_), (delivered,) = of(first, Batch), of(first, Delivered)
    assert delivered.time_ns <= batch.times_ns[0]


def test_what_no_verdict_needs_is_asked_for_rarely() -> None:
    unread = {alias for signal in names.RARE for alias in names.ALIASES[signal]}

    def asked(path: str) -> set[str]:
        return {name for name in unread if name in path}

    with Site(site_of(BURSTY)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        (info,) = of(engine.open(), SourceInfo)
        site.seen.clear()
        usual = []
        for _ in range(3):
            engine._whole_at -= 1  # as if half a second had passed
            usual.append(engine.sample())
        paths = [path for path in site.seen if path.startswith("/metrics")]
        assert paths
        assert [asked(path) for path in paths] == [set(), set(), set()]
        later = [again.signals for messages in usual for again in of(messages, SourceInfo)]
        assert all(signals == info.signals for signals in later), "it still delivers them"
        assert readings(usual[0]).keys().isdisjoint(names.RARE)
        assert readings(usual[0])["sched.finished"] == 143.0
        site.seen.clear()
        engine._whole_at -= 1
        engine._rare_at -= 5
        rare = readings(engine.sample())
        engine.close()
    assert any(asked(path) for path in site.seen)
    assert rare["kv.queries"] == 75324.0
    assert set(names.RARE) <= set(info.signals)
    assert info.period_by_signal == dict.fromkeys(names.RARE, 5.0)


def test_a_server_that_does_not_filter_is_read_whole_and_less_often() -> None:
    with Site({"/metrics": BURSTY, "/metrics/": BURSTY}) as site:
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        (info,) = of(engine.open(), SourceInfo)
        engine.boost(60)
        messages = engine.sample()
        engine.close()
    assert engine.period == 0.6
    assert "does not filter" in info.says
    assert "sequence cap" in info.unsupported["sched.limit"]
    assert readings(messages)["sched.running"] == 12.0


def test_log_stats_off_keeps_what_is_there_and_says_how_to_get_the_rest() -> None:
    text = "".join(line for line in BURSTY.splitlines(True) if "vllm:" not in line)
    with Site(site_of(text)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        messages = engine.open()
        engine.close()
    (info,) = of(messages, SourceInfo)
    assert "without" in info.says
    assert "--disable-log-stats" in info.says
    assert "--disable-log-stats" in info.unsupported["sched.running"]
    assert readings(messages).keys() == {"sched.http_requests", "latency.scrape"}


def test_several_api_servers_before_the_first_request() -> None:
    gauges = ("num_requests", "kv_cache_usage", "process_", "engine_sleep")
    text = "".join(line for line in BURSTY.splitlines(True) if not any(gauge in line for gauge in gauges))
    with Site(site_of(text)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        first = engine.open()
        site.routes.update(site_of(BURSTY.replace("process_start_time_seconds", "x")))  # type: ignore[arg-type]
        assert engine._known is not None
        engine._known.looked -= 10
        second = engine.sample()
        engine.close()
    assert "first request" in of(first, SourceInfo)[0].says
    assert "sched.running" not in readings(first)
    assert "step rates are too high" in of(second, SourceInfo)[0].says
    assert readings(second)["sched.running"] == 12.0


@pytest.mark.parametrize(
    ("replaced", "by"),
    [
        ("process_start_time_seconds 1.7959650592e+09", "process_start_time_seconds 1.7959999e+09"),
        ('vllm:generation_tokens_total{engine="0",model_name="tiny"} 16474.0', "vllm:generation_tokens_total 3"),
    ],
)
def test_a_restart_is_told_with_its_hole(replaced: str, by: str) -> None:
    assert replaced in BURSTY
    with Site(site_of(BURSTY)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        before = engine.open()
        site.routes.update(site_of(BURSTY.replace(replaced, by)))  # type: ignore[arg-type]
        engine._whole_at = 0.0  # as if half a second had passed
        after = engine.sample()
        calm = engine.sample()
        engine.close()
    (note,) = of(after, Note)
    (hole,) = of(after, Hole)
    assert note.what == "server_restarted"
    assert hole.start_ns == of(before, Batch)[0].times_ns[0]
    assert hole.end_ns < of(after, Batch)[0].times_ns[0], "read anew after it was seen"
    assert not of(calm, Note)
    assert not of(calm, Hole)


def test_a_failed_scrape_repeats_nothing_and_leaves_a_hole() -> None:
    with Site(site_of(BURSTY)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        before = engine.open()
        site.routes["/metrics/"] = site.routes["/metrics"] = "<html>"
        for _ in range(2):
            with pytest.raises(CollectorError):
                engine.sample()
        site.routes.update(site_of(BURSTY))  # type: ignore[arg-type]
        after = engine.sample()
        engine.close()
    (hole,) = of(after, Hole)
    assert hole.start_ns == of(before, Batch)[0].times_ns[0]
    assert hole.end_ns == of(after, Batch)[0].times_ns[0]
    assert not of(after, Note), "the same server"


def test_open_requests_are_read_only_where_they_are_counted() -> None:
    with Site(site_of(BURSTY)) as site:  # type: ignore[arg-type]
        for load in ("0", "5"):
            site.routes["/load"] = f'{{"server_load": {load}}}'
            site.seen.clear()
            engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
            engine.open()
            messages = [*engine.sample(), *engine.sample()]
            engine.close()
            asked = site.seen.count("/load")
            assert (asked, readings(messages).get("sched.in_flight")) == {"0": (1, None), "5": (3, 5.0)}[load]


def test_the_sequence_cap_counts_for_every_engine_core() -> None:
    with Site(site_of((DATA / "0.32_dp2.prom").read_text())) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm", sequence_cap=64), HttpOptions())
        got = readings(engine.open())
        engine.close()
    assert got["sched.limit"] == 128


def test_nothing_is_asked_that_makes_the_server_work() -> None:
    with Site(site_of(BURSTY)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        engine.open()
        engine.close()
    assert {path.partition("?")[0] for path in site.seen} <= {
        "/metrics",
        "/metrics/",
        "/version",
        "/v1/models",
        "/load",
    }


def test_untrusted_names_are_cleaned_for_people() -> None:
    text = BURSTY.replace('model_name="tiny"', 'model_name="[bold]x\x1b]0;pwned\x07"')
    with Site(site_of(text)) as site:  # type: ignore[arg-type]
        engine = VllmEngine(Server(site.url, "vllm"), HttpOptions())
        (info,) = of(engine.open(), SourceInfo)
        engine.close()
    assert info.entity["model"] == "[bold]x␛]0;pwned␇"
