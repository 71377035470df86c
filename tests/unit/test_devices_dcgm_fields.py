"""What a dcgm-exporter's samples mean, and what in them is no value."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop_collectors.collector import SourceInfo
from gaptop_collectors.devices.dcgm_address import exporter_address
from gaptop_collectors.devices.dcgm_fields import FIELDS, GPU_UTIL, GR_ENGINE, NAMES, Key, clean, readings, rows
from gaptop_collectors.devices.dcgm_source import describe
from gaptop_collectors.engines.address import BadAddress
from gaptop_collectors.engines.exposition import ExpositionReader, Sample
from gaptop_collectors.signals import SIGNALS, split_key

FB = "DCGM_FI_DEV_FB_USED"


def sample(name: str, value: float | None, uuid: str = "GPU-1", **labels: str) -> Sample:
    return Sample(name, {"UUID": uuid, **labels}, value)


def test_every_series_is_of_the_vocabulary() -> None:
    for spec in FIELDS.values():
        assert not spec.key or split_key(spec.key)[0] in SIGNALS


@pytest.mark.parametrize(
    "blank",
    [
        2147483632,
        2147483633,
        2147483634,
        2147483635,
        2147483647,
        9223372036854775792,
        9223372036854775794,
        9223372036854775795,
        140737488355328.0,
        140737488355331.0,
        -1,
        None,
    ],
)
@pytest.mark.parametrize("name", ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_SM_CLOCK", GR_ENGINE])
def test_what_stands_for_no_value_is_none(name: str, blank: float | None) -> None:
    assert clean(name, None if blank is None else float(blank)) is None


@pytest.mark.parametrize(
    ("name", "printed", "kept"),
    [
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 2147483631, 2147483631),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 3e9, 3e9),
        (GPU_UTIL, 100, 100),
        (GPU_UTIL, 101, None),
        (GR_ENGINE, 1.0004, 1),
        (GR_ENGINE, 1.5, None),
        (GR_ENGINE, 0, 0),
    ],
)
def test_values_that_are_and_that_are_not(name: str, printed: float, kept: float | None) -> None:
    assert clean(name, printed) == kept


def test_names_of_dcgm_4_6_and_the_old_label() -> None:
    found = rows([Sample("DCGM_FI_DEV_GPU_UTIL_RATIO", {"uuid": "GPU-1"}, 50.0)])
    assert readings(found[Key("GPU-1", "")], "driver", GPU_UTIL) == {"device.busy": 0.5}


def test_rows_without_a_gpu_are_left_out() -> None:
    link = Sample("DCGM_FI_DEV_GPU_TEMP", {"nvswitch": "nvswitch0", "gpu_uuid": "GPU-1"}, 50.0)
    assert rows([link, Sample(GPU_UTIL, {"cpu": "0"}, 1.0)]) == {}


def test_the_devices_own_row_is_taken_not_a_pods_share() -> None:
    own = rows([sample(GPU_UTIL, 80.0), sample(GPU_UTIL, 30.0, pod="a"), sample(GPU_UTIL, 50.0, pod="b")])
    assert own[Key("GPU-1", "")].fields == {GPU_UTIL: 80.0}
    last = rows([sample(GPU_UTIL, 30.0, pod="a"), sample(GPU_UTIL, 80.0, pod="")])
    assert last[Key("GPU-1", "")].fields == {GPU_UTIL: 80.0}
    shares = rows([sample(GPU_UTIL, 30.0, pod="a"), sample(GPU_UTIL, 50.0, pod="b")])
    assert shares[Key("GPU-1", "")].fields == {GPU_UTIL: None}
    copies = rows([sample(FB, 30.0, pod="a"), sample(FB, 30.0, pod="b")])
    assert copies[Key("GPU-1", "")].fields == {FB: 30.0}


def test_under_mig_the_printed_utilisation_is_no_measurement() -> None:
    found = rows(
        [
            sample(GPU_UTIL, 0.0, GPU_I_ID="3", GPU_I_PROFILE="1g.6gb"),
            sample(GPU_UTIL, 0.0),
            sample("DCGM_FI_DEV_POWER_USAGE", 52.6, GPU_I_ID="3", GPU_I_PROFILE="1g.6gb"),
            sample(FB, 12.0, GPU_I_ID="3", GPU_I_PROFILE="1g.6gb"),
        ]
    )
    assert found[Key("GPU-1", "")].fields == {"DCGM_FI_DEV_POWER_USAGE": 52.6}
    assert found[Key("GPU-1", "3")].fields == {FB: 12.0}
    assert found[Key("GPU-1", "3")].profile == "1g.6gb"


def test_untrusted_labels_cannot_speak_to_the_terminal() -> None:
    found = rows([sample(GPU_UTIL, 1.0, "GPU-\x1b[31m" + "x" * 500, modelName="a\nb", gpu="²")])
    ((key, row),) = found.items()
    assert key.uuid.isprintable()
    assert len(key.uuid) <= 80
    assert row.name.isprintable()
    assert row.index is None


@given(
    st.lists(
        st.builds(
            lambda name, value, uuid, gi, pod: Sample(name, {"UUID": uuid, "GPU_I_ID": gi, "pod": pod}, value),
            st.sampled_from(sorted(NAMES)),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from(["GPU-1", "GPU-2", ""]),
            st.sampled_from(["", "1", "2"]),
            st.sampled_from(["", "a"]),
        ),
        max_size=20,
    )
)
def test_whatever_is_printed_every_reading_is_possible(samples: list[Sample]) -> None:
    for row in rows(samples).values():
        for part in ("driver", "profile"):
            for busy in (GPU_UTIL, GR_ENGINE):
                for key, value in readings(row, part, busy).items():
                    signal = SIGNALS[split_key(key)[0]]
                    assert value is None or (math.isfinite(value) and value >= 0)
                    assert value is None or signal.unit != "ratio" or value <= 1


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("gpu-host", "http://gpu-host:9400"),
        ("gpu-host:9401/metrics", "http://gpu-host:9401"),
        ("http://gpu-host/dcgm/metrics", "http://gpu-host:9400/dcgm"),
        ("https://gpu-host:443", "https://gpu-host"),
        ("http://gpu-host:80/", "http://gpu-host"),
        ("[::1]", "http://[::1]:9400"),
    ],
)
def test_addresses(typed: str, base: str) -> None:
    assert exporter_address(typed) == (base, {})


@pytest.mark.parametrize("typed", ["", "ftp://x", "http://", "host:99999", "a b", "http://[::1"])
def test_bad_addresses_are_one_sentence_with_an_example(typed: str) -> None:
    with pytest.raises(BadAddress, match=":9400"):
        exporter_address(typed)


@pytest.mark.parametrize("blank", ["NaN", "2147483634", "9223372036854775794"])
def test_a_field_that_is_printed_without_a_value_is_not_asked_for(blank: str) -> None:
    def told(*printed: str) -> SourceInfo:
        text = "".join(f'{name}{{UUID="GPU-1"}} {40 if name == GPU_UTIL else blank}\n' for name in printed)
        ((key, row),) = rows(ExpositionReader(NAMES).read(text)).items()
        seen = {name for name, value in row.fields.items() if value is not None}
        return describe("http://gpu-a:9400", key, row, seen, 10.0, 1.0)

    other = told(GPU_UTIL, GR_ENGINE)
    assert f"It prints {GR_ENGINE} without a valid value: profiling is not available on this GPU" in other.says
    assert "Add " not in other.says
    neither = told(GR_ENGINE, FB)
    assert "without a valid value: profiling is not available" in neither.unsupported["device.busy"]
    assert "without a valid value: this GPU, or its driver, does" in neither.unsupported["device.memory_used"]
    absent = told(GPU_UTIL)
    assert f"Add {GR_ENGINE} to its counters file" in absent.says
    assert "without a valid value" not in absent.says + str(absent.unsupported)


def test_what_a_body_takes_grows_with_its_devices_only() -> None:
    def steps(count: int) -> int:
        samples = [sample(GPU_UTIL, 40, f"GPU-{number}") for number in range(count)]
        taken = 0

        def count_one(*_: object) -> None:
            nonlocal taken
            taken += 1

        before = sys.getprofile()
        sys.setprofile(count_one)
        try:
            rows(samples)
        finally:
            sys.setprofile(before)
        return taken

    assert steps(400) < 2.2 * steps(200)
