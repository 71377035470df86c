"""``python -m gaptop.cli.page ARGUMENTS``: gaptop with these arguments on a page of textual-serve, which starts it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Final

from gaptop.cli.main import main as gaptop
from gaptop.recording.printable import printable_lines
from gaptop.tui.packets import prelude

_AGAIN: Final = "Load this page again to try again."


def main() -> None:
    """Where gaptop says something in place of a screen, the page shows that; after a screen nobody reads it."""
    # A session of its own: ctrl+c and a lost terminal are for the server to handle, which then ends its pages.
    os.setsid()
    os.environ["TEXTUAL_DRIVER"] = "gaptop.tui.browser:PageDriver"
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            gaptop()
    finally:
        if text := printable_lines(said.getvalue().rstrip()):
            print(text, file=sys.stderr)
            _put(f"{text}\n\n{_AGAIN}\n".replace("\n", "\r\n").encode())


def _put(text: bytes) -> None:
    """As the data of one packet."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(prelude() + b"D" + len(text).to_bytes(4, "big") + text)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
