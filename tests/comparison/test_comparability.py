"""Unlike runs are refused, unless told to, and then it is said."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from headtohead.comparison.comparability import NotComparable, refuse_unlike
from headtohead.metrics.generated_texts import EXACT_MATCH, EXACT_MATCH_OF_QUESTIONS
from headtohead.records.record import Comparability, RunRecord, StudyPosition


def record(name: str, seed: int = 0, **fields: str) -> RunRecord:
    alike = {"tokenizer": "char", "evaluation": f"rows of {seed}", "loss_normalisation": "mean", **fields}
    budget = alike.pop("budget", None)
    return RunRecord(
        id=f"{name}-{seed}",
        name=name,
        seed=seed,
        comparability=Comparability(**alike),
        budget={"kind": budget} if budget else {},
    )


def three(**fields: str) -> list[RunRecord]:
    return [record("lstm"), record("mamba"), record("gpt", **fields)]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("tokenizer", "tokenizer: gpt .* has other, the others char"),
        ("evaluation", "evaluation data: gpt .* has other, the others rows of 0"),
        ("loss_normalisation", "loss normalisation: gpt .* has other, the others mean"),
        ("budget", "budget: gpt .* has other, the others none held equal"),
    ],
)
def test_the_odd_one_out_is_refused_by_name_and_allowed_where_asked(field: str, message: str) -> None:
    with pytest.raises(NotComparable, match=f"{message}.*--allow-unlike {field}"):
        refuse_unlike(three(**{field: "other"}))
    (remark,) = refuse_unlike(three(**{field: "other"}), allowed=[field])
    assert remark.startswith("unlike by permission: not all runs have the same")
    assert "gpt" in remark


def test_of_many_arms_the_first_are_named_and_the_others_counted() -> None:
    others = [record(f"arm{number}", tokenizer="other") for number in range(9)]
    (remark,) = refuse_unlike([*(record(f"ours{number}") for number in range(20)), *others], allowed=["tokenizer"])
    assert "arm3 (1 run) and 5 more arms has other" in remark


def test_what_is_allowed_does_not_allow_anything_else() -> None:
    unlike = three(tokenizer="bytes", evaluation="other")
    with pytest.raises(NotComparable, match="evaluation data"):
        refuse_unlike(unlike, allowed=["tokenizer"])
    assert len(refuse_unlike(unlike, allowed=["tokenizer", "evaluation"])) == 2


@pytest.mark.parametrize("allowed", [(), ("tokenizer",)])
def test_alike_runs_have_nothing_to_be_said(allowed: Collection[str]) -> None:
    assert refuse_unlike(three(), allowed=allowed) == []


def test_a_difference_that_does_not_exist_cannot_be_allowed() -> None:
    with pytest.raises(NotComparable, match="choose from budget, evaluation, loss_normalisation, tokenizer"):
        refuse_unlike(three(), allowed=["seed"])


def test_offset_seeds_are_matched_by_the_seed_of_their_study() -> None:
    pair = [record("lstm", 0), record("lstm", 1000, evaluation="rows of 0")]
    pair[1].place = StudyPosition("twins", "lstm again", 0)
    assert refuse_unlike(pair) == []


def test_runs_of_which_nothing_is_known_are_said_beside_runs_of_ours() -> None:
    stranger = RunRecord(id="x", name="theirs")
    (remark,) = refuse_unlike([*three(), stranger])
    assert remark.startswith("it is unknown whether theirs had the tokenizer")
    assert refuse_unlike([stranger, stranger]) == []


def test_runs_of_one_id_in_two_studies_are_looked_at_one_by_one() -> None:
    duplicates = [record("lstm", budget="equal_tokens"), record("lstm", budget="equal_parameters")]
    with pytest.raises(NotComparable, match="these runs differ in their budget"):
        refuse_unlike(duplicates)


def test_many_odd_runs_are_told_by_arm() -> None:
    provided = [record("gpt", seed, budget="equal_flops" if seed < 5 else "equal_tokens") for seed in range(12)]
    with pytest.raises(NotComparable, match=r"budget: gpt \(5 runs\) has equal_flops, the others equal_tokens"):
        refuse_unlike(provided)


def readers(**fields: str) -> list[RunRecord]:
    """The same texts in characters and in pairs; the tokenizer changes rows."""
    char = record("char", texts="tales", **fields)
    pairs = record("pairs", texts="tales", tokenizer="bpe", evaluation="rows of pairs", **fields)
    for one, size, per_token in ((char, 65, 1.0), (pairs, 512, 2.34)):
        one.metrics["test"] = {"loss": 2.0, "bits_per_byte": 2.5}
        one.data = {"tokenizer": one.name, "vocab_size": size, "bytes_per_token": {"test": per_token}}
        one.data["unknown_share"] = {"test": 0.0125}
    return [char, pairs]


def test_losses_of_other_tokens_are_refused_and_bits_per_byte_named() -> None:
    with pytest.raises(NotComparable, match=r"tokenizer: .*compare them by bits_per_byte.*--metric test/bits_per_byte"):
        refuse_unlike(readers(), metric="test/loss")
    with pytest.raises(NotComparable, match="bits_per_byte"):
        refuse_unlike(readers())  # selected by the loss


@pytest.mark.parametrize("metric", ["bits_per_byte", "test/bits_per_byte", "validation/accuracy"])
def test_bits_per_byte_of_the_same_texts_are_compared_and_the_tokenizers_told(metric: str) -> None:
    (remark,) = refuse_unlike(readers(), metric=metric)
    assert remark == (
        "read by different tokenizers: char of 65 tokens (1.00 bytes per token, 1.25% unknown); "
        "pairs of 512 tokens (2.34 bytes per token, 1.25% unknown)"
    )


def test_bits_per_byte_of_other_texts_are_refused() -> None:
    char, pairs = readers()
    pairs.comparability.texts = "other tales"
    with pytest.raises(NotComparable, match=r"differ in their tokenizer: (?!.*bits_per_byte)"):
        refuse_unlike([char, pairs], metric="bits_per_byte", allowed=["evaluation"])
    pairs.comparability.texts = char.comparability.texts = None
    with pytest.raises(NotComparable, match="differ in their tokenizer"):
        refuse_unlike([char, pairs], metric="bits_per_byte")


def test_validations_that_read_other_parts_of_the_same_texts_are_refused() -> None:
    """Rows that a tokenizer cut were sampled; the test read all."""
    both = readers()
    for one in both:
        one.metrics["validation"] = {"bits_per_byte": 2.5}
        one.data["validation_texts"] = f"rows of {one.name}"
    _, remark = refuse_unlike(both, metric="test/bits_per_byte")
    assert remark.startswith("the weights of each were selected on other texts: trainer.validation_batches samples")
    with pytest.raises(NotComparable, match="differ in their tokenizer"):
        refuse_unlike(both, metric="validation/bits_per_byte")
    for one in both:
        del one.metrics["test"]  # what has no test is compared by its validation
    with pytest.raises(NotComparable, match="differ in their tokenizer"):
        refuse_unlike(both, metric="bits_per_byte")


def test_answers_to_questions_are_compared_as_texts_and_exact_matches_of_tokens_are_not() -> None:
    both = readers()
    for one in both:
        one.metrics["test"] |= {"exact_match": 0.5, "f1": 0.6}
        one.scales = {"exact_match": EXACT_MATCH_OF_QUESTIONS}
    for metric in ("f1", "test/exact_match"):
        assert len(refuse_unlike(both, metric=metric)) == 1
    both[1].scales = {"exact_match": EXACT_MATCH}
    with pytest.raises(NotComparable, match="differ in their tokenizer"):
        refuse_unlike(both, metric="test/exact_match")


def test_other_rows_of_the_same_tokenizer_are_refused_by_any_metric() -> None:
    char, pairs = readers()
    other = record("long", texts="tales", evaluation="longer rows")
    with pytest.raises(NotComparable, match=r"tokenizer|evaluation data"):
        refuse_unlike([char, pairs, other], metric="bits_per_byte")
    with pytest.raises(NotComparable, match="evaluation data"):
        refuse_unlike([char, other], metric="bits_per_byte")


def test_runs_selected_by_bits_per_byte_need_no_metric_named() -> None:
    pair = readers()
    for one in pair:
        one.selection.metric = "bits_per_byte"
    assert len(refuse_unlike(pair)) == 1


def test_runs_that_were_asked_the_same_after_training_may_have_been_trained_on_anything() -> None:
    options = three(tokenizer="other", evaluation="elsewhere")
    for record in options:
        record.metrics["retrieval"], record.links["retrieval"] = {"mrr@10": 0.5}, "evaluations/retrieval-1.json"
    assert refuse_unlike(options, metric="retrieval/mrr@10") == []
    with pytest.raises(NotComparable, match="tokenizer"):
        refuse_unlike(options, metric="loss")
    options[0].links["retrieval"] = "evaluations/retrieval-2.json"
    with pytest.raises(NotComparable, match="tokenizer"):
        refuse_unlike(options, metric="retrieval/mrr@10")


def cut_readers(char: dict[str, float] | None, pairs: dict[str, float] | None) -> list[RunRecord]:
    both = readers()
    for one, shares, length in zip(both, (char, pairs), (64, 32), strict=True):
        if shares is not None:
            one.data |= {"cut_share": shares, "max_length": length}
    return both


def test_accuracies_of_texts_that_tokens_cut_are_compared_and_how_each_cut_is_told() -> None:
    both = cut_readers(
        {"train": 0.5, "validation": 0.25, "test": 0.314}, {"train": 0.0, "validation": 0.0, "test": 0.02}
    )
    _, remark = refuse_unlike(both, metric="test/accuracy")
    assert remark == (
        "these runs read different parts of the texts: char had texts cut at 64 tokens (25.0% of validation, 31.4% of "
        "test); pairs had texts cut at 32 tokens (2.0% of test). What is compared is a tokenizer together with what "
        "data.max_length leaves of a text in its tokens"
    )
    assert len(refuse_unlike(both, metric="test/bits_per_byte")) == 1


def test_who_read_each_text_whole_is_told_beside_who_did_not() -> None:
    whole = {"train": 0.0, "validation": 0.0, "test": 0.0}
    _, remark = refuse_unlike(cut_readers(whole | {"test": 0.5}, whole), metric="accuracy")
    assert "char had texts cut at 64 tokens (50.0% of test); pairs had each whole." in remark
    _, remark = refuse_unlike(cut_readers(whole | {"test": 0.5}, None), metric="accuracy")
    assert "pairs had each whole" in remark


def test_where_nothing_measured_is_cut_nothing_is_said_of_it() -> None:
    only_train = {"train": 0.5, "validation": 0.0, "test": 0.0}
    assert len(refuse_unlike(cut_readers(only_train, only_train), metric="accuracy")) == 1
    assert len(refuse_unlike(cut_readers(None, None), metric="accuracy")) == 1


def test_of_an_older_record_it_is_said_that_its_texts_may_be_cut() -> None:
    both = cut_readers(None, None)
    both[0].config = {"data": {"max_length": 128}}
    _, remark = refuse_unlike(both, metric="accuracy")
    assert "char may have had texts cut at 128 tokens, which its record does not say; pairs had each whole" in remark


def test_of_wordpieces_it_is_said_that_they_predict_less_than_the_text() -> None:
    char, pieces = readers()
    pieces.data["tokenizer"] = "wordpiece"
    (remark,) = refuse_unlike([char, pieces], metric="bits_per_byte")
    assert remark.count("capitals, accents and blanks are not predicted") == 1


def test_no_record_is_compared_with_another_one_by_all_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record("lstm", seed) for seed in range(3)] + [RunRecord(id="theirs", name="theirs")]

    def refuse(*_: object) -> bool:
        raise AssertionError("the time of a comparison grows with the square of the number of its records")

    monkeypatch.setattr(RunRecord, "__eq__", refuse)
    (remark,) = refuse_unlike(records)
    assert "it is unknown whether theirs" in remark
