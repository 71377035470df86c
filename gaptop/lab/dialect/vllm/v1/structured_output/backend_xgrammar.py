"""Named after vllm/v1/structured_output/backend_xgrammar.py."""

from __future__ import annotations

import re
from time import monotonic_ns


class XgrammarBackend:
    """Turns grammars into automata."""

    def __init__(self) -> None:
        self._rules = "|".join(rf"(?:{word}[0-9]*)" for word in ("object", "array", "string", "number", "true"))

    def compile_grammar(self, until_ns: int) -> None:
        """Compile one, over and over, until ``until_ns``."""
        while monotonic_ns() < until_ns:
            re.purge()
            re.compile(self._rules)
