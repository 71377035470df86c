"""Whole sessions in virtual time: what is kept for the next, and what our own calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pynvml")

from gaptop_collectors.collector import Batch, Hole, Message, Note, SourceInfo
from gaptop_collectors.devices.nvml import NvmlDevices
from tests.unit.nvml_binding import SOURCE, Binding, Server, run


def test_what_is_learnt_is_used_by_the_next_run_at_once_and_corrected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binding = Binding(monkeypatch, window_ms=167)
    first = NvmlDevices(Server(), state=tmp_path)
    infos = run(first, binding, 4.0).of(SourceInfo)
    first.close()
    assert (infos[-1].window, infos[-1].window_measured) == (0.167, True)
    assert "measured)" in infos[-1].says

    binding.busy = 0  # an idle GPU has no period of its own
    second = NvmlDevices(Server(), state=tmp_path)
    kept = run(second, binding, 2.0).of(SourceInfo)[-1]
    second.close()
    assert (kept.window, kept.window_measured) == (0.167, True)
    assert "measured on an earlier run" in kept.says

    binding.busy, binding.window_ns = 60, 500_000_000
    third = NvmlDevices(Server(), state=tmp_path)
    seen = run(third, binding, 30.0)
    third.close()
    assert seen.of(SourceInfo)[0].window == 0.167 or seen.of(SourceInfo)[0].window == 0.5
    assert seen.of(SourceInfo)[-1].window == 0.5
    fourth = NvmlDevices(Server(), state=tmp_path)
    binding.busy = 0
    assert run(fourth, binding, 1.0).of(SourceInfo)[-1].window == 0.5
    fourth.close()


def own_notes(messages: Sequence[Message]) -> list[Note]:
    return [one for one in messages if isinstance(one, Note) and one.what in ("nvml_backoff", "our_slow_call")]


def test_a_slow_driver_is_asked_less_often_but_its_ring_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = Binding(monkeypatch)
    devices = NvmlDevices(Server())
    seen = run(devices, binding, 5.0)
    assert not own_notes(seen.messages)
    usual = len(seen.values("device.power"))
    binding.call_ns["nvmlDeviceGetFieldValues"] = 30_000_000
    run(devices, binding, 10.0, seen)
    slow_from, fields = binding.now_ns, binding.called["nvmlDeviceGetFieldValues"]
    run(devices, binding, 40.0, seen)
    notes = own_notes(seen.messages)
    assert [one.data["stretch"] for one in notes if one.what == "nvml_backoff"] == [2, 4, 8]
    slow = [one for one in notes if one.what == "our_slow_call"]
    assert all((one.source, one.data["collector"]) == (SOURCE, "devices.nvml") for one in slow)
    assert binding.called["nvmlDeviceGetFieldValues"] - fields <= 40 / (0.25 * 8) + 2
    assert usual >= 15
    info = seen.of(SourceInfo)[-1]
    assert info.period == 0.25 * 8
    assert info.period_by_signal["device.clock_sm"] == 0.5 * 8
    assert not seen.of(Hole)
    times = [stamp for batch in seen.of(Batch) if "device.busy" in batch.values for stamp in batch.times_ns]
    assert {later - earlier for earlier, later in zip(times, times[1:], strict=False)} == {200_000_000}
    assert slow_from < times[-1]
    binding.call_ns.clear()
    run(devices, binding, 160.0, seen)
    devices.close()
    assert own_notes(seen.messages)[-1].data["stretch"] == 1
    assert seen.of(SourceInfo)[-1].period == 0.25


def test_own_calls_count_the_time_of_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = Binding(monkeypatch)
    devices = NvmlDevices(Server())
    seen = run(devices, binding, 10.0)
    devices.close()
    counted = seen.values("device.own_calls")
    assert counted == sorted(counted)
    made = sum(binding.called.values()) * 10e-6
    assert counted[-1] == pytest.approx(made, rel=0.1)
    assert seen.values("device.own_latency") == pytest.approx([30e-6] * len(counted))
