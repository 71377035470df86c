"""What is said once in the last line: it always has an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 12.0


class Notice:
    """An answer holds until the next key or click, which may make it untrue; news (a file was written, something
    happened) stay true, and are there to be read for some seconds whatever is pressed. Neither stays longer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._text = ""
        self._until = 0.0
        self._is_answer = False

    def tell(self, text: str) -> None:
        """News, in place of what is there."""
        self._text, self._until, self._is_answer = text, self._clock() + _SECONDS, False

    def answer(self, text: str) -> None:
        """To a key, in place of what is there."""
        self.tell(text)
        self._is_answer = True

    @property
    def text(self) -> str:
        """What is to be shown now, "" for nothing."""
        if self._text and self._clock() >= self._until:
            self._text = ""
        return self._text

    def end_answer(self) -> bool:
        """Something was pressed; true where that ended an answer."""
        ended = self._is_answer and bool(self.text)
        if ended:
            self._text = ""
        return ended

    def end(self) -> None:
        self._text = ""
