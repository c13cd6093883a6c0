"""The gate tries as many cases of a large law as its marker says, spread over every axis."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from sampled_cases import leave_the_rest_to_the_long_laws

ROWS, COLUMNS = 12, 10


class Case:
    """A stand-in for a case of a law in a file, with the markers that it carries."""

    def __init__(self, name: str, *marks: pytest.MarkDecorator, file: str = "test_law.py") -> None:
        self.path, self.nodeid = Path(file), f"{file}::test_law[{name}]"
        self.marks = {mark.name: mark.mark for mark in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name).mark


def in_the_gate(cases: list[Case]) -> list[Case]:
    leave_the_rest_to_the_long_laws(cast(list[Any], cases))
    return [case for case in cases if not case.get_closest_marker("whole")]


@pytest.mark.parametrize("number", [1, 24, 60, ROWS * COLUMNS, 1000])
def test_as_many_cases_stay_as_the_marker_says(number: int) -> None:
    cases = [Case(str(index), pytest.mark.sampled(number)) for index in range(ROWS * COLUMNS)]
    assert len(in_the_gate(cases)) == min(number, len(cases))


def test_every_value_of_every_axis_is_among_a_fifth_of_a_product() -> None:
    numbers = list(product(range(ROWS), range(COLUMNS)))
    cases = [Case(f"{row}-{column}", pytest.mark.sampled(ROWS * COLUMNS // 5)) for row, column in numbers]
    tried = {id(case) for case in in_the_gate(cases)}
    met = [pair for case, pair in zip(cases, numbers, strict=True) if id(case) in tried]
    assert {row for row, _ in met} == set(range(ROWS)) and {column for _, column in met} == set(range(COLUMNS))


def test_other_laws_and_cases_that_are_whole_anyway_are_left_alone() -> None:
    other = [Case(str(index)) for index in range(5)]
    long = [Case(str(index), pytest.mark.sampled(1), pytest.mark.whole) for index in range(5)]
    files = [Case("0", pytest.mark.sampled(1), file=f"test_{number}.py") for number in range(3)]
    assert in_the_gate([*other, *long, *files]) == [*other, *files]
