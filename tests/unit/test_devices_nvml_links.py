"""NVLink's counters: which there are, their sum, wraps and restarts of single links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gaptop_collectors.devices.nvml_links import LINK_COUNT, MOST_LINKS, RX, TX, LinkAnswer, Links

KIB = 1024


def ask(links: Links, numbers: Mapping[tuple[int, int], float | None], bits: int = 64) -> dict[str, float]:
    """One round: what is wanted and not among the numbers is refused; None fails this time only."""
    answers = []
    for field, link in links.wanted():
        known = (field, link) in numbers
        answers.append(LinkAnswer(field, link, numbers.get((field, link)), bits, refused=not known))
    return links.take(answers)


def settled(
    numbers: Mapping[tuple[int, int], float | None], count: int = 2, bits: int = 64
) -> tuple[Links, dict[str, float]]:
    links = Links()
    assert links.wanted() == [(LINK_COUNT, 0)]
    assert ask(links, {(LINK_COUNT, 0): count}) == {}
    values = ask(links, numbers, bits)
    return links, values or ask(links, numbers, bits)


def test_newer_fields_are_bytes_and_come_first() -> None:
    links, values = settled({(202, 0): 5, (202, 1): 6, (204, 0): 7, (204, 1): 8, (138, 0): 1, (139, 0): 1})
    assert values == {TX: 11, RX: 15}
    assert not links.unsupported
    assert {field for field, _ in links.wanted()} == {202, 204}
    assert ask(links, {(202, 0): 15, (202, 1): 6, (204, 0): 7, (204, 1): 9}) == {TX: 21, RX: 16}


def test_older_fields_are_kib() -> None:
    links, values = settled({(138, 0): 5, (138, 1): 6, (139, 0): 7, (139, 1): 8})
    assert values == {TX: 11 * KIB, RX: 15 * KIB}
    assert ask(links, {(138, 0): 6, (138, 1): 6, (139, 0): 7, (139, 1): 8})[TX] == 12 * KIB


def test_links_that_are_down_are_not_asked_again() -> None:
    links, values = settled({(202, 1): 6, (204, 1): 8}, count=18)
    assert values == {TX: 6, RX: 8}
    assert sorted(links.wanted()) == [(202, 1), (204, 1)]


@pytest.mark.parametrize("count", [0, None])
def test_no_nvlink_is_unsupported_with_the_reason(count: int | None) -> None:
    links = Links()
    ask(links, {} if count is None else {(LINK_COUNT, 0): count})
    assert links.unsupported.keys() == {RX, TX}
    assert "no NVLink" in links.unsupported[RX]
    assert links.wanted() == []
    assert links.take([]) == {}


def test_links_without_any_counter_are_unsupported() -> None:
    links, values = settled({})
    assert values == {}
    assert links.unsupported.keys() == {RX, TX}
    assert links.wanted() == []


def test_a_count_that_fails_once_is_asked_again_and_an_absurd_one_is_bounded() -> None:
    links = Links()
    links.take([LinkAnswer(LINK_COUNT, 0, None)])
    assert links.wanted() == [(LINK_COUNT, 0)]
    ask(links, {(LINK_COUNT, 0): 1e9})
    assert len(links.wanted()) == 2 * MOST_LINKS


@pytest.mark.parametrize("bits", [32, 64])
def test_each_link_wraps_by_itself(bits: int) -> None:
    top = 2.0**bits
    links, first = settled({(202, 0): top - 4096, (202, 1): 100, (204, 0): 1, (204, 1): 1}, bits=bits)
    values = ask(links, {(202, 0): 4096, (202, 1): 300, (204, 0): 1, (204, 1): 1}, bits)
    assert values[TX] - first[TX] == pytest.approx(8192 + 200, abs=2048 if bits == 64 else 0)
    assert values[RX] == first[RX]


def test_a_link_that_begins_again_restarts_the_sum_rather_than_hiding_in_it() -> None:
    links, _ = settled({(202, 0): 5000, (202, 1): 5000, (204, 0): 7, (204, 1): 8})
    values = ask(links, {(202, 0): 10, (202, 1): 9_000_000, (204, 0): 8, (204, 1): 8})
    assert values == {TX: 0, RX: 16}  # a fall: readers of counters know it as a restart
    assert ask(links, {(202, 0): 20, (202, 1): 9_000_001, (204, 0): 8, (204, 1): 8})[TX] == 11


def test_a_link_that_goes_restarts_the_sum() -> None:
    links, _ = settled({(202, 0): 50, (202, 1): 60, (204, 0): 7, (204, 1): 8})
    assert ask(links, {(202, 0): 51, (204, 0): 7, (204, 1): 8})[TX] == 0
    assert ask(links, {(202, 0): 54, (204, 0): 7, (204, 1): 8})[TX] == 3
    assert ask(links, {(204, 0): 7, (204, 1): 8}) == {RX: 15}
    assert links.unsupported.keys() == {TX}


def test_a_link_that_is_silent_once_holds_the_sum_back_and_nothing_is_lost() -> None:
    links, _ = settled({(202, 0): 50, (202, 1): 60, (204, 0): 7, (204, 1): 8})
    assert ask(links, {(202, 0): 60, (202, 1): None, (204, 0): 7, (204, 1): 8}) == {RX: 15}
    assert ask(links, {(202, 0): 61, (202, 1): 65, (204, 0): 7, (204, 1): 8})[TX] == 126


def test_order_of_answers_does_not_matter() -> None:
    def total(order: Sequence[int]) -> float:
        links, _ = settled({(202, link): 10.0 for link in range(3)}, count=3)
        return links.take([LinkAnswer(202, link, 10.0 + link) for link in order])[TX]

    assert total([0, 1, 2]) == total([2, 0, 1]) == 33
