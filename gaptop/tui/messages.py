"""What the picture tells the screen."""

from __future__ import annotations

from textual.message import Message


class PointedAt(Message):
    """A click on a column of the picture (cells from the picture's left edge)."""

    def __init__(self, x: int) -> None:
        super().__init__()
        self.x = x


class WheelTurned(Message):
    """The wheel over a column; positive steps mean "show less time"."""

    def __init__(self, x: int, steps: int) -> None:
        super().__init__()
        self.x = x
        self.steps = steps


class DrawnOver(Message):
    """The pointer was pressed at ``start`` and drawn to ``x`` (cells from the picture's left edge)."""

    def __init__(self, start: int, x: int) -> None:
        super().__init__()
        self.start = start
        self.x = x

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, DrawnOver)
