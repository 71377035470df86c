"""A real browser for tests: a headless Chromium in which pages of ``gaptop web`` are read and pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
from playwright.sync_api import Page

from tests.e2e.terminal import GAPTOP

FLAGS: Final = ("--no-sandbox", "--disable-dev-shm-usage")
"""Chromium's sandbox refuses root, and a container's /dev/shm is small."""
_CATCH: Final = """Object.defineProperty(Object.prototype, "terminal", {configurable: true, set(value) {
    Object.defineProperty(this, "terminal", {value, writable: true, configurable: true, enumerable: true});
    if (value && value.buffer) window.shownTerminal = value;
}})"""
"""The page keeps its xterm.js to itself, and draws on a canvas; this keeps it too, so that its buffer can be read."""
_READ: Final = """() => {
    const terminal = window.shownTerminal;
    if (!terminal) return "";
    const buffer = terminal.buffer.active, lines = [], row = (y) => buffer.getLine(buffer.viewportY + y);
    for (let y = 0; y < terminal.rows; y++) lines.push(row(y).translateToString(true, 0, terminal.cols));
    return lines.join("\\n");
}"""
_COLOURS: Final = """async (picture) => {
    const bitmap = await createImageBitmap(await (await fetch(picture)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const points = new Uint32Array(context.getImageData(0, 0, bitmap.width, bitmap.height).data.buffer);
    const counts = new Map();
    for (const point of points) counts.set(point, (counts.get(point) || 0) + 1);
    return [...counts.values()].map((count) => count / points.length);
}"""


def chromium() -> str:
    """The system's Chromium; skips where there is none, and fails in CI, which installs one."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        why = "no Chromium is installed (Debian: apt install chromium), so no page can be opened"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return found


class Served:
    """``gaptop web --port 0`` with these arguments, started in ``folder``, and its address, with the secret and without
    (``origin``)."""

    def __init__(self, folder: Path, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **(environ or {})}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [GAPTOP, "web", "--port", "0", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        self.address = next((word for word in self.said.split() if word.startswith("http://")), "")
        self.origin = "/".join(self.address.split("/")[:3])

    def __enter__(self) -> Self:
        assert self.address, f"gaptop web told no address: {self.said!r}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()


class Shown:
    """A page of gaptop in a tab."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        page.add_init_script(_CATCH)
        page.goto(address)

    def screen(self) -> str:
        """What the terminal on the page shows, line by line, trailing blanks removed; "" before there is one."""
        return str(self.page.evaluate(_READ))

    def until(self, *texts: str, seconds: float = 30.0) -> str:
        """Wait until all these texts stand on the page at once; gives its screen."""
        end = time.monotonic() + seconds
        while not all(text in (shown := self.screen()) for text in texts):
            assert time.monotonic() < end, f"not on the page after {seconds:g} s: {texts}\n{shown}"
            self.page.wait_for_timeout(50)
        return shown

    def press(self, key: str) -> None:
        self.page.locator(".xterm-helper-textarea").focus()
        self.page.keyboard.press(key)

    def colours(self) -> list[float]:
        """What the page looks like: the share of each colour of its points, the largest first."""
        picture = b64encode(self.page.screenshot()).decode()
        blank = self.page.context.new_page()
        shares = blank.evaluate(_COLOURS, f"data:image/png;base64,{picture}")
        blank.close()
        return sorted(shares, reverse=True)
