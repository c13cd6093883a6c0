"""Validations of some batches alone: rows drawn from all of the split, the same whoever validates and whenever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import headtohead as h2h
from from_fields import from_fields
from headtohead.comparison.comparability import NotComparable
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import Split, SplitName
from headtohead.data.generated.qa_grammar import QaGrammar
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.splits.sample_splits import sampled_rows
from headtohead.records.record import RunRecord
from headtohead.training.run import train
from training.runs import NUM_ROWS, Rows, TinyData, parts


class Listening(Split):
    """Keeps the rows that are requested."""

    def __init__(self, split: Split, heard: list[list[int]]) -> None:
        self._split, self._heard = split, heard

    def __len__(self) -> int:
        return len(self._split)

    def batch(self, rows: np.ndarray) -> Batch:
        self._heard.append(rows.tolist())
        return self._split.batch(rows)


class Overheard(TinyData):
    def __init__(self) -> None:
        super().__init__(batch_size=3)
        self.heard: dict[SplitName, list[list[int]]] = {"train": [], "validation": [], "test": []}

    def split(self, name: SplitName) -> Split:
        return Listening(Rows(name, ragged=False), self.heard[name])


def heard(folder: Path, seed: int, **changes: int | None) -> dict[SplitName, list[list[int]]]:
    data = Overheard()
    train(parts(folder, seed=seed, data=data, max_steps=4, validate_every=2, num_samples=0, **changes))
    return data.heard


@pytest.mark.slow
def test_each_validation_of_each_seed_reads_the_same_rows_from_all_over_the_split(tmp_path: Path) -> None:
    first, second = (heard(tmp_path, seed, validation_batches=2) for seed in (0, 1))
    early, late = first["validation"][:2], first["validation"][2:4]
    assert early == late == second["validation"][:2] == second["validation"][2:4]
    rows = [row for batch in early for row in batch]
    assert len(set(rows)) == 6 and rows == sorted(rows) and rows != list(range(6))
    assert first["train"] != second["train"]


def test_the_test_stays_whole(tmp_path: Path) -> None:
    tested = heard(tmp_path, 0, validation_batches=1)["test"]
    assert sorted({row for batch in tested for row in batch}) == list(range(NUM_ROWS["test"]))


@pytest.mark.parametrize("count", [10, 11, 500])
def test_no_fewer_rows_are_drawn_than_there_are(count: int) -> None:
    sample = sampled_rows(Rows("validation", ragged=False), count, seed=0)
    assert sample.batch(np.arange(len(sample))).rows.tolist() == list(range(10))


class InWholeRows(Rows):
    """Rows 0 to 3 belong together, 4 and 5, and so on."""

    NUMBERS = np.array([7, 7, 7, 7, 2, 2, 5, 0, 0, 9])

    def __init__(self) -> None:
        super().__init__("validation", ragged=False)

    def group_ids(self) -> np.ndarray:
        return self.NUMBERS


@pytest.mark.parametrize("count", [1, 3, 5, 8])
def test_what_is_measured_together_is_drawn_as_a_whole(count: int) -> None:
    drawn = set()
    for seed in range(20):
        sample = sampled_rows(InWholeRows(), count, seed)
        rows = sample.batch(np.arange(len(sample))).rows.numpy()
        numbers = set(InWholeRows.NUMBERS[rows].tolist())
        assert rows.tolist() == np.flatnonzero(np.isin(InWholeRows.NUMBERS, list(numbers))).tolist()
        assert sample.group_ids() is not None and set(sample.group_ids().tolist()) == numbers
        assert len(rows) <= count or len(numbers) == 1
        drawn |= numbers
    assert drawn == {7, 2, 5, 0, 9}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Validation rows in the order of their labels, as IMDB's are published."""
    folder = tmp_path_factory.mktemp("reviews")
    for split, size in (("train", 40), ("dev", 60), ("test", 20)):
        labels = sorted(row % 2 for row in range(size))
        lines = [f"{split} number {row} is {('bad', 'good')[label]},{label}" for row, label in enumerate(labels)]
        (folder / f"{split}.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    return folder


def record_of(reviews: Path, outputs: Path, *overrides: str) -> RunRecord:
    """Not trained at all."""
    return h2h.train(
        h2h.compose("train", [
            "data=csv", f"data.path={reviews}", "data.batch_size=4", "model/size=tiny", "model.d_model=16",
            "model.num_heads=2", "model.num_layers=1", "trainer=cpu", "trainer.max_steps=0", "trainer.num_samples=0",
            "trainer.progress_bar=false", "tracking=none", "probe=none", f"output_dir={outputs}", *overrides,
        ])
    )  # fmt: skip


CLASSES = ["task=classification", "model=encoder_only"]
CORPUS = ["data.text_column=text", "data.context_length=16", "data.packing=stream"]


def test_a_sample_of_rows_that_are_sorted_by_label_has_both_labels(reviews: Path) -> None:
    split = from_fields(CsvFiles, path=str(reviews), tokenizer="char").split("validation")
    first = split.batch(np.arange(8)).targets
    assert first is not None and set(first.tolist()) == {0}
    for seed in range(5):
        drawn = sampled_rows(split, 8, seed).batch(np.arange(8)).targets
        assert drawn is not None and set(drawn.tolist()) == {0, 1}


@pytest.mark.slow
def test_runs_that_sample_the_same_texts_say_so_whatever_their_tokenizers(reviews: Path, tmp_path: Path) -> None:
    sampled = [*CLASSES, "trainer.validation_batches=2"]
    char, byte = (record_of(reviews, tmp_path, *sampled, f"data.tokenizer={name}") for name in ("char", "byte"))
    assert char.comparability.texts == byte.comparability.texts is not None
    assert char.comparability.tokenizer != byte.comparability.tokenizer
    more = record_of(reviews, tmp_path, *CLASSES, "trainer.validation_batches=3", "data.tokenizer=char")
    larger = record_of(reviews, tmp_path, *sampled, "data.tokenizer=char", "data.batch_size=8")
    for other in (more, larger):
        assert other.comparability.texts != char.comparability.texts
        assert other.comparability.evaluation != char.comparability.evaluation


@pytest.mark.slow
def test_a_sample_of_no_fewer_rows_than_there_are_is_a_whole_validation(reviews: Path, tmp_path: Path) -> None:
    """Sixty rows, four at once."""
    whole = record_of(reviews, tmp_path, *CLASSES).comparability
    for batches, is_complete in ((14, False), (15, True), (16, True)):
        sampled = record_of(reviews, tmp_path, *CLASSES, f"trainer.validation_batches={batches}").comparability
        assert (sampled == whole) is is_complete


@pytest.mark.slow
def test_runs_whose_tokens_cut_the_texts_are_compared_with_a_word_of_it(reviews: Path, tmp_path: Path) -> None:
    """Letters of which 20 fit, and pairs of them and more, of which all do."""
    sampled = [*CLASSES, "trainer.validation_batches=2", "data.max_length=22"]
    chosen = {"letters": ["data.tokenizer=char"], "pieces": ["data.tokenizer=bpe", "data.vocab_size=300"]}
    runs = [record_of(reviews, tmp_path, *sampled, *own, f"name={name}") for name, own in chosen.items()]
    dev, share = (
        np.mean([len(line.partition(",")[0]) > 20 for line in (reviews / f"{name}.csv").read_text().splitlines()[1:]])
        for name in ("dev", "test")
    )
    assert runs[0].data["cut_share"]["test"] == share > 0 == runs[1].data["cut_share"]["test"]
    comparison = h2h.compare([run.path for run in runs], against="letters", metric="test/accuracy")
    (message,) = [remark for remark in comparison.remarks if "read different parts" in remark]
    cut = f"letters had texts cut at 22 tokens ({dev:.1%} of validation, {share:.1%} of test)"
    assert f"{cut}; pieces had each whole" in message


@pytest.mark.slow
def test_a_test_of_a_whole_corpus_is_compared_and_validations_of_other_parts_of_it_are_not(
    reviews: Path, tmp_path: Path
) -> None:
    tokenizers = {"letters": ["data.tokenizer=char"], "pieces": ["data.tokenizer=bpe", "data.vocab_size=300"]}
    sampled = [*CORPUS, "trainer.validation_batches=1"]
    runs = [record_of(reviews, tmp_path, *sampled, *own, f"name={name}") for name, own in tokenizers.items()]
    letters, pieces = runs
    assert letters.comparability.texts == pieces.comparability.texts is not None
    assert letters.data["validation_texts"] != pieces.data["validation_texts"]
    folders = [run.path for run in runs]
    comparison = h2h.compare(folders, against="letters", metric="test/bits_per_byte")
    assert any("the weights of each were selected on other texts" in remark for remark in comparison.remarks)
    with pytest.raises(NotComparable, match="differ in their tokenizer"):
        h2h.compare(folders, against="letters", metric="validation/bits_per_byte")


@pytest.mark.slow
def test_whole_validations_of_a_corpus_are_the_same_texts(reviews: Path, tmp_path: Path) -> None:
    whole = record_of(reviews, tmp_path, *CORPUS)
    part = record_of(reviews, tmp_path, *CORPUS, "trainer.validation_batches=1")
    assert "validation_texts" not in whole.data
    assert None is not whole.comparability.texts != part.comparability.texts is not None


def test_questions_are_sampled_with_all_of_their_windows() -> None:
    split = from_fields(QaGrammar, num_train=20, num_validation=30, num_test=5, max_length=32).split("validation")
    options = split.batch(np.arange(len(split))).questions
    sample = sampled_rows(split, 12, seed=0)
    drawn = sample.batch(np.arange(len(sample))).questions
    assert options is not None and drawn is not None
    windows = Counter(one.number for one in options)
    assert max(windows.values()) > 1, "else nothing is shown"
    assert all(windows[question] == number for question, number in Counter(one.number for one in drawn).items())
