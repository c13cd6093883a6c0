"""Every answer of every procedural task by brute force, in each of its forms."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest

from data.generated.slow_answers import (
    CLOSES,
    described,
    expected_closings,
    is_balanced,
    language_rows,
    listops_value,
    product,
    requested_after,
)
from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, SplitName
from headtohead.data.generated.dyck import Dyck
from headtohead.data.generated.group_problems import ModularAddition, WordProblem, group_named
from headtohead.data.generated.listops import ListOps, evaluated
from headtohead.data.generated.problem_forms import FIRST_ID, AnswerSpan
from headtohead.data.generated.procedural_source import ProceduralSource
from headtohead.data.generated.recall_problems import Induction
from headtohead.data.generated.string_rewriting import Copy, Reverse, Rewriting, SelectiveCopy, Sort

FEW = {"num_train": 300, "num_validation": 40, "num_test": 40}
VARYING = {"length": 12, "min_length": 6, "test_length": 20}
every_split = pytest.mark.parametrize("split", SPLIT_NAMES)
every_writing_form = pytest.mark.parametrize("form", ["language", "slots", "pairs"])
WritingForm = Literal["language", "slots", "pairs"]


def written(source: ProceduralSource, split: SplitName) -> list[tuple[list[str], list[str]]]:
    return described(source, split, "target") if source.form == "pairs" else requested_after(source, split)


@every_split
@every_writing_form
@pytest.mark.parametrize("task", [Copy, Reverse, Sort])
def test_symbols_are_copied_reversed_or_sorted(task: type[Rewriting], form: WritingForm, split: SplitName) -> None:
    source = from_fields(task, **FEW, **VARYING, form=form, num_symbols=12)
    rows = written(source, split)
    for prompt, answer in rows:
        expected = {"copy": prompt, "reverse": list(reversed(prompt)), "sort": sorted(prompt, key=int)}
        assert answer == expected[source.name]
    assert {len(prompt) for prompt, _ in rows} == ({20} if split == "test" else set(range(6, 13)))


@every_split
@every_writing_form
def test_selective_copies_are_the_prompts_without_their_blanks(form: WritingForm, split: SplitName) -> None:
    source = from_fields(SelectiveCopy, **FEW, **VARYING, form=form, num_copied=4)
    for prompt, answer in written(source, split):
        assert answer == [symbol for symbol in prompt if symbol != "."] and len(answer) == 4


def test_selective_copies_hold_symbols_at_every_position_alike() -> None:
    source = from_fields(SelectiveCopy, num_train=8_000, length=10, num_copied=3)
    prompts = source.problems("train").prompts
    shares = (prompts != FIRST_ID + source.num_symbols).mean(0)
    assert np.abs(shares - 0.3).max() < 0.03


@every_split
def test_what_followed_the_trigger_is_the_target_at_the_end(split: SplitName) -> None:
    for row in language_rows(from_fields(Induction, **FEW, **VARYING), split):
        first = row.read.index("trigger")
        assert row.read[-1] == "trigger" and row.read.count("trigger") == 2
        assert row.requested == [""] * (len(row.read) - 1) + [row.read[first + 1]]


@every_split
def test_second_half_of_a_repetition_is_predicted_symbol_by_symbol(split: SplitName) -> None:
    for row in language_rows(from_fields(Induction, **FEW, **VARYING, pattern="repeat"), split):
        period = len(row.read) // 2 + 1
        assert row.read[period:] == row.read[: len(row.read) - period]
        assert row.requested == [""] * period + row.read[1 : len(row.read) - period + 1]


@every_split
@pytest.mark.parametrize("group", ["Z_2", "Z_7", "S_3", "A_4", "S_5", "A_5"])
def test_word_problems_ask_for_the_product_so_far(group: str, split: SplitName) -> None:
    modulus = int(group[2:]) if group[0] == "Z" else None
    for row in language_rows(from_fields(WordProblem, **FEW, **VARYING, group=group), split):
        running = itertools.accumulate(row.read, lambda a, b: product(a, b, modulus=modulus))
        assert row.requested == list(running)


@every_split
@pytest.mark.parametrize("group", ["Z_3", "S_3"])
def test_labels_of_word_problems_are_the_whole_products(group: str, split: SplitName) -> None:
    source = from_fields(WordProblem, **FEW, **VARYING, group=group, form="labelled")
    modulus = 3 if group == "Z_3" else None
    for prompt, (label,) in described(source, split, "label"):
        assert label == list(itertools.accumulate(prompt, lambda a, b: product(a, b, modulus=modulus)))[-1]


@pytest.mark.parametrize(("name", "size"), [("Z_2", 2), ("Z_9", 9), ("S_3", 6), ("A_4", 12), ("S_5", 120), ("A_5", 60)])
def test_groups_are_groups(name: str, size: int) -> None:
    group = group_named(name)
    everyone = np.arange(size)
    table = group.multiply(everyone[:, None], everyone[None, :])
    assert len(set(group.names)) == len(group) == size
    assert (table[0] == everyone).all() and (table[:, 0] == everyone).all()
    assert all(len(set(line)) == size for line in (*table.tolist(), *table.T.tolist()))
    a, b, c = np.random.default_rng(0).integers(size, size=(3, 500))
    assert (table[table[a, b], c] == table[a, table[b, c]]).all()


def test_left_factor_of_a_product_acts_first() -> None:
    names = group_named("S_3").names
    first, second = np.array([names.index("132")]), np.array([names.index("213")])
    # 1 stays and goes to 2; 2 goes to 3 and stays; 3 goes to 2 and on to 1.
    assert names[group_named("S_3").multiply(first, second)[0]] == "231"


@pytest.mark.parametrize("pairs", ["ordered", "unordered"])
@pytest.mark.parametrize("form", ["language", "labelled"])
def test_every_sum_is_in_one_split(form: Literal["language", "labelled"], pairs: Any) -> None:
    source = ModularAddition(form=form, modulus=23, pairs=pairs, train_fraction=0.6)
    result: dict[tuple[int, int], SplitName] = {}
    for split in SPLIT_NAMES:
        rows = described(source, split, "label") if form == "labelled" else requested_after(source, split)
        for (first, plus, second), (answer,) in rows:
            assert plus == "+" and int(answer) == (int(first) + int(second)) % 23
            assert (int(first), int(second)) not in result
            result[int(first), int(second)] = split
    assert len(result) == 23**2
    num_train = sum(split == "train" for split in result.values())
    assert abs(num_train / 23**2 - 0.6) < 0.02
    mirrored = sum(result[first, second] == result[second, first] for first, second in result)
    assert (mirrored == 23**2) == (pairs == "unordered")


@every_split
@pytest.mark.parametrize(("num_types", "max_depth"), [(1, 6), (2, 3), (4, 2)])
def test_closing_brackets_are_the_only_targets(num_types: int, max_depth: int, split: SplitName) -> None:
    source = from_fields(
        Dyck, **FEW, num_types=num_types, max_depth=max_depth, length=16, min_length=10, test_length=30
    )
    rows = language_rows(source, split)
    for row in rows:
        expected = expected_closings(row.read)
        following = [*row.read[1:], expected[-1]]
        assert row.requested == ["" if position in CLOSES else position for position in following]
        assert all(options in ("", sure) for options, sure in zip(row.requested, expected, strict=True))
        assert is_balanced([*row.read, row.requested[-1]])
        depths = list(itertools.accumulate(1 if bracket in CLOSES else -1 for bracket in row.read))
        assert max(depths) <= max_depth
    assert {len(row.read) + 1 for row in rows} == ({30} if split == "test" else {10, 12, 14, 16})


def test_bracket_words_of_a_length_are_equally_likely() -> None:
    source = Dyck(num_types=1, max_depth=3, length=8)
    drawn = source.draw(26_000, AnswerSpan(8, 8, 2), np.random.default_rng(0)).prompts
    counts = Counter(map(bytes, drawn.astype(np.uint8)))
    # 14 words of four pairs of brackets, less the one that is four deep.
    assert len(counts) == 13
    assert all(abs(count / 2_000 - 1) < 0.1 for count in counts.values())


@every_split
@pytest.mark.parametrize("num_types", [1, 3])
def test_words_are_labelled_balanced_if_a_stack_says_so(num_types: int, split: SplitName) -> None:
    source = from_fields(Dyck, **FEW, form="labelled", num_types=num_types, length=24, min_length=14, test_length=30)
    rows = described(source, split, "label")
    for word, (label,) in rows:
        assert (label == "balanced") == is_balanced(word)
        counts = Counter(word)
        assert all(counts[opening] == counts[closing] for opening, closing in CLOSES.items())
    assert 0.25 < np.mean([label == ["balanced"] for _, label in rows]) < 0.75


def test_unbalanced_words_are_of_both_kinds() -> None:
    source = from_fields(Dyck, num_train=1_000, form="labelled", num_types=2, length=20)
    unbalanced = [word for word, (label,) in described(source, "train", "label") if label == "unbalanced"]
    shapes = [["(" if bracket in CLOSES else ")" for bracket in word] for word in unbalanced]
    assert 0.3 < np.mean([is_balanced(shape) for shape in shapes]) < 0.7
    assert np.mean([shape[0] == ")" for shape in shapes]) < 0.4


@every_split
@pytest.mark.parametrize("form", ["labelled", "language"])
def test_expressions_have_the_value_that_recursion_finds(
    form: Literal["labelled", "language"], split: SplitName
) -> None:
    source = from_fields(ListOps, **FEW, form=form, length=24, min_length=8, test_length=40, max_depth=3, max_args=4)
    rows = described(source, split, "label") if form == "labelled" else requested_after(source, split)
    for tokens, (answer,) in rows:
        value = listops_value(tokens, most=4)
        assert value.end == len(tokens) and 1 <= value.depth <= 3
        assert int(answer) == value.number
        assert (25 <= len(tokens) <= 40) if split == "test" else (8 <= len(tokens) <= 24)
    assert {token for tokens, _ in rows for token in tokens} == set(source.symbols) - {source.separator}


def test_median_of_an_even_number_of_digits_is_rounded_down() -> None:
    counts = np.zeros((3, 10), dtype=int)
    for row, digits in enumerate([(1, 4), (0, 9, 9, 9), (3, 3, 8)]):
        np.add.at(counts[row], list(digits), 1)
    assert evaluated(np.array([2, 2, 2]), counts).tolist() == [2, 9, 3]
