"""The log file of the process that the user started. (The probe writes to the same file; see probe/child.py.)"""

from __future__ import annotations

import logging
import logging.handlers
import os
from io import TextIOWrapper
from pathlib import Path

from gaptop.recording.log_format import RedactingFormatter


class _OwnersFile(logging.handlers.RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=_for_its_owner)


def log_to(path: Path) -> bool:
    """Send the log of this process to that file (mode 0600), without secrets; False where it cannot be written."""
    try:
        handler = _OwnersFile(path, maxBytes=1_000_000, backupCount=1, encoding="utf-8")
    except OSError:
        return False
    handler.setFormatter(RedactingFormatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    return True


def _for_its_owner(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        # One that an earlier version left open to others.
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
