"""The first minute: no server was found yet. Says what was looked for, what is here and what to do, and looks again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from gaptop.tui import palette
from gaptop.tui.feed import ScreenOptions
from gaptop.tui.glyphs import glyphs
from gaptop.tui.text import clean
from gaptop.tui.themed import ThemedApp

_AGAIN: Final = 2.0
"""Seconds from one look to the next."""

LOOKED_FOR: Final = (
    "listening ports of this host behind which /metrics or /slots answers like vLLM or llama.cpp",
    "processes whose command line starts such a server, and programs of any name on a GPU",
)
TRY: Final = (
    "start the server: this screen goes on by itself as soon as it answers",
    "name it, where it is on another host or behind a path: gaptop http://HOST:PORT, or gaptop PID",
    "gaptop demo shows a simulated server, gaptop doctor all of this as text",
)


class Waiting(ThemedApp):
    """``look`` returns what was waited for, or a sentence that says why it is not there; ``examine`` tells the
    sources of this host, as ``gaptop doctor`` does. Both run in threads. ``found`` is set once it ended by itself."""

    CSS_PATH = "gaptop.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        Binding("q,ctrl+c,ctrl+q", "quit", "quit", tooltip="Quit", id="quit", priority=True),
        Binding("ctrl+z", "suspend_process", "suspend", tooltip="To the shell; fg comes back", id="suspend"),
    ]

    def __init__(
        self,
        look: Callable[[], object],
        examine: Callable[[], Sequence[Mapping[str, Any]]],
        why: str,
        options: ScreenOptions,
    ) -> None:
        super().__init__(options.theme, options.colours)
        self.animation_level = "none"
        self._look = look
        self._examine = examine
        self._why = why
        self._glyphs = glyphs(bool(options.ascii))
        self._sources: Sequence[Mapping[str, Any]] | None = None
        self._looks = 1
        self.found: object | None = None

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="waiting"):
            yield Static(id="waiting-text")

    def on_mount(self) -> None:
        self._show()
        self._look_around()
        self._wait()

    @work(thread=True, exclusive=True, group="examine")
    def _look_around(self) -> None:
        sources = self._examine()
        self.call_from_thread(self._told, sources)

    def _told(self, sources: Sequence[Mapping[str, Any]]) -> None:
        self._sources = sources
        self._show()

    @work(thread=True, exclusive=True, group="look")
    def _wait(self) -> None:
        """Look until something is found or the app ends."""
        while self.is_running and self.found is None:
            time.sleep(_AGAIN)
            answer = self._look()
            if not self.is_running:
                return
            self.call_from_thread(self._looked, answer)

    def _looked(self, answer: object) -> None:
        self._looks += 1
        if isinstance(answer, str):
            self._why = answer
            self._show()
        else:
            self.found = answer
            self.followed = True
            self.exit()

    def _show(self) -> None:
        text = Text()
        text.append(" gaptop ", palette.BOLD)
        times = "once" if self._looks == 1 else f"{self._looks} times"
        text.append(f" looking for an LLM server (looked {times}, every {_AGAIN:.0f} s)\n\n", palette.WAIT)
        for line in self._why.split("\n"):
            self._line(text, line, palette.BOLD)
        self._title(text, "What was looked for")
        for line in LOOKED_FOR:
            self._line(text, line)
        self._title(text, "What can be measured here")
        if self._sources is None:
            self._line(text, "being looked at: it takes some seconds", palette.DIM)
        for source in self._sources or ():
            fine = source["state"] == "ok"
            mark = self._glyphs.state_ok if fine else self._glyphs.state_bad
            text.append(f"  {mark} ", palette.GOOD if fine else palette.WAIT)
            said = f": {source['says']}" if source["says"] else ""
            text.append(f"{self._clean(source['source'])} {self._clean(source['state'])}{self._clean(said)}\n")
        self._title(text, "What to do")
        for line in TRY:
            self._line(text, line)
        text.append("\n q quit", palette.BOLD)
        self.query_one("#waiting-text", Static).update(text)

    def _title(self, text: Text, title: str) -> None:
        text.append(f"\n {title}\n", palette.BOLD)

    def _line(self, text: Text, line: str, style: Any = palette.PLAIN) -> None:
        text.append(f"  {self._clean(line)}\n", style)

    def _clean(self, text: object) -> str:
        return clean(str(text), self._glyphs.ascii)
