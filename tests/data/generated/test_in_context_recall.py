"""Keys that come again, among noise and in motifs: every answer is found again by reading the row aloud."""

from __future__ import annotations

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.generated.in_context_recall import FuzzyRecall, InContextRecall, Motifs, NoisyRecall

SIZES = {"num_train": 300, "num_validation": 20, "num_test": 20}


def rows_of(source: InContextRecall, name: SplitName = "train") -> list[tuple[list[str], list[str | None]]]:
    """Return the names of the tokens of each row, and beside each the name of its answer."""
    split = source.split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.tokens is not None and batch.targets is not None
    return [
        (
            source.decode(tokens).split(),
            [None if target == IGNORED else source.decode([target]) for target in targets],
        )
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)
    ]


def units_of(tokens: list[str]) -> list[tuple[tuple[str, ...], tuple[str, ...], int]]:
    """Return the key and the value of each unit with the position of its value, whole or cut off; noise is skipped."""
    units: list[tuple[tuple[str, ...], tuple[str, ...], int]] = []
    position = 0
    while position < len(tokens):
        parts = []
        for kind in "kv":
            start = position
            while position < len(tokens) and tokens[position][0] == kind:
                position += 1
            parts.append(tuple(tokens[start:position]))
        if any(parts):
            units.append((parts[0], parts[1], position - len(parts[1])))
        else:
            position += 1
    return units


def expected_answers(tokens: list[str]) -> list[str | None]:
    """Return what a reader who remembers every key would answer; what follows the row's end cannot be known here."""
    answers: list[str | None] = [None] * len(tokens)
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key, value, start in units_of(tokens):
        if key in seen:
            whole = seen[key]
            assert value == whole[: len(value)], "a key has one value"
            for offset, token in enumerate(whole):
                if start + offset - 1 < len(tokens):
                    answers[start + offset - 1] = token
        seen.setdefault(key, value)
    return answers


@pytest.mark.parametrize("name", SPLIT_NAMES)
@pytest.mark.parametrize(
    "source",
    [
        from_fields(NoisyRecall, **SIZES, length=40, num_pairs=4, num_symbols=10, num_noise=3, noise_share=0.4),
        from_fields(NoisyRecall, **SIZES, length=33, num_pairs=8, num_symbols=16, noise_share=0.0),
        from_fields(FuzzyRecall, **SIZES, length=48, num_pairs=5, num_symbols=12, longest_motif=3),
        from_fields(FuzzyRecall, **SIZES, length=16, num_pairs=3, num_symbols=7, longest_motif=2),
    ],
    ids=["noise", "no_noise", "motifs", "short"],
)
def test_whatever_is_scored_is_what_a_reader_with_memory_would_say(source: InContextRecall, name: SplitName) -> None:
    rows = rows_of(source, name)
    for tokens, answers in rows:
        assert len(tokens) == source.length and any(answers)
        assert answers[:-1] == expected_answers(tokens)[:-1]
    assert max(sum(answer is not None for answer in answers) for _, answers in rows) <= (source.spec().num_scored or 0)


def test_noise_stands_in_its_share_of_units_and_is_never_an_answer() -> None:
    rows = rows_of(from_fields(NoisyRecall, **SIZES, length=128, noise_share=0.3))
    noise = np.mean([token[0] == "n" for tokens, _ in rows for token in tokens])
    assert abs(noise - 0.3) < 0.02
    assert {answer[0] for _, answers in rows for answer in answers if answer} == {"v"}
    assert {token for tokens, _ in rows for token in tokens if token[0] == "n"} == {f"n{index}" for index in range(16)}


def test_motifs_of_every_length_are_as_frequent() -> None:
    motifs = Motifs.of(5, 8, 3)
    lengths = (motifs.tokens != 0).sum(1)
    assert [int((lengths == size).sum()) for size in (1, 2, 3)] == [8, 56, 336]
    assert [motifs.shares[lengths == size].sum() for size in (1, 2, 3)] == pytest.approx([1 / 3] * 3)
    assert all(len(set(motif[motif != 0])) == (motif != 0).sum() for motif in motifs.tokens)


def test_keys_and_values_of_fuzzy_rows_have_one_to_three_tokens() -> None:
    units = [unit for tokens, _ in rows_of(from_fields(FuzzyRecall, **SIZES)) for unit in units_of(tokens)[:-1]]
    assert {len(key) for key, _, _ in units} == {len(value) for _, value, _ in units} == {1, 2, 3}


@pytest.mark.parametrize(
    ("source", "chosen", "message"),
    [
        (NoisyRecall, {"num_pairs": 9}, "data.num_pairs=9 must be from 1 to 8, the different keys"),
        (NoisyRecall, {"num_symbols": 1}, "data.num_symbols=1 is fewer than 2"),
        (NoisyRecall, {"noise_share": 0.95}, "data.noise_share=0.95 must be"),
        (NoisyRecall, {"length": 7}, "data.length=7 must be at least 8"),
        (FuzzyRecall, {"length": 23}, "data.length=23 must be at least 24"),
        (FuzzyRecall, {"num_symbols": 200}, "data.num_symbols=200 makes 980,200 motifs of up to 3 tokens"),
    ],
)
def test_impossible_rows_are_refused(source: type[InContextRecall], chosen: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_fields(source, **chosen)
