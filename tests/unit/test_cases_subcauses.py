"""The sub-causes of the engine's own causes, each reached from what an engine or a host really tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gaptop.recording.lines import Line, Source
from gaptop.valleys.model import Cause, Verdict

from .case_streams import does, level, rate
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, METRICS, WORKER, Curve, Stream, analyse, only, stairs, total, valleys_of


def said(stream: Stream, kind: str = "utilisation") -> Verdict:
    return only(valleys_of(stream), kind=kind).verdict


def told(stream: Stream, activity: str = "worker_wait") -> Stream:
    """With an idle front end and an engine's thread that does ``activity`` meanwhile."""
    return stream.stacks(API, "api", lambda t: "idle").stacks(ENGINE, "engine", does(activity))


def idling(activity: str = "worker_wait", engine: str = "vllm", **changes: Curve) -> Stream:
    """A device that idles while decode stands still."""
    stream = Stream(END, engine=engine).device(quiet_between(1.0))
    return told(stream.metrics(server(**{**stopped_progress(), **changes})), activity)


def draining(each: float) -> Stream:
    """A batch that empties while others wait: 8, 5, 3, 1 requests, each at a share of its speed."""
    sizes = ((0.0, 8.0), (LOW, 5.0), (LOW + 1, 3.0), (LOW + 2, 1.0), (BACK, 8.0))
    rates = [(t, 100 * size * (each if t in (LOW, LOW + 1, LOW + 2) else 1.0)) for t, size in sizes]
    stream = Stream(END).device(stairs((0, 1.0), (LOW, 0.45), (LOW + 1, 0.3), (LOW + 2, 0.1), (BACK, 1.0)))
    curves = server(
        sched__running=stairs(*sizes),
        sched__waiting=stairs((0, 10)),
        tokens__decode=total(*rates),
    )
    return told(stream.metrics(curves))


def capped() -> Stream:
    full = {"sched__running": stairs((0, 64)), "sched__waiting": level(0, 20)}
    stream = Stream(END).device(quiet_between(1.0, 0.3))
    return told(stream.metrics(server(**full, tokens__decode=rate(6400, 4000), step__count=rate(100, 62))))


def handed_over(how: str) -> Stream:
    """A prompt of 20 000 tokens was computed elsewhere; decode waits for its KV."""
    prompts = total((0, 100), (LOW, 0), (BACK - 0.4, 100_000), (BACK - 0.2, 100))
    more = {"device.nvlink_rx": rate(1e6, 20e9)} if how == "traffic" else None
    stream = Stream(END).device(quiet_between(1.0), more=more)
    if how == "peer":
        stream.device(stairs((0, 1.0)), source="nvml/GPU-b")
    curves = server(**{**stopped_progress(), "tokens__prompt": prompts})
    return told(stream.metrics(curves), "kv_transfer" if how == "frames" else "worker_wait")


def evicting(hits: float) -> Stream:
    cache = {"kv.queries": rate(5000, 8000), "kv.hits": rate(4000, hits)}
    stream = Stream(END).device(stairs((0, 1.0)))
    curves = server(
        kv__used=stairs((0, 0.93)),
        tokens__prompt=rate(400, 6000),
        tokens__decode=rate(800, 200),
        step__count=rate(100, 25),
    )
    return told(stream.metrics({**curves, **cache}), "device_sync")


@pytest.mark.parametrize(
    ("stream", "cause", "detail", "advises"),
    [
        (draining(1.0), "admission_stall", "batch boundary (static membership)", "continuous batching"),
        (capped(), "admission_stall", "sequence cap", "--max-num-seqs"),
        (handed_over("frames"), "prefill_interference", "prefill/decode hand-over", "overlap the transfer"),
        (handed_over("traffic"), "prefill_interference", "prefill/decode hand-over", "overlap the transfer"),
        (handed_over("peer"), "prefill_interference", "prefill/decode hand-over", "overlap the transfer"),
    ],
)
def test_a_sub_cause_of_the_scheduler(stream: Stream, cause: Cause, detail: str, advises: str) -> None:
    verdict = said(stream)
    assert (verdict.cause, verdict.detail) == (cause, detail)
    assert verdict.confidence != "low"
    assert {part.cause for part in verdict.segments} == {cause}
    assert advises in verdict.advice
    assert "will not help" in verdict.advice


def test_a_batch_that_drains_slowly_is_no_sure_batch_boundary() -> None:
    assert said(draining(0.4)).confidence != "high"


def test_lost_prefixes_are_an_eviction_and_a_lasting_hit_ratio_is_none() -> None:
    verdict = said(evicting(800), "progress")
    assert (verdict.cause, verdict.detail) == ("cache_pressure", "eviction")
    assert any(fact.signal == "kv.hits" and (fact.value or 0.0) < 0.15 for fact in verdict.evidence)
    assert any("whether the prompts were new" in text for text in verdict.unseen)
    assert said(evicting(6400), "progress").cause == "prefill_interference"


def test_counters_that_are_read_every_five_seconds_tell_no_eviction_of_three() -> None:
    lines = evicting(800).lines()
    rare = {"kv.hits": 5.0, "kv.queries": 5.0}

    def slowly(line: Line) -> Line:
        if isinstance(line, Source) and line.id == METRICS:
            return replace(line, period_by_signal=rare)
        return line

    seen = [slowly(line) for line in lines]
    valley = only(analyse(seen)[1].valleys, kind="progress")
    assert valley.verdict.cause == "prefill_interference"


def test_a_chunk_that_is_too_large_slows_decode_without_stopping_it() -> None:
    stream = Stream(END).device(stairs((0, 1.0)))
    curves = server(tokens__decode=rate(800, 380), step__count=rate(100, 48), tokens__prompt=rate(100, 900))
    verdict = said(told(stream.metrics(curves), "device_sync"), "progress")
    assert (verdict.cause, verdict.detail) == ("prefill_interference", "chunk too large")


@pytest.mark.parametrize(
    ("activity", "detail", "engine", "advises"),
    [
        ("schedule", "scheduling", "vllm", "core"),
        ("prepare_batch", "batch preparation", "sglang", "--disable-overlap-schedule"),
        ("sample", "sampling", "vllm", "core"),
        ("detokenize", "detokenise", "vllm", "core"),
        ("grammar", "grammar", "sglang", "--grammar-backend"),
        ("log", "logging", "vllm", "--disable-uvicorn-access-log"),
        ("gc", "GC", "lmdeploy", "gc.freeze()"),
        ("launch", "launching kernels", "trtllm", "core"),
    ],
)
def test_what_the_host_did_is_its_sub_cause(activity: str, detail: str, engine: str, advises: str) -> None:
    stream = idling(activity, engine).states(ENGINE, "engine", stairs((0, 1.0)))
    verdict = said(stream)
    assert (verdict.cause, verdict.detail) == ("host_starvation", detail)
    assert advises in verdict.advice


@pytest.mark.parametrize(
    ("activity", "detail"),
    [("device_sync", "device sync"), ("copy", "blocking copy"), ("collective", "collective: a rank is waited for")],
)
def test_what_a_thread_waited_in_is_its_sub_cause(activity: str, detail: str) -> None:
    stream = idling().stacks(WORKER, "worker", does(activity))
    assert (said(stream).cause, said(stream).detail) == ("synchronisation", detail)


def offloading(cores: float, *, tokens: float = 4.6, power: Curve | None = None) -> Stream:
    """llama.cpp that decodes with layers on the host: 15 % of the device, 4.6 tokens a second, its cores at work."""
    stream = Stream(END, engine="llamacpp").device(quiet_between(0.9, 0.15), power=power)
    stream.metrics(
        {
            "sched.running": stairs((0, 1)),
            "sched.limit": stairs((0, 4)),
            "tokens.decode": rate(20, tokens),
            "step.count": rate(20, tokens),
        }
    )
    return stream.host({f"host.cpu_seconds{{pid={ENGINE}}}": rate(1.0, cores)})


def test_layers_on_the_host_are_an_offload() -> None:
    verdict = said(offloading(7.6))
    assert (verdict.cause, verdict.detail) == ("host_starvation", "offload")
    assert "--n-gpu-layers" in verdict.advice
    assert said(offloading(1.0)).cause == "unknown"


def test_a_host_that_computes_beside_an_idle_device_is_no_wrong_mapping() -> None:
    stream = offloading(7.6, tokens=20.0, power=quiet_between(300.0, 90.0))
    verdict = said(stream)
    assert verdict.detail == "offload"
    assert "artefact" in {item.cause for item in verdict.excluded}
