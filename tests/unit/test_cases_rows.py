"""Public cases, each as gaptop would have seen it: the cause that was found, and those that its numbers exclude."""

from __future__ import annotations

import pytest

from .case_rows_demand import DEMAND
from .case_rows_host import HOST
from .case_rows_memory import MEMORY
from .case_rows_outside import OUTSIDE
from .case_rows_riddles import RIDDLES
from .case_streams import Case, found

ROWS = (*DEMAND, *MEMORY, *OUTSIDE, *HOST, *RIDDLES)


@pytest.mark.parametrize("case", ROWS, ids=[case.name.partition(",")[0] for case in ROWS])
def test_the_cause_is_the_one_that_was_found_and_the_others_are_excluded_with_numbers(case: Case) -> None:
    valleys = found(case)
    assert any(item.kind == case.kind for item in valleys)
    for item in valleys:
        said = item.verdict
        assert said.cause == case.causes[0]
        assert case.detail in said.detail
        assert said.confidence in case.confidence
        assert set(case.excluded) <= {other.cause for other in said.excluded}
        assert all(other.because for other in said.excluded)
        parts = {part.cause for part in said.segments}
        assert not {said.cause, *parts} & set(case.never)
        assert parts <= {*case.causes, "unknown"}
        assert case.advises in said.advice
        assert said.advice
