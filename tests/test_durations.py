"""The words for how long something takes."""

from __future__ import annotations

import pytest

from headtohead.durations import duration

TEXTS = [
    (0, "0 s"), (3.21e-6, "3.2 us"), (0.0123, "12 ms"), (0.2, "200 ms"), (9.04, "9 s"), (64.2, "64 s"),
    (89.94, "90 s"), (100, "1.7 min"), (1800, "30 min"), (5399, "90 min"), (7200, "2 h"), (12_600, "3.5 h"),
    (421_200, "117 h"), (4_442_400, "1,234 h"), (0.0009996, "1 ms"), (0.99996, "1 s"),
    (12.5, "13 s"), (135, "2.3 min"), (-5, "-5 s"), (1e-30, "0 us"), (float("inf"), "inf s"),
    (float("nan"), "nan s"),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "text"), TEXTS)
def test_two_digits_and_more_where_there_are_more_before_the_point(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_benchmark_has_three_digits() -> None:
    assert [duration(seconds, digits=3) for seconds in (1.234e-5, 0.0456, 1.5, 64.24)] == [
        "12.3 us",
        "45.6 ms",
        "1.5 s",
        "64.2 s",
    ]
