"""What the threads' evidence says in one look: the critical thread and the front end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gaptop.valleys.evidence import Evidence, Held, ThreadView

HOST_WORK: Final = frozenset(
    {"schedule", "prepare_batch", "launch", "sample", "detokenize", "tokenize", "grammar", "multimodal", "serialize"}
    | {"http", "gc", "log"}
)
"""Activities in which the host works and the device may have to wait for it."""

FRONT_WORK: Final = frozenset(
    {"detokenize", "tokenize", "grammar", "multimodal", "serialize", "http", "gc", "log", "other"}
)
"""Work of a front end; ``other`` counts there because any frame that is not a known wait blocks its event loop."""

SYNC: Final = frozenset({"device_sync", "copy", "collective"})
WAITS: Final = frozenset({"idle", "poll", "await_requests"})
BUSY: Final = 0.5
"""A thread that works for half of the time or more holds the others up."""

RESTS: Final = 0.25
"""Of its busy level: a device with work reads more, however small the batch, and also where it computes again."""

ON_CPU: Final = 0.8
"""A thread that is on a core this much of the time computes, also in code that no rule knows."""

MOSTLY_IDLE: Final = 0.4
"""With its edges a valley's mean may be just over half of the busy level."""

EMPTY: Final = 0.8
"""An engine that awaits requests for this much of the time holds none, whatever a gauge says."""


@dataclass(frozen=True, slots=True)
class CriticalView:
    """The thread that every step has to pass: shares by sort of activity (None: not seen), run states.

    ``work`` are work frames less the time that the thread slept in them on no lock (``dozed``); ``lock`` is a part of
    it. ``sync`` is that of the threads that own a device: an engine that waits for its worker process (``on_worker``)
    says nothing of what the worker waits for. Where that worker's stacks were not seen (``worker_unseen``), what only
    it can do is not seen either. ``waits`` and ``awaits`` (requests) are those of the engine, of several the least.
    """

    thread: ThreadView | None = None
    work: float | None = None
    work_activity: str = ""
    lock: float = 0.0
    dozed: float = 0.0
    dozed_on: str = ""
    sync: float | None = None
    sync_activity: str = ""
    sync_thread: ThreadView | None = None
    compiling: float | None = None
    loading: float | None = None
    transfer: float | None = None
    unrecognised: float = 0.0
    """Code that no rule knows, where the kernel did not tell whether it was on a core."""
    on_worker: float | None = None
    worker_unseen: bool = False
    waits: float | None = None
    awaits: float | None = None
    on_cpu: float | None = None
    always_on: bool = False
    """Whether it was on its core all the time in ordinary time too: being on one now does not tell work from
    busy-waiting then."""
    wants_cpu: float | None = None


@dataclass(frozen=True, slots=True)
class FrontView:
    """The busiest thread of the front end. ``busy`` is None where no front-end thread was seen."""

    busy: float | None
    activity: str
    name: str
    code: str = ""
    """Where ``activity`` is code that no rule knows: its innermost frame."""
    on_cpu: float | None = None


def _share(view: ThreadView, names: frozenset[str]) -> float:
    return sum(share for activity, share in (view.activities or {}).items() if activity in names)


def _one(view: ThreadView, name: str) -> float:
    return (view.activities or {}).get(name, 0.0)


def _top(view: ThreadView, names: frozenset[str]) -> str:
    found = [(share, activity) for activity, share in (view.activities or {}).items() if activity in names]
    return max(found)[1] if found else ""


def _working(view: ThreadView) -> frozenset[str]:
    """What counts as host work of a critical thread: unrecognised code too where the kernel says that it computes."""
    return HOST_WORK | {"other"} if _computes(view) else HOST_WORK


def _computes(view: ThreadView) -> bool:
    if view.on_cpu is not None and view.on_cpu >= ON_CPU:
        return True
    return view.held is not None and view.held.computed >= ON_CPU * max(_one(view, "other"), BUSY)


def _work(view: ThreadView) -> float:
    """Work frames less the time that the thread slept in them on no lock."""
    dozed = 0.0 if view.held is None else view.held.dozed
    return max(0.0, _share(view, _working(view)) - dozed)


def _sync(view: ThreadView) -> float:
    """Time in a sync less that in which what it waited for had come, and only a core was wanted."""
    return max(0.0, _share(view, SYNC) - (0.0 if view.held is None else view.held.sync_wanted))


def _unread(view: ThreadView) -> float:
    """Time in code that no rule knows, while nothing says whether it was on a core."""
    return _one(view, "other") if view.on_cpu is None else 0.0


def critical(evidence: Evidence) -> CriticalView:
    """The critical thread with the most host work; of several ranks the slowest one holds all up."""
    threads = [item for item in evidence.threads if item.critical]
    stacks = [item for item in threads if item.activities is not None]
    on_cpu = _most([item.on_cpu for item in threads])
    wants_cpu = _most([item.wants_cpu for item in threads])
    if not stacks:
        busiest = max(threads, key=lambda item: (item.on_cpu or 0.0, item.name)) if threads else None
        return CriticalView(thread=busiest, on_cpu=on_cpu, wants_cpu=wants_cpu)
    workers = any(item.role == "worker" for item in stacks)
    engines = [item for item in stacks if item.role != "worker"]
    worst = max(stacks, key=lambda item: (_work(item), _unread(item), item.name))
    # With worker processes the engine owns no device: whatever it waits for, it waits for them.
    owners = [item for item in stacks if not workers or item.role != "engine"]
    syncing = max(owners, key=lambda item: (_sync(item), item.name))
    held = worst.held or Held()
    on_worker = _most([_one(item, "worker_wait") for item in engines])
    blind = not workers and (on_worker or 0.0) >= BUSY

    def seen(share: float) -> float | None:
        return None if blind and share < BUSY else share

    return CriticalView(
        thread=worst,
        work=_work(worst),
        work_activity=_top(worst, _working(worst)),
        lock=held.lock,
        dozed=held.dozed,
        dozed_on=held.dozed_on,
        sync=seen(_sync(syncing)),
        sync_activity=_top(syncing, SYNC),
        sync_thread=syncing,
        compiling=seen(max(_one(item, "compile") for item in stacks)),
        loading=seen(max(_one(item, "load") for item in stacks)),
        transfer=seen(max(_one(item, "kv_transfer") for item in stacks)),
        unrecognised=_unread(worst),
        on_worker=on_worker,
        worker_unseen=blind,
        waits=min((_share(item, WAITS) for item in engines), default=None),
        awaits=min((_one(item, "await_requests") for item in engines), default=None),
        on_cpu=on_cpu if worst.on_cpu is None else worst.on_cpu,
        always_on=worst.on_cpu_before is not None and worst.on_cpu_before >= ON_CPU,
        wants_cpu=wants_cpu,
    )


def known_work(main: CriticalView) -> float:
    """The share of the time in which the thread was in work frames that a rule knows."""
    return 0.0 if main.thread is None else _share(main.thread, HOST_WORK)


def unread_share(main: CriticalView) -> float:
    """The share of the time in which the thread was in code that no rule knows, whether it computed there or not."""
    return 0.0 if main.thread is None else _one(main.thread, "other")


def rests_for_host(evidence: Evidence) -> bool:
    """Whether the device rested although requests ran all the time, while a critical thread did host work: then what
    keeps other requests out is not why."""
    running, busy = evidence.running, evidence.busy
    if busy is None or running is None or running.low < 1.0 or busy >= RESTS * (evidence.busy_level or 1.0):
        return False
    return (critical(evidence).work or 0.0) >= BUSY


def engine_alone(evidence: Evidence) -> float:
    """Host work of an engine that hands its ranks their steps and is none of them, as a share of the time."""
    engines = [item for item in evidence.threads if item.critical and item.role == "engine" and evidence.ranks.led]
    return max((_work(item) for item in engines), default=0.0)


def grammar_compiler(evidence: Evidence) -> tuple[ThreadView | None, float]:
    """The thread beside the critical ones that worked most on grammars, and its share of the time."""
    beside = [item for item in evidence.threads if not item.critical and item.role != "api"]
    most = max(beside, key=lambda item: (_one(item, "grammar"), item.name), default=None)
    return most, 0.0 if most is None else _one(most, "grammar")


def holds_none(evidence: Evidence) -> float | None:
    """The share of the time in which the engine was seen to await requests, where that proves that it held none.

    An engine with a request in hand takes steps. Its gauges are as old as its last step, so that they may claim running
    requests for ever; but one whose last step ran nothing and left some waiting does not wait for lack of requests.
    """
    awaits = critical(evidence).awaits
    if awaits is None or awaits < EMPTY * _idle_share(evidence):
        return None
    running, waiting = evidence.running, evidence.waiting
    if waiting is not None and waiting.last >= 1.0 and (running is None or running.last < 1.0):
        return None
    return awaits


def _idle_share(evidence: Evidence) -> float:
    """The share of a utilisation valley that its device idled: steps at its edges are no part of what is to be
    explained. 1 where that is not known, or little of it idled."""
    if evidence.kind != "utilisation" or evidence.busy is None or not evidence.busy_level:
        return 1.0
    idle = 1.0 - evidence.busy / evidence.busy_level
    return idle if idle >= MOSTLY_IDLE else 1.0


def front_end(evidence: Evidence) -> FrontView:
    """The busiest front-end thread. Stacks tell work from waiting; without them only CPU time does.

    In a server of one process the other threads may compute as well: idle ones say that the front end is idle, but a
    busy one says nothing without its stack.
    """
    best = FrontView(None, "", "")
    for item in evidence.threads:
        if item.role == "api" or (item.role == "server" and not item.critical):
            busy = _front_busy(item)
            if busy is not None and busy >= BUSY and item.role == "server" and item.activities is None:
                return FrontView(None, "", "")
            if busy is not None and (best.busy is None or busy > best.busy):
                best = FrontView(busy, _top(item, FRONT_WORK), item.name, item.unrecognised, item.on_cpu)
    return best


def unsure_front(evidence: Evidence) -> str:
    """What one of the front end's threads may have been at, though nothing shows that it worked: it was in code that no
    rule knows, or on a core while its stack says that it waits. Nothing where each was seen to wait."""
    for item in evidence.threads:
        if item.activities is None or not (item.role == "api" or (item.role == "server" and not item.critical)):
            continue
        strange, waits = _one(item, "other"), _share(item, WAITS - {"poll"})
        if strange >= BUSY:
            where = f" ({item.unrecognised})" if item.unrecognised else ""
            return f"what front-end thread {item.name} did in code that no rule knows, {strange:.0%} of the time{where}"
        if item.on_cpu is not None and item.on_cpu >= BUSY and waits >= BUSY:
            return (
                f"what kept front-end thread {item.name} on a core {item.on_cpu:.0%} of the time, in a frame that waits"
            )
    return ""


def _front_busy(view: ThreadView) -> float | None:
    if view.activities is not None:
        work = _share(view, FRONT_WORK)
        # The leaf of an idle event loop reads as "other": only the kernel can tell it from work in C.
        known = work - view.activities.get("other", 0.0) - (0.0 if view.held is None else view.held.dozed)
        return work if view.on_cpu is None or view.on_cpu >= BUSY else max(known, view.on_cpu)
    return view.on_cpu


def _most(values: list[float | None]) -> float | None:
    seen = [value for value in values if value is not None]
    return max(seen) if seen else None
