"""What random cases are drawn from: decoys, quotas, overlaps and strengths, about as often as stated."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest

from gaptop.lab.core.faults import Fault
from gaptop.lab.core.loads import Clients
from gaptop.lab.score.cases import ATTACHED, OVERLAP, START, WARM_UP, Case, case
from gaptop.lab.score.conditions import KINDS, MOST_AT_ONCE
from gaptop.lab.score.decoys import DECOYS, QUOTA, Beside, beside
from gaptop.lab.score.server import PREFILL, Server, server
from gaptop.valleys.model import Cause

SEEDS = range(300)
MADE = [case(seed) for seed in SEEDS]


def places(made: Case) -> set[str]:
    return {fault.place for fault in made.scenario.faults}


def drawn(made: Case) -> set[str]:
    """Decoys that show in the case itself, by their names."""
    scenario = made.scenario
    found = {condition.what for condition in scenario.beside}
    shows = {
        "idle co-tenant": "foreign_idle" in found,
        "own compilers": "compilers" in found,
        "page faults": "major_faults" in found,
        "power cap": any(fault.place == "power" and fault.at == 0.0 for fault in scenario.faults),
        "access log": "access_log" in places(made),
        "idle connections": "connections" in found,
        "hang-ups": "hang_up" in places(made),
        "own slow calls": bool(made.view.own_calls),
    }
    return {name for name, shown in shows.items() if shown}


def about(count: int, share: float, of: int = len(SEEDS)) -> bool:
    """Within four standard deviations: of all that is asked here, a right share fails once in a thousand runs."""
    return abs(count - share * of) <= 4.0 * math.sqrt(of * share * (1 - share))


def test_each_decoy_is_drawn_as_often_as_it_says() -> None:
    counts = Counter(name for made in MADE for name in drawn(made))
    for name, (share, _) in DECOYS.items():
        if name not in ("somebody's build", "neighbours"):
            assert about(counts[name], share), (name, counts[name])
    others = sum("neighbours" in {item.what for item in made.scenario.beside} for made in MADE)
    assert about(others, 1 - (1 - DECOYS["somebody's build"][0]) * (1 - DECOYS["neighbours"][0]))


def test_a_quota_says_nothing_about_throttling() -> None:
    """Most cases with one are not throttled in earnest, and some of them count throttled periods all the same."""
    earnest = [made for made in MADE if any(f.place == "throttle" and f.strength >= 0.3 for f in made.scenario.faults)]
    others = [made for made in MADE if made not in earnest]
    limited = [made for made in others if made.scenario.quota]
    assert earnest
    assert all(made.scenario.quota for made in earnest)
    assert about(len(limited), QUOTA, len(others))
    brief = [made for made in limited if "short throttles" in made.says]
    assert about(len(brief), 0.5, len(limited))
    for made in brief:
        assert all(fault.strength <= 0.08 for fault in made.scenario.faults if fault.place == "throttle")
    assert all("throttle" not in places(made) for made in others if not made.scenario.quota)


def test_decoys_alone_have_no_condition_of_a_cause() -> None:
    """What is drawn beside a condition is too weak, or elsewhere."""
    for seed in SEEDS:
        found = beside(Random(seed), server(Random(seed)), START, 60.0, ())
        for fault in found.faults:
            assert fault.place in ("power", "access_log", "hang_up", "throttle")
            assert fault.place != "power" or fault.strength >= 0.9
            assert fault.place != "access_log" or fault.seconds < 0.07
        assert all(item.value < 100.0 for item in found.conditions if item.what == "major_faults")


def test_some_conditions_overlap_and_most_do_not() -> None:
    several = [made.placed for made in MADE if len(made.placed) > 1]
    count = sum(second.at < first.at + first.added.seconds for first, second, *_ in several)
    assert about(count, OVERLAP, len(several)), count
    assert all(
        third.at >= second.at + second.added.seconds for _, second, third, *_ in (p for p in several if len(p) > 2)
    )


def test_some_streams_begin_inside_a_condition() -> None:
    first = [made.placed[0] for made in MADE]
    early = [item for item in first if item.at < START]
    assert about(len(early), ATTACHED), len(early)
    assert all(item.at >= 1.0 and item.at + item.added.seconds > START for item in early if item.added.seconds < 3.0)
    assert all(item.at >= START + WARM_UP for item in first if item not in early)


@pytest.mark.parametrize(
    ("cause", "place", "low", "high"),
    [
        ("device_limit", "power", 0.15, 0.9),
        ("device_limit", "thermal", 0.15, 0.9),
        ("device_limit", "cotenant", 0.2, 0.9),
        ("host_starvation", "throttle", 0.3, 0.95),
        ("host_starvation", "oversubscription", 1.0, 50.0),
    ],
)
def test_strengths_have_their_whole_range(cause: Cause, place: str, low: float, high: float) -> None:
    found = [fault.strength for fault, _ in of_kind(cause, place)]
    assert all(low <= value <= high for value in found)
    third = (high - low) / 3
    parts = Counter(min(2, int((value - low) / third)) for value in found)
    assert all(about(parts[part], 1 / 3, len(found)) for part in range(3)), parts


@pytest.mark.parametrize(("cause", "place", "low"), [("host_starvation", "gil", 0.2), ("synchronisation", "copy", 0.1)])
def test_delays_go_from_barely_harmful_upward(cause: Cause, place: str, low: float) -> None:
    found = [fault.strength / step for fault, step in of_kind(cause, place)]
    assert min(found) < 1.0
    assert min(found) >= low - 0.05
    assert 5.0 < max(found) <= 6.05


def of_kind(cause: Cause, place: str) -> list[tuple[Fault, float]]:
    """The faults of a place that the ways of a cause draw, with the step of the server that they strike."""
    found = []
    for seed in range(60):
        for way in KINDS[cause]:
            made = server(Random(seed))
            step = made.step
            found += [(fault, step) for fault in way(Random(f"{seed}"), made, 12.0).faults if fault.place == place]
    return found


def test_ordinary_prompts_take_a_tenth_to_more_than_half_of_the_device() -> None:
    made = [server(Random(f"gaptop lab score {seed}")) for seed in SEEDS]
    assert all(PREFILL[0] <= item.prefill <= PREFILL[1] for item in made)
    shares = sorted(prefill_share(item) for item in made)
    assert shares[len(shares) // 10] < 0.1
    assert shares[-len(shares) // 20] > 0.4


def prefill_share(made: Server) -> float:
    """Of the time that one of each of its clients' requests takes the device."""
    prefill = made.count * sum(made.prompt) / 2 / made.prefill_rate
    return prefill / (prefill + sum(made.output) / 2 * made.step)


def test_kv_crowds_want_more_blocks_than_there_are() -> None:
    for seed in range(60):
        for way in KINDS["cache_pressure"][1:3]:
            made = server(Random(seed))
            (load,) = way(Random(seed), made, 12.0).loads
            tokens = load.count * (load.prompt[1] + load.output[1])  # type: ignore[attr-defined]
            assert tokens > made.blocks * 16
            assert load.count <= MOST_AT_ONCE  # type: ignore[attr-defined]
            assert made.settings["max_num_seqs"] >= made.count + load.count  # type: ignore[attr-defined]


def test_what_is_beside_begins_in_order_and_is_its_seed() -> None:
    for made in MADE:
        starts = [item.start for item in made.scenario.beside]
        assert starts == sorted(starts)
    alike = [beside(Random(3), server(Random(3)), START, 60.0, ()) for _ in range(2)]
    assert alike[0] == alike[1]
    assert isinstance(alike[0], Beside)
    assert any(isinstance(load, Clients) for made in MADE for load in made.scenario.loads)
