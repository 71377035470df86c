"""Named after vllm/multimodal/processing.py: runs in the tokeniser's thread."""

from __future__ import annotations

from time import monotonic_ns


class BaseMultiModalProcessor:
    """Turns images into what the model's encoder takes."""

    def __init__(self) -> None:
        self._image = bytes(range(256)) * 64

    def apply(self, until_ns: int) -> None:
        """Take every fourth pixel, over and over, until ``until_ns``."""
        while monotonic_ns() < until_ns:
            self._image[::4].translate(self._image[:256])
