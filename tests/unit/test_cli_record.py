"""``gaptop record`` into what cannot be written: a sentence, and the exit code of a file, not of a usage error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest

from gaptop.cli import probe_lines
from gaptop.cli.exits import Stop
from gaptop.cli.record import _copy
from gaptop.recording.lines import Header, encode

HEADER = encode(Header("gaptop", (1, 0), "0", "2026-01-31T00:00:00Z", 0))


class Lines:
    """A probe that says its header for ever."""

    def __init__(self, config: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def take(self, timeout: float) -> bytes:
        return HEADER

    def rest(self) -> list[bytes]:
        return []

    def ended(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_lines, "LiveLines", Lines)


@pytest.mark.parametrize(
    ("name", "words"),
    [("/dev/full", "the disk is full"), ("there", "exists and is not overwritten"), ("no/such", "No such file")],
)
def test_a_file_that_cannot_be_written(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "there").touch()
    with pytest.raises(Stop, match=words) as stop:
        _copy({}, None, tmp_path / name, 5.0, None)
    assert stop.value.exit_code == 4
    assert stop.value.message.count("cannot write") <= 1


def test_a_full_disk_behind_standard_output() -> None:
    with Path("/dev/full").open("wb") as full, pytest.raises(Stop, match="the disk is full") as stop:
        _copy({}, full.fileno(), None, 5.0, None)
    assert stop.value.exit_code == 4
