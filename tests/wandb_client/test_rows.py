"""Numbers of rows: whatever moment a run is killed at and wherever it goes on, the server gets each row once."""

from __future__ import annotations

import pytest

from headtohead.wandb_client.logged_rows import RowNumbers, in_rows

LIVE = [
    (1, {"train/loss": 0.0, "throughput/seconds": 0.0}, "numbers"),
    (1, {"attention_entropy/a": 0.0}, "numbers"),
    (1, {"attention/a": 0.0}, "pictures"),
    (2, {"train/loss": 0.0}, "numbers"),
    (2, {"validation/loss": 0.0}, "numbers"),
    (2, {"validation/samples": 0.0}, "tables"),
    (2, {"attention_entropy/a": 0.0}, "numbers"),
    (2, {"attention/a": 0.0}, "pictures"),
    (2, {"test/samples": 0.0}, "tables"),
    (2, {"test/loss": 0.0}, "numbers"),
    (2, {"test_2x/loss": 0.0, "test_4x/loss": 0.0}, "numbers"),
]
"""The rows that a run of two steps logs, in this order; maps are drawn at the end, too."""


def message(numbers: RowNumbers, calls: list) -> list[tuple[int, tuple[str, ...]]]:
    rows = [
        (step, position, row) for step, values, medium in calls for position, row in in_rows(values, medium).items()
    ]
    taken = [(numbers.take(step, row, position), tuple(row)) for step, position, row in rows]
    return [(number, names) for number, names in taken if number is not None]


def recorded(until: int) -> list:
    """Return the rows of metrics.csv, a step at a time."""
    of: dict[int, dict] = {step: {} for step in range(1, until + 1)}
    for step, values, medium in LIVE:
        if medium == "numbers" and step <= until:
            of[step] |= values
    return [(step, values, "numbers") for step, values in of.items()]


def test_numbers_of_rows_grow() -> None:
    numbers = [number for number, _ in message(RowNumbers(), LIVE)]
    assert len(numbers) == len(LIVE)
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("held", range(len(LIVE) + 1))
@pytest.mark.parametrize("checkpoint", [0, 1])
def test_resumed_run_tells_every_row_that_the_server_lacks_and_no_other(held: int, checkpoint: int) -> None:
    all_of_it = message(RowNumbers(), LIVE)
    server = all_of_it[:held]
    numbers = RowNumbers(server[-1][0] + 1 if server else 0)
    server += message(numbers, recorded(checkpoint))
    server += message(numbers, [call for call in LIVE if call[0] > checkpoint])
    assert server == [row for row in all_of_it if row in server]
    lost = [name for row in all_of_it if row not in server for name in row[1]]
    assert lost in ([], ["attention/a"]), "pictures are drawn again only after the checkpoint"


def test_step_whose_test_is_taken_again_is_told_once() -> None:
    numbers = RowNumbers()
    assert len(message(numbers, recorded(2))) == 7
    assert message(numbers, LIVE[-2:]) == []
