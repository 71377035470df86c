"""Named after vllm/renderers/base.py: runs in the tokeniser's thread."""

from __future__ import annotations

from time import monotonic_ns

from gaptop.lab.dialect.vllm.multimodal.processing import BaseMultiModalProcessor


class Renderer:
    """Turns a prompt's text into token ids."""

    def __init__(self) -> None:
        self._prompt = "what does the device wait for " * 8
        self._processor = BaseMultiModalProcessor()

    def render_prompts(self, phase: str, until_ns: int) -> None:
        """``tokenize`` or ``multimodal``, until ``until_ns``."""
        if phase == "multimodal":
            self._processor.apply(until_ns)
        else:
            self._tokenize_prompt(until_ns)

    def _tokenize_prompt(self, until_ns: int) -> None:
        """Busy until ``until_ns``."""
        while monotonic_ns() < until_ns:
            self._prompt.split()
