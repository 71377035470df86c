"""The sub-causes that lie outside the scheduler: compilers, storage, adapters, the device's limits, artefacts."""

from __future__ import annotations

import pytest

from gaptop.valleys.model import Verdict

from .case_streams import does, level, rate
from .valley_host import run_states
from .valley_server import BACK, END, LOW, quiet_between, server, stopped_progress
from .valley_streams import API, ENGINE, Curve, Stream, only, stairs, total, valleys_of

WORKER_FILE = "vllm/v1/worker/gpu_model_runner.py"
W = "external_wait"


def said(stream: Stream, kind: str = "utilisation") -> Verdict:
    return only(valleys_of(stream), kind=kind).verdict


def framed(activity: str, function: str, file: str, engine: str = "vllm") -> Stream:
    """A standstill in ``activity``, called from ``function``."""
    stream = Stream(END, engine=engine, outer={activity: (function, file)}).device(quiet_between(1.0))
    stream.metrics(server(**stopped_progress())).stacks(API, "api", lambda t: "idle")
    return stream.stacks(ENGINE, "engine", does(activity))


@pytest.mark.parametrize(
    ("stream", "cause", "detail", "advises"),
    [
        (framed("compile", "capture_model", WORKER_FILE), "compiling", "graph capture", "cudagraph_capture_sizes"),
        (framed("compile", "_capture_cudagraphs", "x.py", "trtllm"), "compiling", "graph capture", "batch sizes"),
        (framed("compile", "kernel_warmup", "model_runner.py", "sglang"), "compiling", "warm-up", "readiness probe"),
        (framed("compile", "compile", "triton/compiler/compiler.py"), "compiling", "JIT", "compile cache"),
        (framed("other", "wake_up", "vllm/v1/worker/gpu_worker.py"), "compiling", "sleep-wake", "Wake the engine up"),
        (
            framed("load", "_load_adapter", "vllm/lora/worker_manager.py"),
            "external_wait",
            "adapter load",
            "--max-loras",
        ),
        (
            framed("load", "load_lora", "lora_manager.py", "sglang"),
            "external_wait",
            "adapter load",
            "max-loras-per-batch",
        ),
        (
            framed("load", "load_weights", "vllm/model_executor/x.py"),
            "external_wait",
            "adapter or weights load",
            "adapters",
        ),
    ],
)
def test_the_frames_around_tell_what_was_compiled_or_loaded(
    stream: Stream, cause: str, detail: str, advises: str
) -> None:
    verdict = said(stream)
    assert (verdict.cause, verdict.detail) == (cause, detail)
    assert advises in verdict.advice


def test_frames_of_ordinary_code_are_not_an_adapters_load() -> None:
    outer = {"load": ("load_weights", "x.py"), "other": ("apply", "vllm/lora/layers/base.py")}
    stream = Stream(END, outer=outer).device(quiet_between(1.0)).metrics(server(**stopped_progress()))
    stream.stacks(ENGINE, "engine", lambda t: "load" if t % 0.5 < 0.25 else "other")
    assert said(stream).detail == "adapter or weights load"


def test_a_restart_makes_loading_the_start_up() -> None:
    stream = framed("load", "load_model", "vllm/v1/worker/gpu_worker.py").event(LOW - 1.0, "server_restarted")
    assert (said(stream).cause, said(stream).detail) == ("compiling", "start-up")


def test_the_first_step_after_a_sleep_is_part_of_the_wake_up() -> None:
    stream = Stream(40).device(stairs((0, 1.0), (12, 0.0), (24, 1.0)))
    curves = server(
        sched__running=stairs((0, 8), (12, 0), (20, 4), (24, 8)),
        sched__sleeping=stairs((0, 0), (12, 1), (20, 0)),
        tokens__decode=total((0, 800), (12, 0), (24, 800)),
        step__count=total((0, 100), (12, 0), (24, 100)),
    )
    parts = said(stream.metrics(curves).stacks(API, "api", lambda t: "idle")).segments
    assert [(part.cause, round(part.start_s)) for part in parts[:2]] == [("no_demand", 12), ("compiling", 20)]
    assert parts[1].end_s > 23.0


def test_page_faults_that_read_storage_are_paging() -> None:
    stream = framed("other", "read", "x.py")
    stream.host({f"host.major_faults{{pid={ENGINE}}}": rate(1, 900)})
    verdict = said(stream)
    assert (verdict.cause, verdict.detail) == ("external_wait", "paging")
    assert "memory" in verdict.advice


@pytest.mark.parametrize(("disk", "activity", "cause"), [(0.9, "other", "external_wait"), (0.0, "idle", "unknown")])
def test_page_faults_that_the_engine_did_not_wait_for_are_not_its_cause(disk: float, activity: str, cause: str) -> None:
    states = {"running": level(0.3, 0.05), "disk": level(0.0, disk)}
    stream = run_states(framed(activity, "x", "x.py"), ENGINE, "engine", **states)
    verdict = said(stream.host({f"host.major_faults{{pid={ENGINE}}}": rate(1, 900)}))
    assert (verdict.cause, verdict.detail == "paging") == (cause, cause == "external_wait")


def test_page_faults_as_many_as_ever_are_no_cause() -> None:
    stream = framed("idle", "read", "x.py").host({f"host.major_faults{{pid={ENGINE}}}": total((0, 900))})
    assert said(stream).cause != "external_wait"


@pytest.mark.parametrize(
    ("reason", "advises"),
    [
        ("sw_power_cap", "nvidia-smi -pl"),
        ("hw_power_brake_slowdown", "nvidia-smi -pl"),
        ("hw_thermal_slowdown", "Cool the device"),
        ("sw_thermal_slowdown", "Cool the device"),
        ("hw_slowdown", "stuck clock"),
    ],
)
def test_each_limit_has_its_remedy(reason: str, advises: str) -> None:
    slower = server(tokens__decode=rate(800, 200), step__count=rate(100, 25), tokens__prompt=rate(100, 25))
    limit = {f"device.limit_seconds{{reason={reason}}}": rate(0.0, 0.9)}
    verdict = said(Stream(END).device(quiet_between(1.0, 0.7), more=limit).metrics(slower), "progress")
    assert (verdict.cause, verdict.detail) == ("device_limit", reason.replace("_", " "))
    assert advises in verdict.advice


def test_a_co_tenant_has_its_remedy() -> None:
    slower = server(tokens__decode=rate(800, 200), step__count=rate(100, 25), tokens__prompt=rate(100, 25))
    more = {"device.foreign_processes": level(0.0, 1.0)}
    verdict = said(Stream(END).device(stairs((0, 1.0)), more=more).metrics(slower), "progress")
    assert (verdict.detail, "MIG" in verdict.advice) == ("co-tenant", True)


@pytest.mark.parametrize("power", [None, quiet_between(300.0, 290.0), quiet_between(300.0, 60.0)])
def test_a_reading_that_falls_alone_beside_steady_counters_is_window_aliasing(
    power: Curve | None,
) -> None:
    more = {"device.sm_active": stairs((0, 0.6)), "device.dram_active": stairs((0, 0.5))}
    verdict = said(Stream(END).device(quiet_between(1.0), power=power, more=more).metrics(server()))
    assert (verdict.cause, verdict.detail.partition(":")[0]) == ("artefact", "window aliasing")
    assert "Believe the counters" in verdict.advice


def test_our_own_call_is_told_as_such() -> None:
    stream = Stream(END).device(quiet_between(1.0), more={"device.own_calls": total((0, 0), (LOW, 0.4), (BACK, 0))})
    verdict = said(stream.metrics(server()))
    assert (verdict.cause, verdict.detail) == ("artefact", "our own call")
    assert "gaptop's own call" in verdict.advice
