"""Writing down what is seen: a snapshot, a picture, a trace, a verdict. Each says the path, and none overwrites."""

from __future__ import annotations

from typing import Final

from gaptop.tui.actions.acting import Acting
from gaptop.valleys.markdown import verdict_markdown

_REMEDY: Final = "Free some room or start gaptop in a folder that can be written, then press the key again."


class Keeping(Acting):
    """``s``, ``S``, ``x`` and ``y``."""

    async def action_snapshot(self) -> None:
        """Write the snapshot in a thread; no line is drained meanwhile, so the feed's files have one user at a time."""
        if self._saving:
            return
        self._saving = True
        try:
            path = await self._main.save()
        except OSError as error:
            self._main.notify_line(f"No snapshot was written: {error.strerror or error}. {_REMEDY}")
        else:
            # The name first: a long folder is what may be cut at the edge.
            self._main.notify_line(f"Snapshot written: {path.name} (gaptop open {path})")
        finally:
            self._saving = False

    def action_picture(self) -> None:
        """The screen as it is, as SVG."""
        self._put("Picture", ".svg", self.export_screenshot(title=self._options.title))

    def action_trace(self) -> None:
        """What is selected, or on screen, for Perfetto."""
        if self._options.keeper is None:
            return
        start, end = self._main.stretch()
        text = self._options.keeper.trace(self._session.timeline, self._session.assessment, start, end)
        self._put("Trace for ui.perfetto.dev", ".perfetto.json", text)

    def action_copy(self) -> None:
        """The verdict on screen: clipboards fail in tmux and over SSH, so that it is written to a file too."""
        scene = self._main.scene()
        if scene.valley is None:
            self._main.answer_line("No valley to copy the verdict of.")
            return
        servers = [view.info.entity for view in scene.sources.values() if view.info.kind == "server"]
        server = " ".join(str(servers[0].get(name) or "") for name in ("engine", "version", "url")) if servers else ""
        when = scene.clock(scene.valley.start_s, 1)
        text = verdict_markdown(scene.valley, when, " ".join(server.split()) or "no server seen", scene.now)
        self.copy_to_clipboard(text)
        self._put("Verdict sent to the terminal's clipboard, and written", ".md", text)

    def _put(self, what: str, suffix: str, text: str) -> None:
        keeper = self._options.keeper
        if keeper is None:
            self._main.notify_line("Nothing was written: this screen may write no files.")
            return
        try:
            path = keeper.put(suffix, text)
        except OSError as error:
            self._main.notify_line(f"{what}: not written, {error.strerror or error}. {_REMEDY}")
        else:
            self._main.notify_line(f"{what}: {path.name} ({path})")
