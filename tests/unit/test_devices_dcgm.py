"""A dcgm-exporter as a device: only new collections are readings, each over what it really covers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptop_collectors.collector import Batch, CollectorError, Delivered
from gaptop_collectors.devices.dcgm import DcgmExporter
from gaptop_collectors.target import HttpOptions
from tests.fakes.dcgm import LABELS, UUID, exposition
from tests.fakes.dcgm_scrapes import EPOCH, S, Scripted, Watched, collected, scripted, sources

DATA = Path(__file__).parent.parent / "data" / "dcgm"
GR, UTIL = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"


@pytest.fixture(autouse=True)
def _scripted() -> Iterator[None]:
    with scripted():
        yield


def gpu(n: int, **fields: float | str) -> str:
    return exposition({ENERGY: 1000 * n, POWER: 300.0 + n % 7, **fields})


def test_a_profiling_field_is_a_window_of_the_measured_period() -> None:
    watched = Watched().run(300, collected(30, lambda n: gpu(n, **{GR: 0.5 + n / 100})))
    info = watched.infos()[-1]
    assert info.window == pytest.approx(30, rel=0.1)
    assert info.window_measured
    assert info.entity == {"uuid": UUID, "name": "NVIDIA H100 80GB HBM3", "kind2": "gpu", "index": 0, "pids": None}
    assert info.source == f"dcgm/{UUID}"
    assert "every 30 s (measured): a gap shorter than that shows only as a lower mean" in info.says
    busy = watched.readings("device.busy")
    assert len(busy) >= 7
    assert [value for _, value in busy] == pytest.approx([0.5 + n / 100 for n in range(11)][-len(busy) :], abs=1e-6)
    steps = [later - earlier for (earlier, _), (later, _) in zip(busy, busy[1:], strict=False)]
    assert all(30 - 5.1 <= step <= 30 + 5.1 for step in steps)
    assert max(watched.polls) == 5.0


def test_before_the_period_is_known_no_mean_is_given_out() -> None:
    watched = Watched().run(25, collected(30, lambda n: gpu(n, **{GR: 0.5 + n / 100})))
    assert watched.readings("device.power")  # the one collection in that time
    assert watched.readings("device.busy") == []
    assert not watched.infos()[-1].window_measured
    assert "not known yet" in watched.infos()[-1].says


def test_a_value_that_was_there_before_is_never_given_out() -> None:
    watched = Watched().run(20, lambda now: gpu(1, **{GR: 0.5, UTIL: 50}))
    assert [one for one in watched.messages if isinstance(one, Batch)] == []
    assert watched.infos()


@pytest.mark.parametrize("period", [1.0, 5.0, 30.0])
def test_each_collection_is_given_out_once(period: float) -> None:
    watched = Watched().run(40 * period, collected(period, lambda n: gpu(n)))
    energy = [value for _, value in watched.readings("device.energy")]
    assert len(energy) >= 38
    assert energy == sorted(set(energy))  # type: ignore[type-var]


def test_gpu_util_is_a_short_window_with_nothing_known_between() -> None:
    watched = Watched().run(300, collected(30, lambda n: gpu(n, **{UTIL: n % 3 * 40})))
    info = watched.infos()[-1]
    assert (info.window, info.window_measured, info.rounding) == (0.2, False, "percent")
    assert info.period == pytest.approx(30, rel=0.1)
    assert "valleys cannot be found from it unless the period is short" in info.says
    assert {value for _, value in watched.readings("device.busy")} == {0.0, 0.4, 0.8}
    assert "device.graphics_active" in info.unsupported


def test_a_profiling_field_that_comes_late_takes_over_and_stays() -> None:
    def body(n: int) -> str:
        return gpu(n, **{UTIL: 10}) if n < 3 or n > 8 else gpu(n, **{UTIL: 10, GR: 0.9})

    watched = Watched().run(150, collected(10, body))
    values = [value for _, value in watched.readings("device.busy")]
    assert values[0] == 0.1
    assert 0.9 in values
    assert values == sorted(values, key=lambda value: value or 0)  # never back to the other field
    assert watched.infos()[-1].window == pytest.approx(10, rel=0.1)


def test_zero_is_new_with_each_collection_but_a_broken_number_is_not() -> None:
    idle = Watched().run(200, collected(5, lambda n: gpu(n, **{GR: 0.0})))
    assert len(idle.readings("device.busy")) >= 30
    stuck = Watched().run(200, collected(5, lambda n: gpu(n, **{GR: 0.734512})))
    assert stuck.readings("device.busy") == []


def test_values_on_two_clocks_are_each_new_once() -> None:
    """Before Hopper the profiling fields are collected at other moments than the driver's."""

    def body(now: float) -> str:
        return gpu(int(now / 10), **{GR: 0.5 + int(now / 10 + 0.5) / 1000})

    watched = Watched().run(400, body)
    assert watched.infos()[-1].window == pytest.approx(10, rel=0.1)
    for key in ("device.energy", "device.busy"):
        values = [value for _, value in watched.readings(key)]
        assert len(values) >= 34
        assert len(values) == len(set(values))


def test_the_watermark_waits_for_the_next_mean_and_never_runs_ahead() -> None:
    watched = Watched().run(300, collected(30, lambda n: gpu(n, **{GR: 0.5 + n / 100})))
    reached = 0
    for one in watched.messages:
        if isinstance(one, Batch):
            assert one.times_ns[0] > reached
        elif isinstance(one, Delivered):
            reached = max(reached, one.time_ns)
    assert reached == EPOCH + round(watched.readings("device.busy")[-1][0] * S)


def test_a_3_3_body() -> None:
    text = (DATA / "3.3.txt").read_text()
    watched = Watched().run(90, collected(5, lambda n: text.replace("7412345678", str(7412345678 + n))))
    (source,) = sources(watched.messages)
    assert source == "dcgm/GPU-00000000-aaaa-0000-0000-000000000000"
    expected = {
        "device.busy": 0.87,
        "device.memory_busy": 0.4,
        "device.power": 212.64,
        "device.clock_sm": 1.41e9,
        "device.clock_memory": 1.215e9,
        "device.temperature": 41,
        "device.memory_used": 37000 * 2**20,
        "device.limit_seconds{reason=sw_power_cap}": 2.5,
    }
    for key, value in expected.items():
        assert watched.readings(key)[-1][1] == pytest.approx(value), key
    assert watched.readings("device.energy")[0][1] == pytest.approx(7412345.678, abs=0.1)
    info = watched.infos()[-1]
    assert set(info.signals).isdisjoint(info.unsupported)
    assert "device.nvlink_rx" in info.unsupported
    assert "device.memory_total" in info.unsupported  # driver before 510: the reserved part is not told
    assert "DCGM_FI_PROF_SM_ACTIVE: add its line to the counters file" in info.unsupported["device.sm_active"]
    assert "one period late" in info.says
    assert info.error > info.period


def test_a_4_8_body_with_mig_slices() -> None:
    text = (DATA / "4.8.txt").read_text()

    def body(n: int) -> str:
        return text.replace("2147483632000", str(2147483632000 + n)).replace("0.500000", f"0.{500000 + n}")

    watched = Watched().run(120, collected(5, body))
    whole, parent = "GPU-11111111-bbbb-0000-0000-000000000000", "GPU-22222222-bbbb-0000-0000-000000000000"
    seven, eight = f"{parent}/gi7", f"{parent}/gi8"
    assert sources(watched.messages) == {f"dcgm/{one}" for one in (whole, parent, seven, eight)}
    (slice_info,) = watched.infos("gi7")[-1:]
    assert slice_info.entity["parent"] == parent
    assert slice_info.entity["slice"] == "1g.10gb"
    assert "device.power" not in slice_info.signals
    assert "whole GPU only" in slice_info.unsupported["device.power"]
    assert watched.readings("device.busy", "gi7")[-1][1] == pytest.approx(0.5, abs=0.001)
    assert {value for _, value in watched.readings("device.busy", "gi8")} == {0.0}
    assert len(watched.readings("device.busy", "gi8")) > 15
    assert watched.readings("device.busy", parent) == []
    (parent_info,) = watched.infos(parent)[-1:]
    assert "MIG is on" in parent_info.unsupported["device.busy"]
    assert "device.power" in parent_info.signals
    assert watched.readings("device.memory_total", whole)[-1][1] == (9000 + 71000 + 1559) * 2**20
    assert watched.readings("device.busy", whole) == []  # its mean never moved, so it was never collected
    assert "late" not in slice_info.says
    assert watched.notes("xid") == []  # Xid 31 was there before gaptop looked


def test_a_gpu_whose_mig_mode_is_turned_on_has_no_utilisation_of_its_own_any_more() -> None:
    sliced = LABELS + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'

    def body(n: int) -> str:
        return gpu(n, **{UTIL: 40}) if n < 8 else exposition({ENERGY: 1000 * n, UTIL: 0, GR: n / 100}, sliced)

    watched = Watched().run(100, collected(5, body))
    assert {value for _, value in watched.readings("device.busy", UUID)} == {0.4}
    assert "MIG is on" in watched.infos(UUID)[-1].unsupported["device.busy"]
    assert len(watched.readings("device.busy", "gi7")) > 8


def test_a_new_xid_is_told_once() -> None:
    watched = Watched().run(60, collected(5, lambda n: gpu(n, DCGM_FI_DEV_XID_ERRORS=0 if n < 6 else 79)))
    (note,) = watched.notes("xid")
    assert note.data == {"xid": 79}


def test_a_gpu_that_goes_and_comes_back() -> None:
    other = LABELS.replace('gpu="0"', 'gpu="1"').replace(UUID, "GPU-other")

    def body(n: int) -> str:
        both = exposition({ENERGY: 500 * n}, other)
        return both if 8 <= n < 14 else gpu(n) + both

    watched = Watched().run(120, collected(5, body))
    assert len(watched.notes("gpu_lost")) == len(watched.notes("gpu_back")) == 1
    lost, back = watched.notes("gpu_lost")[0].time_ns, watched.notes("gpu_back")[0].time_ns
    missing = [one for one in watched.holes() if one.source == f"dcgm/{UUID}"]
    assert missing[0].start_ns < lost
    assert missing[-1].end_ns == back
    assert all(earlier.end_ns == later.start_ns for earlier, later in zip(missing, missing[1:], strict=False))
    inside = [at for at, _ in watched.readings("device.energy", UUID) if lost < EPOCH + at * S < back]
    assert inside == []
    assert watched.readings("device.energy", UUID)[-1][0] * S + EPOCH > back
    assert [one for one in watched.holes() if "other" in one.source] == []


def test_a_gpu_that_appears_later_is_a_source_from_then_on() -> None:
    other = LABELS.replace(UUID, "GPU-late")
    watched = Watched().run(90, collected(5, lambda n: gpu(n) + (exposition({ENERGY: n}, other) if n > 8 else "")))
    assert len(sources(watched.messages)) == 2
    assert all(at > 40 for at, _ in watched.readings("device.energy", "GPU-late"))


def test_a_restart_leaves_a_hole_and_what_comes_after_is_not_compared_with_before() -> None:
    watched = Watched().run(60, collected(5, lambda n: gpu(n)))
    before = len(watched.readings("device.energy"))
    watched.run(20, lambda now: CollectorError("Nothing listens there, so the engine …", state="absent"))
    assert watched.errors[0].state == "absent"
    at = watched.wire.now
    watched.run(40, lambda now: gpu(1000 + int((now - at - 2) / 5)))
    (hole,) = watched.holes()
    assert hole.end_ns == EPOCH + round(at * S)
    assert watched.readings("device.energy")[before][0] > at + 1


@pytest.mark.parametrize(
    ("said", "state", "words"),
    [
        (401, "refused", "GAPTOP_DCGM"),
        (404, "absent", "dcgm-exporter's address"),
        (500, "failing", "log"),
        ("", "starting", "one collection period"),
        ("<html><h1>GPU Exporter</h1></html>", "failing", "HTML"),
        ("vllm:num_requests_running 3\n", "failing", "DCGM_FI_"),
        ('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"', "failing", "metric line"),
        ("DCGM_FI_DEV_GPU_UTIL 3\n", "failing", "DCGM_FI_"),
        (
            CollectorError("Nothing listens at x, so the engine's y; z.", state="absent"),
            "absent",
            "Nothing listens at x",
        ),
        (CollectorError("The TLS x, so the engine's y; z.", state="refused"), "refused", "--ca FILE"),
        (CollectorError("The certificate x, so the engine's y; z.", retry=False), "failing", "PEM"),
    ],
)
def test_whatever_is_wrong_is_one_sentence(said: str | int | CollectorError, state: str, words: str) -> None:
    watched = Watched().run(1, lambda now: said)
    (error,) = watched.errors
    assert error.state == state
    assert words in error.says
    assert "so the GPUs it tells of are not visible" in error.says
    assert "engine" not in error.says
    assert watched.messages == []


def test_a_device_that_another_delivers_is_left_out() -> None:
    other = LABELS.replace(UUID, "GPU-other")
    both = collected(5, lambda n: gpu(n) + exposition({ENERGY: n}, other))
    watched = Watched(told_by=lambda uuid, parent: "NVML on this host" if uuid == UUID else "").run(40, both)
    assert sources(watched.messages) == {"dcgm/GPU-other"}
    assert len(watched.notes("dcgm_left_out")) == 1
    none = Watched(told_by=lambda uuid, parent: "NVML on this host").run(3, both)
    assert "NVML on this host" in none.errors[0].says
    assert none.errors[0].state == "absent"


def test_slices_are_left_out_only_where_another_delivers_their_utilisation() -> None:
    text = (DATA / "4.8.txt").read_text()
    parent = "GPU-22222222-bbbb-0000-0000-000000000000"
    seen = Watched(told_by=lambda uuid, of: "NVML" if uuid == parent else "").run(1, lambda now: text)
    assert f"dcgm/{parent}" not in sources(seen.messages)
    assert f"dcgm/{parent}/gi7" in sources(seen.messages)
    sliced = Watched(told_by=lambda uuid, of: "NVML" if parent in (uuid, of) else "").run(1, lambda now: text)
    assert len(sources(sliced.messages)) == 1


def test_the_servers_secrets_are_never_sent_to_an_exporter() -> None:
    DcgmExporter("http://me:word@gpu-host/metrics", HttpOptions(headers={"Authorization": "Bearer abc", "X-Key": "k"}))
    assert Scripted.made.base == "http://gpu-host:9400"
    assert list(Scripted.made.options.headers) == ["Authorization"]
    assert Scripted.made.options.headers["Authorization"].startswith("Basic ")
