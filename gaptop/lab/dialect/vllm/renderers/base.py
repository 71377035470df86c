"""Named after vllm/renderers/base.py: runs in the tokeniser's thread."""

from __future__ import annotations

from time import monotonic_ns


class Renderer:
    """Turns a prompt's text into token ids."""

    def __init__(self) -> None:
        self._prompt = "what does the device wait for " * 8

    def _tokenize_prompt(self, until_ns: int) -> None:
        """Busy until ``until_ns``."""
        while monotonic_ns() < until_ns:
            self._prompt.split()
