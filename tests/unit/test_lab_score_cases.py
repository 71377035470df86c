"""Random cases: the same for the same seed, over wide ranges, and run as a user would get them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from gaptop.cli.lab_score import score
from gaptop.lab.core.loads import Arrivals, Burst, Clients
from gaptop.lab.score.cases import LONGEST, MISSING, SHORTEST, START, Case, case, pyspy, without
from gaptop.lab.score.conditions import KINDS
from gaptop.lab.score.pool import FULL, Broken, score_all
from gaptop.lab.score.run import run
from gaptop.lab.score.tally import ELEVEN

QUICK = 0
"""A seed of a short and plain case: one compile of 4.6 s in 40 s."""


def test_a_case_is_its_seed() -> None:
    assert case(7) == case(7)
    assert case(7) != case(8)


def test_cases_hold_all_causes_windows_and_rates() -> None:
    made = [case(seed) for seed in range(300)]
    causes = Counter(cause for item in made for cause in item.scenario.causes)
    assert set(causes) == set(ELEVEN) == set(KINDS)
    assert min(causes.values()) > 0.5 * max(causes.values())
    assert {round(item.view.window_s, 3) for item in made} == {0.167, 0.2, 0.5}
    assert {item.view.rounding for item in made} == {"nearest", "down"}
    assert all(0.125 <= item.view.scrape_s <= 0.5 for item in made)
    assert all(SHORTEST <= item.seconds <= LONGEST for item in made)
    assert {item.scenario.engine.tensor_parallel_size for item in made} == {1, 2, 4}
    assert len({item.scenario.device for item in made}) == 3


def test_every_request_of_a_case_can_run() -> None:
    """A request longer than the model's context or the KV cache could never be admitted."""
    for seed in range(300):
        made = case(seed)
        engine = made.scenario.engine
        for load in made.scenario.loads:
            assert isinstance(load, Arrivals | Burst | Clients)
            prompt, output = load.prompt, load.output
            longest = prompt[1] + output[1]
            assert longest <= engine.max_model_len, seed
            assert longest <= engine.num_blocks * engine.block_size, seed
            assert engine.chunked or longest <= engine.max_num_batched_tokens, seed


def test_conditions_begin_inside_the_stream_and_after_its_warm_up() -> None:
    """But for those that the stream begins in, and what overlaps with them."""
    for seed in range(300):
        made = case(seed)
        attached = made.placed[0].at < START
        assert all(item.at >= START + 7.0 for item in made.placed[2 * attached :]), seed
        for item in made.placed:
            for fault in item.added.faults:
                assert item.at <= fault.at < START + made.seconds, seed


def test_full_evidence_is_what_each_missing_source_is_taken_from() -> None:
    full = case(QUICK).view
    assert full.dialect == "vllm"
    assert (full.nvml, full.states, full.host, full.refresh) == (True, True, True, "step")
    assert full.stacks_hz is not None
    assert full.pyspy is not None
    views = [without(full, name) for name in MISSING]
    assert full not in views
    assert len(set(views)) == len(views)


def test_threads_are_few_or_many_and_their_samples_cheap_or_dear() -> None:
    drawn = [pyspy(Random(seed)) for seed in range(300)]
    threads = sorted(item.idle_threads for item in drawn)
    assert threads[0] < 3
    assert 100 < threads[-1] <= 153
    assert threads[150] < 40  # most servers have a few dozen
    assert max(item.thread for item in drawn) > 4 * min(item.thread for item in drawn)


def test_what_makes_evidence_worse_is_drawn_over_its_whole_range() -> None:
    views = [case(seed).view for seed in range(200)]
    for name, most in (("strange", 0.1), ("failed", 0.03), ("ring_late", 0.05), ("ring_lost", 0.005)):
        drawn = sorted(float(getattr(item, name)) for item in views)
        assert 0.0 < drawn[0] < 0.1 * most, name
        assert 0.9 * most < drawn[-1] <= most, name
    errors = sorted(item.clock_error_s for item in views)
    assert 0.001 <= errors[0] < 0.0015
    assert 0.025 < errors[-1] <= 0.03
    assert 60 < sum(item.sync_spins for item in views) < 140
    assert 25 < sum(case(seed).scenario.engine.busy_poll for seed in range(200)) < 75


def test_a_plain_case_is_found_and_named() -> None:
    ran = run(case(QUICK))
    assert [item.truth for item in ran.matched.judged if item.right] == ["compiling"]
    assert ran.score.missed == ()
    (told,) = ran.score.booked
    assert told.ledger_s == pytest.approx(told.true_s, abs=0.01 * told.seen_s)


def test_the_score_is_the_same_in_one_process_and_in_two() -> None:
    alone = score_all([QUICK], ("nvml",), 1, 1)
    pooled = score_all([QUICK], ("nvml",), 1, 2)
    assert not isinstance(alone[0], Broken)
    assert not isinstance(pooled[0], Broken)
    for name in (FULL, "nvml"):
        assert alone[0][name].judged == pooled[0][name].judged
        assert alone[0][name].found == pooled[0][name].found


def test_a_case_that_fails_is_told_and_hides_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(seed: int) -> Case:
        if seed != QUICK:
            raise ZeroDivisionError("so it is")
        return case(seed)

    monkeypatch.setattr("gaptop.lab.score.pool.case", made)
    ask = ["--cases", "2", "--seed", str(QUICK), "--jobs", "1", "--missing", "0"]
    told = CliRunner().invoke(score, [*ask, "--json"])
    assert told.exit_code == 70
    assert (
        f"1 of 2 cases failed and are not in the score (seed {QUICK + 1}: ZeroDivisionError: so it is)" in told.stderr
    )
    body = json.loads(told.stdout)
    assert body["failed"] == [{"seed": QUICK + 1, "error": "ZeroDivisionError: so it is"}]
    assert body["by_cause"]["compiling"]["right"] == 1
    none = CliRunner().invoke(score, ["--cases", "1", "--seed", str(QUICK + 1), "--jobs", "1"])
    assert none.exit_code == 70


def test_json_has_the_keys_that_the_gate_reads() -> None:
    result = CliRunner().invoke(
        score, ["--cases", "1", "--seed", str(QUICK), "--jobs", "1", "--missing", "0", "--json"]
    )
    assert result.exit_code == 0
    body = json.loads(result.output)
    assert body["by_missing_source"] == {}
    assert body["by_cause"]["compiling"]["right"] == 1
    assert body["by_cause"]["no_demand"]["f1"] is None
    assert body["failed"] == []


def test_explain_keeps_the_stream_and_the_truth(tmp_path: Path) -> None:
    ask = ["--explain", str(QUICK), "--keep", str(tmp_path)]
    result = CliRunner().invoke(score, ask)
    assert result.exit_code == 0
    assert "True valleys" in result.output
    kept = sorted(item.name for item in tmp_path.iterdir())
    assert kept == [f"case-{QUICK}.gaptop", f"case-{QUICK}.gaptop.truth.jsonl"]
    again = CliRunner().invoke(score, ask)
    assert again.exit_code == 4
    assert "is not overwritten" in again.output


def test_what_belongs_to_one_case_is_refused_for_many() -> None:
    result = CliRunner().invoke(score, ["--keep", "somewhere"])
    assert result.exit_code == 2
    assert "--explain" in result.output
    unknown = CliRunner().invoke(score, ["--explain", "1", "--without", "moon"])
    assert unknown.exit_code == 2


def test_words_and_json_are_not_asked_for_together() -> None:
    assert CliRunner().invoke(score, ["--explain", "1", "--json"]).exit_code == 2
