"""Which of several tensor-parallel ranks came late, block by block: the others can do nothing but wait for it.

Ranks take every step together, so that in ordinary serving all do the same at the same time. Their stacks are sampled
at different moments: only over blocks that hold several samples of each can they be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Floats, SeriesId, ThreadId
from gaptop.valleys import reading
from gaptop.valleys.evidence import RankView, RankViews
from gaptop.valleys.gather_host import GRAINS, MIN_SEEN, UNSURE, strangest
from gaptop.valleys.host_view import BUSY, HOST_WORK, SYNC, WAITS
from gaptop.valleys.scope import ProcessRef, Scope
from gaptop_collectors.signals import series_key

BLOCK: Final = 0.25
"""Seconds of a block at least."""

BLOCKS: Final = 64
"""Blocks of a stretch at most, so that a long one costs no more."""

BESIDE: Final = 0.25
"""Work of a rank's peers that is still waiting: half of what counts as being at work."""

LATE: Final = HOST_WORK | {"other"}
"""What a rank does that is not in the step's device work yet; code that no rule knows is no wait either."""

WAITING: Final = SYNC | WAITS
_TENSOR: Final = re.compile(r"_TP(\d+)")
_GROUP: Final = re.compile(r"_(?:DP|PP)\d+")


def ranks(timeline: Timeline, scope: Scope, start: float, end: float) -> RankViews:
    """The ranks of the stretch's server; none where it has fewer than two, or stages that work one after the other.
    Where not all of their processes were seen, each device has one."""
    seen = _of_ranks(scope.stacks)
    states = _of_ranks(scope.states)
    known = {**states, **seen}
    total = max(len(known), len(scope.devices))
    if not known or total < 2 or len({tuple(_GROUP.findall(ref.name)) for ref in known.values()}) > 1:
        return RankViews()
    on_cpu = {pid: _state(timeline, ref, "host.oncpu", start, end) for pid, ref in states.items()}
    asleep = frozenset(pid for pid, share in on_cpu.items() if share is not None and share <= BESIDE)
    late, together = _late(timeline, seen, asleep, start, end)
    return RankViews(
        total=total,
        stacks=len(late),
        skewed=together,
        led=all(ref.role == "worker" for ref in known.values()),
        ranks=tuple(
            RankView(
                name=_name(ref),
                late=late.get(pid, (None, ""))[0],
                doing=late.get(pid, (None, ""))[1],
                strange=_strange(timeline, seen.get(pid), late.get(pid, (None, ""))[1], start, end),
                wants_cpu=_state(timeline, states.get(pid), "host.runqueue_wait", start, end),
                busy=_busy(timeline, scope, pid, start, end),
            )
            for pid, ref in sorted(known.items())
        ),
    )


def _of_ranks(refs: Sequence[ProcessRef]) -> dict[int, ProcessRef]:
    """Workers, and an engine that runs the model of a rank itself: its title says which (SGLang)."""
    return {ref.pid: ref for ref in refs if ref.role == "worker" or (ref.role == "engine" and _TENSOR.search(ref.name))}


def _name(ref: ProcessRef) -> str:
    match = _TENSOR.search(ref.name)
    return f"rank {match[1]} (pid {ref.pid})" if match else f"the rank of pid {ref.pid}"


def _late(
    timeline: Timeline, refs: Mapping[int, ProcessRef], asleep: frozenset[int], start: float, end: float
) -> tuple[dict[int, tuple[float | None, str]], float | None]:
    """By pid, of the ranks that were seen: the share of the judged blocks in which that rank was late, and what it
    mostly did then; and the share in which any was. A block is judged where all of these ranks were seen in it.
    ``asleep``: ranks that were not on a core, so that code of theirs that no rule knows waits."""
    error = max((timeline.sources[ref.source].info.error for ref in refs.values()), default=0.0)
    if end - start < UNSURE * error:
        return {}, None
    threads = {pid: ThreadId(ref.source, ref.main_tid) for pid, ref in refs.items()}
    count = max(1, min(BLOCKS, int((end - start) / max(BLOCK, GRAINS * error))))
    columns = {pid: timeline.share_columns(thread, start, end, count) for pid, thread in threads.items()}
    columns = {pid: item for pid, item in columns.items() if item.seconds.sum() >= MIN_SEEN * (end - start)}
    unjudged: dict[int, tuple[float | None, str]] = dict.fromkeys(columns, (None, ""))
    if len(columns) < 2:
        return unjudged, None
    least = MIN_SEEN * (end - start) / count
    totals = {pid: item.seconds.sum(axis=1) for pid, item in columns.items()}
    judged = np.logical_and.reduce([total >= least for total in totals.values()])
    if judged.sum() < MIN_SEEN * count:
        return unjudged, None

    def share(pid: int, names: frozenset[str]) -> Floats:
        item = columns[pid]
        mine = [index for index, name in enumerate(item.activities) if name in names]
        found: Floats = item.seconds[:, mine].sum(axis=1) / np.maximum(totals[pid], 1e-9)
        return found

    works = {pid: share(pid, HOST_WORK if pid in asleep else LATE) for pid in columns}
    at_work = {pid: part >= BUSY for pid, part in works.items()}
    waiting_in = {pid: WAITING | {"other"} if pid in asleep else WAITING for pid in columns}
    waits = {pid: (works[pid] <= BESIDE) & (share(pid, waiting_in[pid]) >= BUSY) for pid in columns}
    busy = np.sum(list(at_work.values()), axis=0)
    waiting = np.sum(list(waits.values()), axis=0)
    skewed = judged & (busy > 0) & (2 * busy <= len(columns)) & (busy + waiting == len(columns))
    blocks = float(judged.sum())
    found: dict[int, tuple[float | None, str]] = {}
    for pid, item in columns.items():
        mine = skewed & at_work[pid]
        did = {
            name: float(item.seconds[mine, index].sum()) for index, name in enumerate(item.activities) if name in LATE
        }
        doing = max(did, key=lambda name: (did[name], name)) if mine.any() else ""
        found[pid] = (float(mine.sum()) / blocks, doing)
    return found, float(skewed.sum()) / blocks


def _strange(timeline: Timeline, ref: ProcessRef | None, doing: str, start: float, end: float) -> str:
    return strangest(timeline, ThreadId(ref.source, ref.main_tid), start, end) if ref and doing == "other" else ""


def _state(timeline: Timeline, ref: ProcessRef | None, signal: str, start: float, end: float) -> float | None:
    if ref is None:
        return None
    return reading.seen_mean(timeline, SeriesId(ref.source, series_key(signal, tid=ref.main_tid)), start, end)


def _busy(timeline: Timeline, scope: Scope, pid: int, start: float, end: float) -> float | None:
    """How busy the rank's own device was; None where nobody knows which it is."""
    mine = [item.source for item in scope.devices if pid in (item.pids or ())]
    return reading.mean(timeline, "device.busy", mine, start, end, "mean") if len(mine) == 1 else None
