"""Sources as the real collectors describe themselves, as lines of the stream."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from gaptop.recording.lines import Source
from gaptop_collectors.collector import SourceInfo

_SAME: Final = tuple(item.name for item in fields(SourceInfo) if item.name != "source")


def source_line(t: float, info: SourceInfo) -> Source:
    """A collector's description, told at ``t`` (seconds of the stream)."""
    return Source(t=t, id=info.source, **{name: getattr(info, name) for name in _SAME})
