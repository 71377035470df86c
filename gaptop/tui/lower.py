"""The part under the picture: what is said of one valley, in short or whole, or the list of all valleys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from gaptop.tui.cells import Piece
from gaptop.tui.listing import Listing
from gaptop.tui.panels import detail
from gaptop.tui.panels.argument import Argument, argument
from gaptop.tui.panels.besides import besides
from gaptop.tui.panels.valley_table import table_lines
from gaptop.tui.scene import Scene
from gaptop.valleys.model import Valley

Mode = Literal["short", "whole", "list"]

_PAGE: Final = 8
"""Lines that a page key moves."""

_HEAD: Final = 3
"""Rows over a list or an argument: the sentence, which may take two, and the names of the columns."""


class Lower:
    """What is shown there, and how far it is scrolled. Laid out again only when something changed."""

    def __init__(self) -> None:
        self.mode: Mode = "short"
        self.listing = Listing()
        self.fact: int | None = None
        """The selected number that speaks for the cause; its lane alone is marked then."""
        self._first = 0
        self._most = 0
        self._of: str | None = None
        self._argued: tuple[tuple[object, ...], Argument] = ((), Argument([], ()))
        self._key: tuple[object, ...] = ()
        self._lines: list[list[Piece]] = []

    def wanted(self, scene: Scene, width: int) -> int:
        """Rows that it would fill, as far as that may be more than usual; else 0."""
        if self.mode == "list":
            return _HEAD + max(1, len(self.listing.rows(scene.assessment.valleys, scene.now)))
        if self.mode == "whole" and scene.valley is not None:
            return _HEAD + len(self._whole_of(scene, scene.valley, width).lines)
        return 0

    def show(self, mode: Mode) -> None:
        """That mode, or back to the usual one where it is shown already."""
        self.mode = "short" if self.mode == mode else mode
        self._first, self.fact = 0, None

    def back(self) -> bool:
        """Esc: the selected fact goes, then the filter (after an argument that hides what is filtered), then the mode;
        false where there is nothing to close."""
        if self.fact is not None:
            self.fact = None
        elif self.mode != "whole" and self.listing.filtered:
            self.listing = replace(self.listing, causes=frozenset(), text="")
        elif self.mode != "short":
            self.show("short")
        else:
            return False
        return True

    def step_fact(self, scene: Scene, step: int) -> None:
        """Select the next number that speaks for the cause; past the last one comes none."""
        count = 0 if scene.valley is None else len(scene.valley.verdict.evidence)
        if not count:
            return
        place = (-1 if self.fact is None else self.fact) + step
        self.fact = place if 0 <= place < count else None if place >= 0 or self.fact is not None else count - 1

    def scroll(self, pages: int) -> None:
        self._first = min(max(0, self._first + pages * _PAGE), self._most)

    def lines(self, scene: Scene, width: int, rows: int) -> list[list[Piece]]:
        """At most ``rows`` lines: the sentence that is always there, alerts, and what the mode shows."""
        valley = scene.valley
        if self._of != (valley.id if valley else None):
            self._of, self._first, self.fact = (valley.id if valley else None), 0, None
        moving = _moving(scene, valley)
        alert = detail.alert_lines(scene, width)
        listed = (scene.assessment.valleys, self.listing) if self.mode == "list" else None
        key = (
            *(valley, scene.assessment.sentence, scene.chosen, scene.start, width, rows, moving, besides(scene)),
            *(str(alert), self.mode, scene.fact, self._first, listed, tuple(scene.sources)),
        )
        if key != self._key:
            self._key = key
            head = [*detail.sentence_lines(scene, width), *alert]
            self._lines = [*head, *self._body(scene, width, rows - len(head))]
        return self._lines

    def title(self, scene: Scene) -> str:
        """What the lines are about, for the rule above them."""
        valleys = scene.assessment.valleys
        if self.mode == "list":
            shown = len(self.listing.rows(valleys, scene.now))
            of = f"{shown} of {len(valleys)}" if self.listing.filtered else f"{len(valleys)}"
            said = self.listing.says()
            return scene.clean(f" valleys: {of}{f', {said}' if said else ''} ")
        if scene.valley is None:
            return ""
        what = "the whole stream" if scene.assessment.ended else "now"
        if scene.chosen:
            place = next((i for i, item in enumerate(valleys, 1) if item.id == scene.valley.id), 0)
            return f" {what}, and the selected valley, {place} of {len(valleys)} "
        if scene.valley.end_s is None and not scene.assessment.ended:
            return f" {what}, and the open valley "
        if scene.valley.start_s >= scene.view.end or (scene.valley.end_s or scene.now) <= scene.view.start:
            return f" {what}, and the last valley: none is in view "
        return f" {what}, and the costliest valley in view (by seconds lost) "

    def _whole_of(self, scene: Scene, valley: Valley, width: int) -> Argument:
        key = (valley, scene.fact, scene.chosen, scene.start, width, _moving(scene, valley), besides(scene))
        if key != self._argued[0]:
            self._argued = key, argument(scene, valley, width)
        return self._argued[1]

    def _body(self, scene: Scene, width: int, rows: int) -> list[list[Piece]]:
        if self.mode == "list":
            return table_lines(scene, self.listing, width, rows)
        if self.mode == "short" or scene.valley is None:
            return detail.detail_lines(scene, width, rows)
        whole = self._whole_of(scene, scene.valley, width)
        self._most = max(0, len(whole.lines) - rows)
        if scene.fact is not None and scene.fact < len(whole.facts):
            line = whole.facts[scene.fact]
            self._first = min(max(self._first, line - rows + 2), line)
        self._first = min(self._first, self._most)
        return whole.lines[self._first : self._first + rows]


def _moving(scene: Scene, valley: Valley | None) -> float:
    """What is said of an open valley grows with the time."""
    return scene.now if valley is None or valley.end_s is None else 0.0
