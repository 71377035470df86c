"""How gaptop's processes write their log: without secrets, and without what a terminal that shows it would obey."""

from __future__ import annotations

import logging

from gaptop.recording.printable import printable_lines
from gaptop.recording.redact import redact


class RedactingFormatter(logging.Formatter):
    """Redacts the whole entry, its traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(redact(super().format(record)))
