"""The evidence on one valley: plain numbers, each None where it was not seen. Causes are judged on these alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gaptop.valleys.model import ValleyKind

STANDSTILL: Final = 0.02
"""Under 2 % of the usual rate nothing moves."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge as it was read inside the valley, and its mean in the reference time before it."""

    mean: float
    low: float
    high: float
    first: float
    last: float
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The busiest way in or out of a device: bytes a second, and what is usual (None: not seen)."""

    signal: str
    says: str
    rate: float
    before: float | None


@dataclass(frozen=True, slots=True)
class Held:
    """What the stacks and the run states of a thread say together, as shares of the time that both saw. Each is the
    least that must have been: what may be chance is not in it."""

    lock: float = 0.0
    """In work frames, asleep on a futex: the interpreter's lock or another one."""
    dozed: float = 0.0
    """In work frames, asleep on anything else, or on what nobody tells."""
    dozed_on: str = ""
    sync_wanted: float = 0.0
    """In a sync, a copy or a collective, waiting for a core: what it waited for had come."""
    computed: float = 0.0
    """In code that no rule knows, on a core."""
    read: float = 0.0
    """Blocked on storage, and not in a sync."""


@dataclass(frozen=True, slots=True)
class Gil:
    """Who held the interpreter's lock: shares of the time for the thread itself and the one other that held it most.

    They are means over windows of ``window`` seconds, and may reach beyond the stretch.
    """

    own: float
    other: float
    name: str
    activity: str = ""
    window: float = 0.0


@dataclass(frozen=True, slots=True)
class Stay:
    """The longest time for which a critical thread kept one and the same stack: its ``share`` of what was seen.

    ``usual``: mean seconds of such times of the same ``activity`` in ordinary times, None where it was not seen.
    """

    seconds: float
    share: float
    activity: str
    frame: str
    usual: float | None


@dataclass(frozen=True, slots=True)
class Cores:
    """Whether the threads could have a core: what they wanted, what they may use, and who else used it.

    ``runnable`` (threads that ran or wanted to), ``allowed`` (cores) and ``used`` (cores, by its own threads) are those
    of the most crowded process.
    """

    runnable: float | None = None
    allowed: float | None = None
    used: float | None = None
    quota: float | None = None
    host: float | None = None
    host_busy: float | None = None
    steal: float | None = None
    steal_before: float | None = None
    frequency: float | None = None
    frequency_max: float | None = None
    pressure: float | None = None
    """Seconds a second in which some task of the server's cgroup waited for a core."""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """What a thread did during the valley (shares of the time that was seen) and before it.

    ``activities`` comes from stacks (py-spy), the shares of time after it from the kernel (/proc); each None where not
    seen. ``unrecognised`` is the innermost frame that it was in most of all that no rule knows. ``held`` is what both
    say together, None where either was not seen or there was nothing to tell apart.
    """

    role: str
    name: str
    critical: bool
    activities: dict[str, float] | None = None
    on_cpu: float | None = None
    on_cpu_before: float | None = None
    wants_cpu: float | None = None
    wants_cpu_before: float | None = None
    blocked_on_disk: float | None = None
    unrecognised: str = ""
    frames: Mapping[str, float] = field(default_factory=dict)
    """Shares of a critical thread's time in what only its frames tell (``gather_frames``)."""
    held: Held | None = None
    gil: Gil | None = None
    stay: Stay | None = None
    few: bool = False
    """Whether its stacks are only the few samples about a gap that is shorter than their doubt (``gather_near``)."""


@dataclass(frozen=True, slots=True)
class RankView:
    """One of several tensor-parallel ranks. ``late``: the share of the judged time in which it (or few others with it)
    did something else while its peers waited; ``doing``: the activity that this mostly was, ``strange`` its innermost
    frame where no rule knows it. ``busy`` is its own device's. Each None where not seen."""

    name: str
    late: float | None = None
    doing: str = ""
    strange: str = ""
    wants_cpu: float | None = None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class RankViews:
    """The ranks that every step needs, none where there are fewer than two. ``total`` there are, ``stacks`` of them
    were seen by their stacks; ``skewed``: the share of the judged time in which a minority came late. ``led``: an
    engine of its own hands them their steps, and is none of them."""

    total: int = 0
    stacks: int = 0
    skewed: float | None = None
    led: bool = True
    ranks: tuple[RankView, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything a cause may ask about one valley (or a slice of it). Rates are per second, shares in 0..1."""

    kind: ValleyKind
    engine: str
    start: float
    end: float
    # The device.
    busy: float | None = None
    busy_level: float | None = None
    devices: int = 0
    peers: int = 0
    """Devices that the valley is about, and the server's others."""
    peers_busy: float | None = None
    power_ratio: float | None = None
    power: float | None = None
    energy_ratio: float | None = None
    """Mean power by the energy counter, against the time before."""
    sm_ratio: float | None = None
    dram_ratio: float | None = None
    """Hardware counters (GPM or DCGM) against the time before: SM activity, memory traffic."""
    counters_fell: tuple[str, ...] = ()
    """Independent hardware counters that fell with the duty cycle."""
    power_every: float | None = None
    """Seconds between two readings of power."""
    moved: Traffic | None = None
    link: Traffic | None = None
    """The way that carries most in ordinary steps."""
    clock_ratio: float | None = None
    """SM clock against the time before, of the device that lost most: ranks wait for the slowest."""
    limit_share: float | None = None
    limit_share_before: float | None = None
    limit_reason: str = ""
    foreign: float | None = None
    foreign_before: float | None = None
    is_cpu: bool = False
    spinning: float | None = None
    """Share of the time of a CPU device's threads that was shown to be busy-waiting."""
    # The scheduler.
    running: Gauge | None = None
    waiting: Gauge | None = None
    waiting_why: str = ""
    """Where ``waiting`` was not read but follows from something else: from what."""
    deferred: Gauge | None = None
    gauges_every: float | None = None
    """Seconds between two movements of the server's gauges, where they move too rarely to tell of the stretch."""
    limit: float | None = None
    kv: Gauge | None = None
    hit_ratio: float | None = None
    hit_ratio_before: float | None = None
    """Share of the looked-up prompt tokens that the prefix cache held."""
    preemptions: float | None = None
    recomputed_flow: float | None = None
    """About how many tokens a second preempted requests had to compute again."""
    finished: float | None = None
    sleeping: float | None = None
    awake_for: float | None = None
    """Seconds from the moment at which the engine was last seen to wake up to the stretch's end."""
    in_flight: Gauge | None = None
    connections: Gauge | None = None
    unread: Gauge | None = None
    """Connections that wait for the front end: not accepted yet, or with bytes that it has not read."""
    # Progress.
    tokens_every: float | None = None
    """Seconds between two readings of the server's counters."""
    decode_rate: float | None = None
    decode_before: float | None = None
    prompt_rate: float | None = None
    prompt_before: float | None = None
    prompt_flow: float | None = None
    """Prompt tokens a second over the valley, with those that were booked right after it, less the usual."""
    prompt_late: bool = False
    """Whether a prompt is told of only when its prefill has ended, and nothing else tells of it before."""
    prompt_settled: bool = False
    """Whether the prompts were read again after the valley: what is booked at its end is in the flow."""
    prefilling: float | None = None
    stood_still: float = 0.0
    """Of a slice: seconds without any step that it is a part of."""
    step_rate: float | None = None
    step_before: float | None = None
    inner_progress: float | None = None
    """Steps (or tokens) against the time before, one reading away from both edges: those lie inside an interval."""
    scrape_latency: float | None = None
    scrape_before: float | None = None
    # The host.
    threads: tuple[ThreadView, ...] = ()
    stacks_seen: bool = False
    states_seen: bool = False
    stopped: tuple[str, ...] = ()
    compilers: float | None = None
    compilers_before: float | None = None
    children_rate: float | None = None
    children_before: float | None = None
    """CPU seconds a second of the server's children that have ended."""
    throttled_share: float | None = None
    throttled_before: float | None = None
    cores_used: float | None = None
    cores_used_before: float | None = None
    """Cores that the server's processes used, all together."""
    cores: Cores = Cores()
    ranks: RankViews = RankViews()
    major_faults: float | None = None
    major_faults_before: float | None = None
    young_seconds: float | None = None
    slow_calls: int = 0
    own_share: float | None = None
    """Share of the time that our own calls to these devices' driver took, above the usual."""

    @property
    def length(self) -> float:
        return self.end - self.start

    @property
    def demand(self) -> float | None:
        """Requests running and waiting, on average; None unless both were seen."""
        if self.running is None or self.waiting is None:
            return None
        return self.running.mean + self.waiting.mean

    @property
    def progress_ratio(self) -> float | None:
        """Decode (or step) rate against the time before; None where it was not seen then or now."""
        for rate, before in ((self.decode_rate, self.decode_before), (self.step_rate, self.step_before)):
            if rate is not None and before is not None and before > 0.0:
                return rate / before
        return None

    @property
    def frozen(self) -> bool | None:
        """Whether the engine took no step at all: then its gauges are as old as its last step."""
        if self.inner_progress is not None:
            return self.inner_progress <= STANDSTILL
        ratio = self.progress_ratio
        return None if ratio is None else ratio <= STANDSTILL

    @property
    def still(self) -> float:
        """Seconds without any step: of the stretch, or of what it is a part of."""
        return max(self.stood_still, self.length if self.frozen else 0.0)

    @property
    def device_idle(self) -> bool | None:
        """Whether the device was idle (under half of its busy level); None where no device was seen."""
        if self.busy is None:
            return None
        return self.busy < 0.5 * (self.busy_level or 1.0)
