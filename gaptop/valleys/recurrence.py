"""What is said over many valleys: one valley as a sample, trends, periods. Plain immutable data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """What is kept of a valley. ``idle_s`` are seconds by device, in their order; None is "not seen".

    ``prompt_tokens`` and ``output_tokens`` are means a request around it, ``running`` and ``kv_used`` (ratio) means
    right before it. ``prompts`` is how many requests ``prompt_tokens`` is of (at least one), and ``prompts_usual`` how
    many prompt tokens as long an ordinary time before it took.
    """

    id: str
    kind: str
    server: str
    devices: tuple[str, ...]
    start_s: float
    start_error_s: float
    length_s: float
    idle_s: tuple[float, ...]
    cause: str
    detail: str
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    running: float | None = None
    kv_used: float | None = None
    prompts: float | None = None
    prompts_usual: float | None = None


@dataclass(frozen=True, slots=True)
class Correlation:
    """Of ``measure`` (length or idle seconds of the gaps) with ``against``, over ``n`` valleys.

    They count as ``n_independent``. ``rho`` and its interval are None under eight valleys, or where one does not vary.
    With prompt length it is that of equally many prompts: the longer a gap, the more requests come meanwhile, and the
    longer is the longest of them. ``may_follow``: no more prompt tokens came with the gaps than with ordinary time.
    """

    measure: str
    against: str
    n: int
    n_independent: float | None = None
    rho: float | None = None
    low: float | None = None
    high: float | None = None
    may_follow: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether its interval leaves out zero, and it is not the gap that makes the other."""
        return self._apart and not self.may_follow

    @property
    def _apart(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)

    def lacks(self, rho: float) -> bool:
        """Whether there is no sign of it, and one as strong as ``rho`` would have shown."""
        return self.low is not None and self.high is not None and not self._apart and not self.low <= rho <= self.high


@dataclass(frozen=True, slots=True)
class Trend:
    """One group's correlations, each with ``confidence``; ``sentence`` is "" where nothing is clear."""

    kind: str
    server: str
    devices: tuple[str, ...]
    valleys: int
    confidence: float
    correlations: tuple[Correlation, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Period:
    """Valleys of one group that recur: ``times`` within the newest ``valleys``, every ``period_s`` give or take
    ``spread_s`` (the standard deviation, by the median). ``strength`` is the autocorrelation of the starts at that lag,
    in 0..1: the share of the starts that another one follows. ``cause`` is that of most of them, with its detail."""

    kind: str
    server: str
    devices: tuple[str, ...]
    period_s: float
    spread_s: float
    times: int
    valleys: int
    strength: float
    cause: str
    detail: str

    @property
    def sentence(self) -> str:
        return f"every {self.period_s:.3g} s (±{max(self.spread_s, 0.01):.2g}), {self.times} times"
