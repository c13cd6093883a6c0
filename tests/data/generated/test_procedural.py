"""All procedural tasks share splits, forms, lengths, refusals and speed."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import headtohead as h2h
from contracts.choices import kind_of
from data.generated.slow_answers import language_rows
from from_fields import from_fields
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.generated.dyck import Dyck
from headtohead.data.generated.group_problems import ModularAddition, WordProblem
from headtohead.data.generated.listops import ListOps, longest_expression
from headtohead.data.generated.problem_forms import keys_of
from headtohead.data.generated.procedural_source import ProceduralSource
from headtohead.data.generated.recall_problems import Induction
from headtohead.data.generated.string_rewriting import Copy, Reverse, SelectiveCopy, Sort

FEW = {"num_train": 200, "num_validation": 30, "num_test": 40}
Made = partial[Any]
SOURCES: dict[str, Made] = {
    "copy": partial(from_fields, Copy, **FEW, length=9, min_length=4),
    "reverse": partial(from_fields, Reverse, **FEW, length=9),
    "sort": partial(from_fields, Sort, **FEW, length=9, min_length=4, test_length=12),
    "selective_copy": partial(from_fields, SelectiveCopy, **FEW, length=12, min_length=6, num_copied=3),
    "induction": partial(from_fields, Induction, **FEW, length=12, min_length=6),
    "word_problem": partial(from_fields, WordProblem, **FEW, group="Z_5", length=9, min_length=4, test_length=12),
    "modular_addition": partial(ModularAddition, modulus=13),
    "dyck": partial(from_fields, Dyck, **FEW, length=16, min_length=12),
    "listops": partial(from_fields, ListOps, **FEW, length=24),
}
KINDS = {"language": "language", "slots": "language", "pairs": "pairs_of_text", "labelled": "labelled_text"}
FORMS = [
    pytest.param(made, {} if name == "induction" else {"form": form}, id=f"{name}-{form}")
    for name, made in SOURCES.items()
    for form in (made.args[0] if made.args else kind_of(made)).forms
]
every_form = pytest.mark.parametrize(("made", "form"), FORMS)


def prompts_of(source: ProceduralSource, split: Any) -> list[tuple[int, ...]]:
    return [tuple(token for token in line if token) for line in source.problems(split).prompts.tolist()]


@every_form
def test_no_prompt_is_in_two_splits_nor_twice_in_one(made: Made, form: dict[str, str]) -> None:
    prompts = [prompt for split in SPLIT_NAMES for prompt in prompts_of(made(**form), split)]
    assert len(prompts) == len(set(prompts)) >= 169


@every_form
def test_kind_and_counts_are_those_of_the_rows(made: Made, form: dict[str, str]) -> None:
    source = made(**form)
    spec = source.spec()
    assert (
        spec.kind == KINDS[source.form] and spec.decode is not None and spec.decode([0, 1, 2, 5]) == source.decode([5])
    )
    options = []
    for split in SPLIT_NAMES:
        rows = source.split(split)
        batch = rows.batch(np.arange(len(rows)))
        assert batch.targets is not None and batch.tokens is not None
        assert batch.tokens.shape[1] <= spec.max_length
        if spec.kind == "language":
            options.append(int((batch.targets != IGNORED).sum(1).max()))
        if spec.kind == "labelled_text" and split == "train":
            counts = np.bincount(batch.targets.numpy(), minlength=spec.num_classes)
            assert np.allclose(spec.class_shares, counts / counts.sum())
            assert len(spec.class_names) == spec.num_classes
    assert spec.num_scored == (max(options) if options else None)


def test_shares_of_answers_are_those_of_the_train_rows() -> None:
    source = SOURCES["sort"]()
    spec, answers = source.spec(), [row.requested for row in language_rows(source, "train")]
    options = [[symbol for symbol in row if symbol] for row in answers]
    for shares, counts in (
        (spec.answer_shares, Counter(itertools.chain.from_iterable(options))),
        (spec.last_answer_shares, Counter(row[-1] for row in options)),
    ):
        assert shares == pytest.approx([count / counts.total() for _, count in counts.most_common()])
    assert spec.last_answer_shares[0] > 0.25, "the largest of many numbers is mostly a large one"


def test_parity_is_guessed_half_of_the_time() -> None:
    shares = from_fields(WordProblem, **FEW, length=9).spec().answer_shares
    assert len(shares) == 2 and shares[0] == pytest.approx(0.5, abs=0.05)


@every_form
def test_same_problems_again_whatever_the_cache_holds(made: Made, form: dict[str, str]) -> None:
    for split in SPLIT_NAMES:
        assert prompts_of(made(**form), split) == prompts_of(made(**form), split)
        assert prompts_of(made(**form), split) != prompts_of(made(**form, seed=1), split)


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"modular_addition"}))
def test_a_larger_train_split_leaves_the_others_as_they_are(name: str) -> None:
    small, large = SOURCES[name](), SOURCES[name](num_train=260)
    for split in ("validation", "test"):
        assert prompts_of(small, split) == prompts_of(large, split)


def test_short_prompts_are_in_the_train_split_too() -> None:
    """About a fifth of the 30 prompts of up to four bits belongs to the held-out splits."""
    source = from_fields(WordProblem, num_train=3_000, num_validation=200, num_test=200, length=14, min_length=1)
    short = [prompt for prompt in prompts_of(source, "train") if len(prompt) <= 4]
    assert len(short) >= 20


@pytest.mark.parametrize("name", ["sort", "word_problem"])
def test_test_rows_have_the_length_requested_and_the_spec_holds_it(name: str) -> None:
    source = SOURCES[name](form="language")
    lengths = {split: {len(prompt) for prompt in prompts_of(source, split)} for split in SPLIT_NAMES}
    assert lengths == {"train": set(range(4, 10)), "validation": set(range(4, 10)), "test": {12}}
    assert source.spec().max_length == (24 if name == "sort" else 12)


def test_rows_of_one_length_have_no_padding_to_mask() -> None:
    fixed, varying = from_fields(WordProblem, **FEW, length=9), SOURCES["word_problem"]()
    assert fixed.split("train").batch(np.arange(4)).valid is None and fixed.split("train").lengths() is None
    assert varying.split("train").batch(np.arange(4)).valid is not None
    assert varying.split("test").batch(np.arange(4)).valid is None


def test_seed_of_the_run_leaves_the_data_as_they_are() -> None:
    few = ["data=copy", "data.num_train=50", "data.num_validation=10", "data.num_test=10"]
    hashes = {build_data(h2h.compose("train", [*few, f"seed={seed}"])).spec().data_hash for seed in (0, 7)}
    assert len(hashes) == 1


def test_longest_expressions_are_those_of_arguments_that_are_expressions() -> None:
    word = "[SM [SM 1 1 1 ] [SM 1 1 1 ] [SM 1 1 1 ] ]"
    assert (longest_expression(1, 5), longest_expression(2, 3)) == (7, len(word.split()))


def test_keys_distinguish_prompts_and_pay_no_heed_to_padding() -> None:
    prompts = np.array(list(itertools.product(range(5, 9), repeat=6)))
    assert len(np.unique(keys_of(prompts, 0))) == len(prompts)
    assert (keys_of(np.pad(prompts, ((0, 0), (0, 3))), 0) == keys_of(prompts, 0)).all()
    assert (keys_of(prompts, 1) != keys_of(prompts, 0)).all()


def test_ids_of_large_vocabularies_are_kept_whole() -> None:
    source = from_fields(Copy, **FEW, num_symbols=251, length=3)
    assert {row.read[3] for row in language_rows(source, "train")} == {">"}
    assert source.spec().vocab_size == 257


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (partial(Copy, form="labelled"), "data.form=labelled is not a form of data=copy: choose language or slots or"),
        (partial(from_fields, Copy, num_symbols=1), "data.num_symbols=1 must be at least 2"),
        (partial(Copy, length=0), "data.length=0 must be at least 1"),
        (partial(Sort, length=4, min_length=6), "data.min_length=6 is more than data.length=4, the longest"),
        (partial(from_fields, Reverse, num_test=0), "data.num_test=0 leaves the test split empty"),
        (partial(Copy, batch_size=0), "data.batch_size=0 must be at least 1"),
        (partial(from_fields, SelectiveCopy, num_copied=0), "data.num_copied=0 must be at least 1"),
        (partial(SelectiveCopy, length=6), "data.num_copied=8 symbols have no room .* of 6 places"),
        (partial(Induction, pattern="wave"), "data.pattern=wave is unknown: choose one of trigger, repeat"),
        (partial(Induction, length=2), "data.length=2 must be at least 3"),
        (partial(WordProblem, group="Z_1"), "data.group=Z_1 is not a group known here: choose Z_n with n from 2"),
        (partial(WordProblem, group="S_6"), "data.group=S_6 is not a group known here"),
        (partial(ModularAddition, modulus=1), "data.modulus=1 must be from 2 to 2000"),
        (partial(ModularAddition, train_fraction=1.0), "data.train_fraction=1.0 must be above 0 and below 1"),
        (partial(ModularAddition, modulus=3, train_fraction=0.9), "data.train_fraction=0.9 of 6 pairs .* split empty"),
        (partial(ModularAddition, pairs="all"), "data.pairs=all is unknown: choose unordered or ordered"),
        (partial(Dyck, length=9), "data.length=9 must be at least 2 and even"),
        (partial(Dyck, test_length=9), "data.test_length=9 must be at least 2 and even"),
        (partial(Dyck, max_depth=0), "data.max_depth=0 must be at least 1"),
        (partial(ListOps, max_args=1), "data.max_args=1 must be at least 2"),
        (partial(ListOps, length=3), "data.length=3 must be at least 4"),
        (
            partial(ListOps, min_length=10, max_depth=1),
            "data.min_length asks for expressions of 10 tokens or more, .* data.max_args=5 the longest has 7",
        ),
        (partial(ListOps, test_length=40), "data.test_length=40 must be more than data.length=48"),
    ],
)
def test_impossible_problems_are_refused(made: Callable[[], ProceduralSource], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            partial(from_fields, Copy, num_symbols=2, length=3),
            "data=copy has too few different problems .* data.num_train=20000",
        ),
        (partial(from_fields, Dyck, num_types=1, length=2), "data=dyck has too few different problems"),
        (
            partial(from_fields, ListOps, num_train=9, length=37, min_length=37, max_depth=2),
            "data=listops finds no expressions of 37 to 37 tokens with data.max_depth=2 and data.max_args=5",
        ),
    ],
)
def test_more_problems_than_there_are_is_refused(made: Callable[[], ProceduralSource], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made().prepare()


@pytest.mark.parametrize(
    ("name", "least"), [*((name, 20_000) for name in SOURCES if name != "listops"), ("listops", 2_000)]
)
def test_problems_are_drawn_by_the_thousand(name: str, least: int) -> None:
    """The limits are rows per second of processor time: a tenth of a slow machine's, far above a loop over rows."""
    source = SOURCES[name]() if name == "modular_addition" else SOURCES[name](num_train=5_000, min_length=8, length=24)
    started = time.process_time()
    made = len(source.problems("train"))
    assert made / (time.process_time() - started) > least
