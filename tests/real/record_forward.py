"""``gaptop record`` with vLLM's forward passes as its device. Usage: record_forward.py FEED ARGUMENT..."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

from gaptop.cli import record, target


def main(feed: str, *arguments: str) -> None:
    def with_feed(*given: Any, **named: Any) -> dict[str, Any]:
        return {**target.probe_config(*given, **named), "feeds": [feed]}

    with mock.patch.object(record, "probe_config", with_feed):
        record.record(list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
