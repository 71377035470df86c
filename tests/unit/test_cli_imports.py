"""Commands without a screen stay light: what they import is looked at in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SHOW = "import sys; print('\\n'.join(sorted(sys.modules)))"


def modules_after(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{code}\n{_SHOW}"], capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n"))


def test_help_imports_neither_screen_nor_arrays_nor_http() -> None:
    loaded = modules_after(
        "from gaptop.cli.main import cli\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    cli.main(['--help'], standalone_mode=False)"
    )
    assert "click" in loaded
    assert not loaded & {"textual", "rich", "numpy", "aiohttp", "psutil", "pynvml", "prometheus_client"}


def test_help_loads_no_command_but_the_default_one_and_nothing_to_read_settings_with() -> None:
    loaded = modules_after(
        "from gaptop.cli.main import cli\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    cli.main(['--help'], standalone_mode=False)"
    )
    own = {name for name in loaded if name.startswith(("gaptop.", "gaptop_collectors."))}
    assert "gaptop.cli.live" in own
    assert not own & {f"gaptop.cli.{name}" for name in ("record", "doctor", "demo", "settings", "config_file", "paths")}
    assert not own & {"gaptop.recording.lines", "gaptop.valleys.model"}
    assert not loaded & {"platformdirs", "tomllib", "tempfile", "pathlib"}
    assert len(own) <= 20, sorted(own)


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--default"], ["--path"]])
def test_the_configuration_is_shown_without_the_screen(arguments: list[str]) -> None:
    loaded = modules_after(
        "from gaptop.cli.main import cli\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    cli.main(['config', *{arguments}], standalone_mode=False)"
    )
    assert "gaptop.cli.settings" in loaded
    assert not loaded & {"textual", "rich", "numpy", "aiohttp", "psutil", "pynvml"}


@pytest.mark.parametrize("module", ["gaptop.cli.record", "gaptop.cli.report", "gaptop.cli.live", "gaptop.cli.session"])
def test_commands_without_a_screen_never_import_textual(module: str) -> None:
    assert "textual" not in modules_after(f"import {module}")


def test_a_report_is_replayed_without_textual(tmp_path: object) -> None:
    loaded = modules_after(
        "import io\n"
        "from gaptop.cli.report import replay\n"
        "from gaptop.recording.lines import Header, Tick, encode\n"
        "stream = encode(Header('gaptop', (1, 0), '0', '2026-01-31T00:00:00Z', 0)) + encode(Tick(1.0))\n"
        "replay(io.BytesIO(stream))"
    )
    assert "gaptop.valleys.analyst" in loaded
    assert "textual" not in loaded


def test_recording_uses_no_arrays() -> None:
    loaded = modules_after("import gaptop.cli.record, gaptop.cli.probe_lines, gaptop.recording.writer")
    assert not loaded & {"numpy", "textual", "aiohttp"}


def test_the_screen_process_speaks_no_http() -> None:
    assert "aiohttp" not in modules_after("import gaptop.cli.screen")


def test_the_probe_holds_no_arrays() -> None:
    loaded = modules_after(
        "import gaptop.probe.__main__, gaptop_collectors.devices.nvml, gaptop_collectors.devices.cpu\n"
        "import gaptop_collectors.engines.vllm, gaptop_collectors.host.threads_pyspy"
    )
    assert not loaded & {"numpy", "textual"}
