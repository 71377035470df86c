"""``python -m gaptop.probe``: the measuring process. It reads its configuration and commands from standard input,
writes the stream to standard output, and logs to standard error (the supervisor makes that a file)."""

from __future__ import annotations

import sys

from gaptop.probe.assembly import plans
from gaptop.probe.process import main

if __name__ == "__main__":
    sys.exit(main(plans))
