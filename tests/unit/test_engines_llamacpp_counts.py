"""llama-server's token counters never tell more than was made while it was watched, whatever ends between answers."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptop_collectors.collector import Batch
from gaptop_collectors.engines.http import Answer
from gaptop_collectors.engines.llamacpp import LlamaCppEngine
from gaptop_collectors.engines.llamacpp_slots import Booked, Counted, Progress, Slot
from gaptop_collectors.target import HttpOptions, Server

CHUNK = 8


@dataclass(slots=True)
class Work:
    """One slot and its task."""

    busy: bool = False
    task: int | None = None
    prompt: int = 0
    answer: int = 0
    processed: int = 0
    decoded: int = 0


@dataclass(slots=True)
class SimulatedServer:
    """llama-server's two paths: batches of prompt chunks and single tokens; generated tokens are booked at a request's
    end, prompt tokens with the next batch that has an output. ``keeps``: as builds up to 2025 do it, a slot shows the
    generated tokens of its last task until the new prompt is done, and a prompt's progress is neither told nor booked
    before that."""

    rng: random.Random
    slots: list[Work]
    keeps: bool = False
    restless: int = 0
    """Most batches between two answers."""
    predicted: int = 0
    computed: int = 0
    queued: int = 0
    tasks: int = 0
    generated: int = 0
    processed: int = 0
    draining: bool = False
    seen_at_slots: tuple[int, int] = field(default=(0, 0))

    def move(self, batches: int) -> None:
        for _ in range(batches):
            if not self.draining:
                self._arrive()
            self._batch()

    def _arrive(self) -> None:
        for slot in self.slots:
            if not slot.busy and self.rng.random() < 0.5:
                self.tasks += 1
                slot.busy, slot.task, slot.processed = True, self.tasks, 0
                slot.prompt, slot.answer = self.rng.randint(1, 3 * CHUNK), self.rng.randint(1, 40)
                if not self.keeps:
                    slot.decoded = 0

    def _batch(self) -> None:
        output = False
        for slot in self.slots:
            if not slot.busy:
                continue
            if slot.processed < slot.prompt:
                chunk = min(CHUNK, slot.prompt - slot.processed)
                slot.processed += chunk
                self.processed += chunk
                self.queued += chunk
                if slot.processed < slot.prompt:
                    continue
                slot.decoded = 0
            output = True
            slot.decoded += 1
            self.generated += 1
            if slot.decoded >= slot.answer or self.rng.random() < 0.02:  # or its client went away
                self.predicted += slot.decoded
                slot.busy = False
                if not self.keeps:
                    slot.decoded = slot.processed = 0
        if output:
            self.computed, self.queued = self.computed + self.queued, 0

    def get(self, path: str, *, timeout: float | None = None) -> Answer:
        """As the collector's endpoint answers: something may happen before each answer."""
        if path != "/props":
            self.move(self.rng.choice((0, 0, 0, self.rng.randint(0, self.restless))))
        if path == "/metrics":
            return answered(self._metrics())
        if path == "/slots":
            self.seen_at_slots = self.generated, self.processed
            return answered(json.dumps([self._slot(n, each) for n, each in enumerate(self.slots)]))
        return answered("", status=404)

    def close(self) -> None:
        pass

    def _metrics(self) -> str:
        values = {
            "prompt_tokens_total": self.computed,
            "tokens_predicted_total": self.predicted,
            "n_decode_total": self.generated,
            "requests_processing": sum(slot.busy for slot in self.slots),
            "requests_deferred": 0,
        }
        return "".join(f"# TYPE llamacpp:{k} counter\nllamacpp:{k} {v:.6g}\n" for k, v in values.items())

    def _slot(self, number: int, slot: Work) -> dict[str, Any]:
        found: dict[str, Any] = {"id": number, "n_ctx": 4096, "is_processing": slot.busy}
        if slot.task is not None:
            found |= {"id_task": slot.task, "next_token": [{"n_decoded": slot.decoded}]}
            if not self.keeps:
                found |= {"n_prompt_tokens_processed": slot.processed}
        return found


def answered(text: str, status: int = 200) -> Answer:
    now = time.monotonic_ns()
    return Answer(status, {}, text.encode(), now, now, now, now, True)


def counted(predicted: float) -> Counted:
    return Counted(Booked(predicted))


def watching(server: SimulatedServer) -> LlamaCppEngine:
    engine = LlamaCppEngine(Server("http://127.0.0.1:1", "llamacpp"), HttpOptions())
    engine._endpoint = server  # type: ignore[assignment]
    return engine


def told(messages: Any) -> tuple[float, float]:
    values = {k: c[0] for each in messages if isinstance(each, Batch) for k, c in each.values.items()}
    decode, prompt = values["tokens.decode"], values["tokens.prompt"]
    assert decode is not None
    assert prompt is not None
    return decode, prompt


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    slots=st.integers(1, 6),
    keeps=st.booleans(),
    booked=st.sampled_from([0, 4321, 999_950, 1_234_560]),
    ran=st.integers(0, 200),
    restless=st.integers(0, 12),
    looks=st.lists(st.integers(0, 60), max_size=25),
)
def test_no_more_than_was_made_since_the_first_look_and_all_of_it_in_the_end(
    seed: int, slots: int, keeps: bool, booked: int, ran: int, restless: int, looks: list[int]
) -> None:
    server = SimulatedServer(
        random.Random(seed), [Work() for _ in range(slots)], keeps, restless, predicted=booked, computed=booked
    )
    server.move(ran)  # gaptop comes at any moment of a server's life
    engine = watching(server)
    assert told(engine.open()) == (0, 0)
    before = server.seen_at_slots
    based = engine._progress.based
    shown = sum(slot.decoded for slot in server.slots if slot.busy)
    last = (0.0, 0.0)
    server.draining = False
    for index, batches in enumerate([*looks, 200, 0, 0]):
        server.draining = index >= len(looks)
        server.move(batches)
        now = told(engine.sample())
        made = tuple(each - was for each, was in zip(server.seen_at_slots, before, strict=True))
        assert now[0] >= last[0]
        assert now[1] >= last[1]
        rounding = 0 if max(server.predicted, server.computed) < 1e6 else 10
        assert now[0] <= made[0] + rounding, "generated tokens that nobody made since the first look"
        if not keeps:  # a build that tells a prompt only when it is done tells all of it then
            assert now[1] <= made[1] + rounding, "prompt tokens that nobody computed since the first look"
        last = now
    rounding *= 3  # a difference is told once it is more than the rounding of both its ends
    if based and not keeps:
        assert last[0] >= made[0] - rounding
        assert last[1] >= made[1] - rounding
    elif based:
        assert last[0] >= made[0] - rounding - shown, "only what running slots showed then may be another task's"


class Scripted(SimulatedServer):
    """One request of 400 tokens ends between two answers of the first look."""

    ends_before = ""

    def get(self, path: str, *, timeout: float | None = None) -> Answer:
        if path == self.ends_before:
            self.ends_before = ""
            self.predicted += self.slots[0].decoded
            self.slots[0].busy, self.slots[0].decoded = False, 0
        return super().get(path, timeout=timeout)


@pytest.mark.parametrize("path", ["/slots", "/metrics"])
def test_a_request_that_ends_within_the_first_look_is_not_made_after_it(path: str) -> None:
    server = Scripted(random.Random(0), [Work(True, 1, 8, 401, 8, 400)], draining=True)
    server.generated = server.predicted = 5000
    server.ends_before = path
    engine = watching(server)
    engine.open()
    assert told(engine.sample()) == (0, 0)


def test_a_new_task_does_not_inherit_its_slot_s_tokens() -> None:
    # Builds up to 2025: the last task's 200 tokens, of which 50 are news, are shown until the new prompt is done.
    progress = Progress()
    progress.feed([Slot(0, 512, True, 1, 0, 0, 150)], counted(1000), counted(1000))
    progress.feed([Slot(0, 512, True, 2, 0, 0, 200)], counted(1000))
    progress.feed([Slot(0, 512, True, 2, 0, 0, 200)], counted(1200))
    assert progress.decode == 50
    progress.feed([Slot(0, 512, True, 2, 0, 0, 30)], counted(1200))
    assert progress.decode == 80
    progress.feed([Slot(0, 512, False, 2, 0, 0, 40)], counted(1240))
    assert progress.decode == 90


def test_a_new_task_s_own_tokens_count_when_they_move() -> None:
    progress = Progress()
    progress.feed([Slot(0, 512, True, 1, 0, 8, 150)], counted(1000), counted(1000))
    progress.feed([Slot(0, 512, True, 2, 0, 8, 170)], counted(1155))
    assert progress.decode == 20, "five of the last task that nobody saw are among them, for all that is known"
    progress.feed([Slot(0, 512, True, 2, 0, 8, 180)], counted(1155))
    assert progress.decode == 180
    progress.feed([Slot(0, 512, True, 2, 0, 8, 190)], counted(1155))
    progress.feed([Slot(0, 512, False, 2, 0, 0, 0)], counted(1355))
    assert progress.decode == 205


def test_a_new_task_s_tokens_count_at_once_where_slots_are_cleared() -> None:
    progress = Progress()
    progress.feed([Slot(0, 512, True, 1, 0, 8, 5), Slot(1, 512, False, 0, 0, 0, 0)], Counted())
    progress.feed([Slot(0, 512, True, 2, 0, 8, 20), Slot(1, 512, False, 0, 0, 0, 0)], Counted())
    assert progress.decode == 20
