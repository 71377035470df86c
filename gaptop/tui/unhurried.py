"""Lines of figures that move all the time: where bytes are dear, they are made anew once a second at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_REST: Final = 1.0

_T = TypeVar("_T")


class Unhurried(Generic[_T]):
    """Keeps what was made last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: tuple[object, float, _T] | None = None

    def of(self, key: object, make: Callable[[], _T], *, hurry: bool) -> _T:
        """Anew in a ``hurry``, when ``key`` is another one, and once what is kept has been shown for a second."""
        now = self._clock()
        if hurry or self._kept is None or self._kept[0] != key or now - self._kept[1] >= _REST:
            self._kept = key, now, make()
        return self._kept[2]
