"""Follows a stream tick by tick: finds the valleys, judges them, keeps the ledger, and says one sentence.

Deterministic: it reads no clock and works on tick lines alone, on cells of a fixed grid that all devices of a server
have settled, and on counter intervals that both their readings have closed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gaptop.recording.lines import Line, Source, Tick
from gaptop.timeline.timeline import Timeline
from gaptop.timeline.types import Floats, SourceView
from gaptop.valleys.accounts import Accounts
from gaptop.valleys.detect import Dip
from gaptop.valleys.dips import Dips, shallow
from gaptop.valleys.episode import Episode
from gaptop.valleys.gather import LOOK_AHEAD
from gaptop.valleys.hints import hints
from gaptop.valleys.model import Assessment, Rounded, Valley, ValleyKind
from gaptop.valleys.plateau import explained, level_hints
from gaptop.valleys.progress import Stall
from gaptop.valleys.ranks import narrowed, qualified, together
from gaptop.valleys.ready import DETECT_PATIENCE, VERDICT_PATIENCE, awaited, patience_for, settled_until
from gaptop.valleys.scope import Scope, label_of, scopes
from gaptop.valleys.sentence import sentence
from gaptop.valleys.tracks import DeviceTrack, ProgressTrack
from gaptop.valleys.verdict import PENDING, pending, too_early
from gaptop.valleys.windows import misplaced

TICK: Final = 0.25
"""Seconds of stream time between two looks."""

REJUDGE: Final = 1.0
"""Seconds between two looks at an open valley's cause; a long one is looked at every twentieth of its length."""

TOGETHER: Final = 2.0
"""Dips of several devices that begin within this many windows are one valley."""


class Analyst:
    """Give it every line after the Timeline has taken it; ``assessment`` is what is known now."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._devices: dict[str, DeviceTrack] = {}
        self._servers: dict[str, ProgressTrack] = {}
        self._scopes: tuple[Scope, ...] = ()
        self._views: dict[str, SourceView] = {}
        self._stale = True
        self._open: list[Episode] = []
        self._accounts = Accounts(timeline)
        self._dips = Dips()
        self._last = -math.inf
        self._hints: tuple[str, ...] = ()
        self._hinted = -math.inf
        self.assessment = Assessment(now=0.0, sentence="nothing measured yet")

    def apply(self, line: Line) -> Assessment | None:
        """The new assessment where this line brought one, else None."""
        if isinstance(line, Source):
            self._stale = True
        if not isinstance(line, Tick) or self._timeline.now - self._last < TICK - 1e-6:
            return None
        self._last = self._timeline.now
        self._advance(ended=False)
        return self._assess()

    def finish(self) -> Assessment:
        """The stream ended: nothing is waited for any longer. What had not ended by then stays open, and not final."""
        self._advance(ended=True)
        for episode in sorted(self._open, key=lambda item: item.kind, reverse=True):
            self._judge(episode, final=True)
        self._retire()
        return self._assess(ended=True)

    # Detection.

    def _advance(self, *, ended: bool) -> None:
        self._views = dict(self._timeline.sources)
        if self._stale:
            self._describe()
        for scope in self._scopes:
            self._devices_of(scope, ended=ended)
            self._shallow_of(scope)
            for source in scope.metrics:
                self._progress_of(scope, source, ended=ended)
        self._accounts.watch(track.watched for track in self._devices.values())
        self._dips.settle(self._timeline, ended=ended)
        for episode in sorted(self._open, key=lambda item: item.kind, reverse=True):
            self._follow(episode)
        self._retire()

    def _describe(self) -> None:
        self._stale = False
        self._scopes = scopes(self._timeline)
        for scope in self._scopes:
            for device in scope.devices:
                track = self._devices.setdefault(device.source, DeviceTrack(device.source, device.label))
                track.describe(self._views[device.source].info)
            for source in scope.metrics:
                server = self._servers.setdefault(source, ProgressTrack(source))
                server.describe(self._views[source].info)
                server.detector.silences = not scope.devices
        for episode in self._open:
            whole = self._whole(episode)
            episode.scope = narrowed(whole, [dip.source for dip in episode.dips]) if episode.dips else whole

    def _whole(self, episode: Episode) -> Scope:
        """Everything of the server that an episode is about; its own scope may be a part of that."""
        for scope in self._scopes:
            if episode.dips and any(device.source == episode.dips[0].source for device in scope.devices):
                return scope
            if not episode.dips and scope.metrics == episode.scope.metrics:
                return scope
        return episode.scope

    def _settled(self, source: str, patience: float) -> float:
        view = self._views.get(source)
        newest = None if view is None else view.newest
        if source in self._devices:
            latest = [self._timeline.latest(item) for item in self._timeline.ids("device.busy", source)]
            newest = max((item[0] for item in latest if item is not None), default=None)
        return settled_until(self._timeline, view, newest, patience)

    def _devices_of(self, scope: Scope, *, ended: bool) -> None:
        """All devices of a server in step, cell by cell, so that their common valleys are found as such; but those that
        tell more rarely than others are waited for each by itself, and hold nobody up."""
        tracks = [self._devices[device.source] for device in scope.devices]
        slow = [track for track in tracks if self._is_slow(track.source)]
        for group in ([track for track in tracks if track not in slow], *([track] for track in slow)):
            self._in_step(scope, group, ended=ended)

    def _is_slow(self, source: str) -> bool:
        return patience_for(self._views[source].info, DETECT_PATIENCE) > DETECT_PATIENCE

    def _in_step(self, scope: Scope, tracks: Sequence[DeviceTrack], *, ended: bool) -> None:
        if not tracks:
            return
        settled = {track.source: self._settled(track.source, DETECT_PATIENCE) for track in tracks}
        blocks: list[tuple[DeviceTrack, int, Floats]] = []
        for track in tracks:
            block = track.read(self._timeline, settled[track.source] if ended else min(settled.values()))
            if block is not None:
                blocks.append((track, *block))
        if not blocks:
            return
        first = min(start for _, start, _ in blocks)
        end = max(start + len(values) for _, start, values in blocks)
        for cell in range(first, end):
            for track, start, values in blocks:
                if 0 <= cell - start < len(values):
                    began, _ = track.feed(cell, float(values[cell - start]))
                    if began is not None:
                        self._begin_dip(scope, track, began)

    def _shallow_of(self, scope: Scope) -> None:
        for device in scope.devices:
            track, info = self._devices[device.source], self._views[device.source].info
            for run in track.shallow:
                dip = shallow(track.label, run, track.rounding, info.error, misplaced(info))
                self._dips.add(dip, device, run.steady[1])
            track.shallow.clear()

    def _begin_dip(self, scope: Scope, track: DeviceTrack, dip: Dip) -> None:
        window = track.detector.window
        for episode in self._open:
            mine = bool(episode.dips) and together(scope, episode.dips[0].source, dip.source)
            near = abs(dip.start - episode.first_start) <= TOGETHER * window
            if mine and near and all(item.source != dip.source for item in episode.dips):
                episode.dips.append(dip)
                episode.scope = narrowed(scope, [item.source for item in episode.dips])
                episode.judged_at = -1.0
                return
        part = narrowed(scope, [dip.source])
        episode = self._new("utilisation", part, dip.start, window, track.ordinary.before(dip.start))
        episode.dips.append(dip)

    def _progress_of(self, scope: Scope, source: str, *, ended: bool) -> None:
        track = self._servers[source]
        for item in track.read(self._timeline):
            began, _ = track.feed(item)
            if began is not None:
                self._begin_stall(scope, track, began)
        if not ended:
            track.detector.interrupted(self._settled(source, DETECT_PATIENCE))

    def _begin_stall(self, scope: Scope, track: ProgressTrack, stall: Stall) -> None:
        window = self._views[track.source].info.period
        episode = self._new("progress", scope, stall.start, window, track.ordinary.before(stall.start))
        episode.stall = stall
        episode.in_tokens = track.in_tokens

    def _new(
        self, kind: ValleyKind, scope: Scope, start: float, window: float, before: tuple[tuple[float, float], ...]
    ) -> Episode:
        unique = self._accounts.new_id(kind, start)
        server = label_of(scope.metrics[0]) if scope.metrics else "server"
        episode = Episode(unique, kind, scope, server, start, window, before)
        self._open.append(episode)
        return episode

    # Judging.

    def _follow(self, episode: Episode) -> None:
        now, end = self._timeline.now, episode.end
        valley = episode.valley
        if end is None:
            pause = max(REJUDGE, (episode.reached() - episode.start) / 20)
            if valley is None or now - episode.judged_at >= pause - 1e-6:
                self._judge(episode, final=False)
            return
        settled = all(self._told_until(source) >= end + LOOK_AHEAD for source in episode.scope.all_sources)
        if settled and not self._awaits(episode):
            self._judge(episode, final=True)
        elif valley is None or valley.end_s is None or self._more_came(episode, valley):
            self._judge(episode, final=False)

    def _judge(self, episode: Episode, *, final: bool) -> None:
        """What is still open when the stream ends is judged as a whole, but it has no end and is not final."""
        valley = episode.judge(self._timeline, final=final)
        episode.final = final and valley.end_s is not None
        lasts = episode.stall.became_level if episode.stall else any(dip.became_level for dip in episode.dips)
        said = qualified(valley.verdict, episode.scope, self._whole(episode))
        if not final:
            said = pending(said, self._awaited(episode))
        episode.valley = replace(valley, final=episode.final, became_level=lasts, verdict=said)

    def _awaited(self, episode: Episode) -> tuple[str, ...]:
        return awaited(episode.scope, self._told_until, episode.start, episode.reached())

    def _more_came(self, episode: Episode, valley: Valley) -> bool:
        return valley.verdict.detail == PENDING and valley.verdict.doubt != too_early(self._awaited(episode))

    def _told_until(self, source: str) -> float:
        return self._settled(source, VERDICT_PATIENCE)

    def _awaits(self, episode: Episode) -> bool:
        """A progress valley is not settled while a utilisation valley of the same time is still being judged."""
        return episode.kind == "progress" and any(
            item.kind == "utilisation" and not item.final and _of_one_time(item, episode) for item in self._open
        )

    def _retire(self) -> None:
        """Final valleys leave the work list."""
        done = [episode for episode in self._open if episode.final]
        if done:
            self._open = [episode for episode in self._open if not episode.final]
            self._accounts.settle(done, self._open, self._timeline.now)

    # What is known now.

    def _assess(self, *, ended: bool = False) -> Assessment:
        now, accounts = self._timeline.now, self._accounts
        going = accounts.open_ones(self._open, now)
        valleys = sorted((*accounts.final, *(item for item, _ in going)), key=lambda item: (item.start_s, item.id))
        tracks = [self._devices[key] for key in sorted(self._devices)]
        levels = [*accounts.levels, *(item for item, _ in going if item.became_level)]
        plateaus = [
            explained(self._timeline, item, self._scope_of(track.source), levels, track.rounding)
            for track in tracks
            for item in track.plateaus.all()
        ]
        if now - self._hinted >= REJUDGE - 1e-6:
            self._hinted = now
            self._hints = hints(self._timeline, self._scopes)
        recurring = accounts.recurring
        recurring.look(now, ended=ended)
        state = Assessment(
            now=now,
            valleys=tuple(valleys),
            plateaus=tuple(plateaus),
            ledger=accounts.rows([track.time for track in tracks], going),
            hints=(*self._hints, *level_hints(levels)),
            ended=ended,
            dips=self._dips.all(),
            dip_counts=self._dips.counts(),
            rounding=tuple(Rounded(track.label, track.rounding, track.learnt) for track in tracks),
            watched=tuple(track.watched for track in tracks),
            samples=recurring.samples,
            trends=recurring.trends,
            periods=recurring.periods,
        )
        self.assessment = replace(state, sentence=sentence(self._timeline, state))
        return self.assessment

    def _scope_of(self, device: str) -> Scope | None:
        return next((scope for scope in self._scopes if any(item.source == device for item in scope.devices)), None)


def _of_one_time(first: Episode, second: Episode) -> bool:
    ends = [math.inf if item.end is None else item.end for item in (first, second)]
    return first.scope.metrics == second.scope.metrics and max(first.start, second.start) < min(ends)
