"""The decision table "artefact or real?", one stream a row."""

from __future__ import annotations

import pytest

from gaptop.recording.lines import Event, Source
from gaptop.valleys import report, report_text
from gaptop.valleys.evidence import Evidence, Traffic
from gaptop.valleys.model import Verdict
from gaptop.valleys.verdict import judge, verdict

from .valley_boxcar import stream as boxcar
from .valley_server import BACK, END, LOW, engine, quiet_between, server, stopped_progress
from .valley_streams import ENGINE, GPU, Stream, analyse, only, stairs, total, valleys_of


def said(stream: Stream, kind: str = "utilisation") -> Verdict:
    return only(valleys_of(stream), kind=kind).verdict


def test_power_that_falls_while_utilisation_is_flat_is_no_valley() -> None:
    # A100: 181 W and 62 W in turn, an alias of 25 ms windows, while the duty cycle stays at 50 %.
    stream = Stream(40).device(stairs((0, 0.5)), power=lambda t: 181.0 if int(t / 1.6) % 2 else 62.0)
    _, found = analyse(stream.lines())
    assert (found.valleys, found.dips) == ((), ())
    assert len(found.plateaus) == 1


@pytest.mark.parametrize("why", ["", "NVML gives it for whole GPUs only: watch its slices"])
def test_a_device_with_power_only_has_no_valley_and_says_why(why: str) -> None:
    stream = Stream(30)
    stated = {"device.busy": why} if why else {}
    entity = {"uuid": "GPU-a", "name": "GPU", "kind2": "gpu", "index": 0, "pids": None}
    signals = ["device.power"]
    stream.host({"device.power": stairs((0, 300), (12, 60), (15, 300))}, source=GPU)
    stream.add(0.0, Source(0.0, GPU, "devices.nvml", "device", entity, signals, 0.25, unsupported=stated))
    timeline, found = analyse(stream.lines())
    assert (found.valleys, found.dips, found.ledger) == ((), (), ())
    assert bool(found.hints) == bool(why)
    assert all("utilisation N/A" in hint and why in hint for hint in found.hints)
    text = report_text.render(report.build(timeline, found, window=None), ascii=True, width=100)
    assert ("utilisation N/A" in text) == bool(why)


def idle_while_tokens_come(power: float | None) -> Stream:
    stream = Stream(END).device(quiet_between(1.0), power=None if power is None else quiet_between(300.0, power))
    return stream.metrics(server(sched__running=quiet_between(8)))


@pytest.mark.parametrize(
    ("power", "detail"), [(60.0, "device mapping"), (290.0, "idle reading"), (None, "idle reading")]
)
def test_a_device_that_reads_idle_while_tokens_come_is_an_artefact_and_never_no_demand(
    power: float | None, detail: str
) -> None:
    verdict = said(idle_while_tokens_come(power))
    assert verdict.cause == "artefact"
    assert verdict.detail.startswith(detail)
    assert "no_demand" in {item.cause for item in verdict.excluded}
    assert ("CUDA_VISIBLE_DEVICES" in verdict.advice) == (detail == "device mapping")


@pytest.mark.parametrize("length", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("phase", [0.0, 0.07, 0.15, 0.23, 0.31, 0.39, 0.47])
def test_a_short_gap_with_steady_tokens_is_real_whatever_its_phase_to_the_readings(length: float, phase: float) -> None:
    # Cards whose power is read four times a second: by phase it read 290, 100 or anything between in such a gap.
    gap = (LOW + phase, LOW + phase + length)
    busy = stairs((0, 1.0), (gap[0], 0.0), (gap[1], 1.0))
    power = stairs((0, 300.0), (gap[0], 100.0), (gap[1], 300.0))
    valley = only(valleys_of(Stream(END).device(busy, power=power).metrics(server())))
    verdict = valley.verdict
    assert (verdict.cause, verdict.detail, verdict.confidence) == ("unknown", "nothing fits", "low")
    assert any("tokens (read every 0.5 s) are too coarse" in text for text in verdict.unseen)
    assert valley.tokens_lost == 0.0
    assert valley.idle_s == pytest.approx(length, abs=0.01)


@pytest.mark.parametrize("power", [60.0, 290.0, None])
def test_what_a_hardware_counter_confirms_is_no_artefact(power: float | None) -> None:
    counter = {"device.graphics_active": quiet_between(0.9, 0.05)}
    watts = None if power is None else quiet_between(300.0, power)
    valley = only(valleys_of(Stream(END).device(quiet_between(1.0), power=watts, more=counter).metrics(server())))
    assert valley.verdict.cause == "unknown"
    (said_of,) = [item.because for item in valley.verdict.excluded if item.cause == "artefact"]
    assert "device.graphics_active" in said_of


def test_power_that_is_read_too_seldom_judges_nothing() -> None:
    seen = {"busy": 0.0, "busy_level": 1.0, "decode_rate": 800.0, "decode_before": 800.0, "tokens_every": 0.5}
    seldom = Evidence("utilisation", "vllm", 0.0, 3.0, power_ratio=1.0, power_every=2.0, **seen)  # type: ignore[arg-type]
    often = Evidence("utilisation", "vllm", 0.0, 3.0, power_ratio=1.0, power_every=1.0, **seen)  # type: ignore[arg-type]
    assert [judge(item)[0].cause for item in (seldom, often)] == ["unknown", "artefact"]


def test_a_device_that_never_worked_while_tokens_come_is_said_to_be_the_wrong_one() -> None:
    _, found = analyse(Stream(20).device(stairs((0, 0.0))).metrics(server()).lines())
    assert found.valleys == ()
    assert [hint for hint in found.hints if "mapping of server to device is wrong" in hint]
    _, found = analyse(Stream(20).device(stairs((0, 0.9))).metrics(server()).lines())
    assert found.hints == ()


def test_full_load_at_idle_power_without_a_request_is_phantom_busy() -> None:
    stream = Stream(30).device(stairs((0, 1.0)), power=stairs((0, 300), (8, 60)))
    stream.metrics(server(sched__running=stairs((0, 8), (8, 0)), tokens__decode=total((0, 800), (8, 0))))
    _, found = analyse(stream.lines())
    (hint,) = [item for item in found.hints if "phantom busy" in item]
    assert "60 W" in hint
    assert "has drawn 300 W" in hint


def test_a_stale_gauge_beside_a_device_at_idle_power_is_phantom_busy() -> None:
    stream = Stream(40).device(stairs((0, 1.0)), power=stairs((0, 300), (12, 70), (30, 300)))
    stopped = {key: total((0, 100), (12, 0), (30, 100)) for key in ("tokens__decode", "step__count")}
    stream.metrics(server(**stopped))
    stream.stacks(ENGINE, "engine", lambda t: "await_requests" if 12 <= t < 30 else "device_sync")
    verdict = said(stream, "progress")
    assert verdict.cause == "artefact"
    assert verdict.detail.startswith("phantom busy")


def stalled(**more: float | None) -> Evidence:
    seen = {"busy": 1.0, "busy_level": 1.0, "decode_rate": 0.0, "decode_before": 800.0, "step_rate": 0.0} | more
    return Evidence("progress", "vllm", 10.0, 16.0, step_before=100.0, prompt_rate=0.0, prompt_before=0.0, **seen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "least", "most"),
    [
        ({"power_ratio": 0.3}, 0.95, 1.0),
        ({"power_ratio": 0.5}, 0.85, 0.94),
        ({"power_ratio": 0.5, "sm_ratio": 0.1}, 0.95, 1.0),
        ({"power_ratio": 0.95, "dram_ratio": 0.02}, 0.85, 0.94),
        ({"sm_ratio": 0.05}, 0.85, 0.94),
        ({"power_ratio": 0.95, "sm_ratio": 0.9, "dram_ratio": 0.9}, 0.5, 0.84),
        ({}, 0.4, 0.84),
    ],
)
def test_counters_at_rest_make_a_busy_standstill_surer(seen: dict[str, float], least: float, most: float) -> None:
    best = judge(stalled(**seen))[0]
    assert best.cause == "stalled_busy"
    assert least <= best.score <= most


def test_a_throttle_is_named_by_its_reason() -> None:
    grown = {"device.limit_seconds{reason=hw_power_brake}": total((0, 0), (LOW, 0.9), (BACK, 0))}
    stream = Stream(END).device(quiet_between(1.0, 0.6), more=grown)
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 200), (BACK, 800))))
    verdict = said(stream, "progress")
    assert (verdict.cause, verdict.detail) == ("device_limit", "hw power brake")


@pytest.mark.parametrize(("rate", "cause"), [(20e9, "synchronisation"), (0.2e9, "unknown")])
def test_many_bytes_over_pcie_during_a_valley_are_a_transfer(rate: float, cause: str) -> None:
    stream = Stream(END).device(quiet_between(1.0), more={"device.pcie_rx": total((0, 1e8), (LOW, rate), (BACK, 1e8))})
    stream.metrics(server(**stopped_progress()))
    verdict = said(stream)
    assert verdict.cause == cause
    assert (verdict.detail == "transfer") == (cause == "synchronisation")
    if cause == "synchronisation":
        assert any("GB/s to the device over PCIe" in fact.says for fact in verdict.evidence)


def test_traffic_that_is_usual_is_no_transfer() -> None:
    steady = Traffic("device.pcie_tx", "from the device over PCIe", 20e9, 19e9)
    evidence = Evidence("utilisation", "vllm", 0.0, 3.0, busy=0.0, busy_level=1.0, moved=steady)
    assert all(item.score == 0.0 for item in judge(evidence) if item.cause == "synchronisation")


def ranks(idle: int, busy: int) -> str:
    stream = Stream(END)
    for index in range(idle + busy):
        stream.device(quiet_between(1.0) if index < idle else stairs((0, 1.0)), source=f"nvml/GPU-{index}")
    stream.metrics(server(**stopped_progress()))
    found = said(stream)
    assert found.cause == "synchronisation"
    return found.detail


def test_one_rank_that_idles_and_one_that_works_alone_are_told_apart() -> None:
    assert ranks(1, 3) == "collective: this rank idles while the others spin"
    assert ranks(3, 1) == "collective: a rank works alone while the others wait for it"


def test_all_ranks_that_idle_are_no_straggler() -> None:
    stream = Stream(END)
    for index in range(4):
        stream.device(quiet_between(1.0), source=f"nvml/GPU-{index}")
    stream.metrics(server(**stopped_progress())).stacks(ENGINE, "engine", engine("schedule"))
    assert said(stream).cause == "host_starvation"


def test_a_process_of_somebody_else_that_appears_is_a_co_tenant() -> None:
    stream = Stream(END).device(stairs((0, 1.0)), more={"device.foreign_processes": quiet_between(0.0, 1.0)})
    stream.metrics(server(tokens__decode=total((0, 800), (LOW, 200), (BACK, 800))))
    assert (said(stream, "progress").cause, said(stream, "progress").detail) == ("device_limit", "co-tenant")


@pytest.mark.parametrize(("at", "coincides"), [(13.0, True), (LOW + 0.1, True), (6.0, False), (20.0, False)])
def test_a_valley_beside_our_own_slow_call_says_so_and_is_never_sure(at: float, coincides: bool) -> None:
    stream = Stream(END).device(quiet_between(1.0), power=quiet_between(300, 60))
    stream.metrics(server(sched__running=quiet_between(8), **stopped_progress()))
    stream.stacks(100, "api", lambda t: "idle").stacks(ENGINE, "engine", engine("await_requests"))
    stream.add(at, Event(at, "our_slow_call", "slow", None, {"collector": "devices.nvml", "seconds": 0.06}))
    found = said(stream)
    assert found.cause == "no_demand"
    assert (found.confidence == "high") is not coincides
    assert any("gaptop's own call" in text for text in found.unseen) is coincides


def test_our_own_calls_that_took_much_of_the_time_count_as_well() -> None:
    evidence = Evidence("utilisation", "vllm", 0.0, 3.0, busy=0.0, busy_level=1.0, own_share=0.2)
    assert any("gaptop's own call" in text for text in verdict(evidence, (), confirmed=True).unseen)


def test_a_slice_is_judged_by_its_own_window() -> None:
    # GPM's 200 ms beside a source whose other windows are longer.
    slice_of = {"parent": "GPU-a", "slice": "1g.10gb"}
    stated = {"window": 1.0, "window_by_signal": {"device.busy": 0.2}, "refresh": "gpm", "rounding": ""}
    stream = Stream(24).device(
        stairs((0, 0.9), (12, 0.0), (12.6, 0.9)), source="nvml/MIG-1", info=stated, entity=slice_of
    )
    parent = {"uuid": "GPU-a", "name": "H100", "kind2": "gpu", "index": 0, "pids": None}
    why = {"device.busy": "MIG is on: each of its slices has its own"}
    stream.add(0.0, Source(0.0, "nvml/GPU-a", "c", "device", parent, ["device.power"], 0.25, unsupported=why))
    timeline, found = analyse(stream.lines())
    (valley,) = found.valleys
    assert valley.devices == ("MIG-1",)
    assert valley.start_error_s == pytest.approx(0.2)
    assert valley.idle_s == pytest.approx(0.6, abs=0.05)
    assert {row.device for row in found.ledger} == {"MIG-1"}
    assert found.hints == ()
    made = report.build(timeline, found, window=None)["source"]["devices"]
    assert [(item["uuid"], item["parent"], item["slice"], item["busy_unsupported"]) for item in made] == [
        ("GPU-a", None, None, why["device.busy"]),
        ("MIG-1", "GPU-a", "1g.10gb", None),
    ]


def test_dips_are_in_the_report_and_one_line_a_device_in_its_text() -> None:
    timeline, found = analyse(boxcar([(9.05, 9.15), (11.05, 11.15)], 20.0, 0.2, "nearest", "nearest"))
    made = report.build(timeline, found, window=None)
    assert [item["idle_s"] for item in made["dips"]] == [0.1, 0.1]
    assert made["dips"][0]["longest_gap_s"] == [0.0, 0.102]
    text = report_text.render(made, ascii=True, width=100)
    assert "GPU: 2 dips, idle 0.20 +/-0.00 s; suspected: one signal alone" in text
    cut = report.build(timeline, found, window=(0.0, 10.0))
    assert [item["dips"] for item in cut["dip_counts"]] == [1]
