"""Texts changed for training: by how much, what stays, and that chance follows from the rows alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from data.small_texts import GivenSamples
from from_fields import from_fields
from headtohead.data.augmentation.augmentation import Augmentation, Augmentations, Draws
from headtohead.data.augmentation.text_rewriting import BpeDropout, Synonyms
from headtohead.data.augmentation.token_noise import SpanMasking, Swapping, TokenDropping, TokenReplacement
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataError
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.generated.listops import ListOps
from headtohead.data.generated.qa_grammar import QaGrammar
from headtohead.data.row_formats.labelled_text import ClassFormat
from headtohead.data.row_formats.tagged import TagFormat
from headtohead.data.row_formats.text_pairs import PairFormat
from headtohead.data.row_formats.text_source import RowFormat

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = [("".join(LETTERS[(row + position) % 26] for position in range(100)), str(row % 2)) for row in range(40)]
SENTENCES = [
    (["the", "queen", "Ada", "of", "New", "York", "saw", "it"], ["O", "O", "B-PER", "O", "B-LOC", "I-LOC", "O", "O"]),
    (["Bob", "sleeps", "in", "the", "north"], ["B-PER", "O", "O", "O", "O"]),
] * 20
PAIRS = [(f"the cat number {row} sits", f"die Katze {row} sitzt") for row in range(30)]
TWO = [(f"first text of {row}", f"second one {row}", str(row % 2)) for row in range(30)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "synonyms.tsv"
    file.write_text("# mine\nthe\ta\tone\n\nqueen\truler\nsits\tis seated\n", encoding="utf-8")
    return file


def source_of(form: RowFormat, samples: list, tokenizer: str = "char") -> GivenSamples:  # type: ignore[type-arg]
    return GivenSamples(form, samples, tokenizer=tokenizer)


def rows_of(source: GivenSamples) -> Batch:
    split = source.split("train")
    return split.batch(np.arange(len(split)))


def changed(step: Augmentation, source: GivenSamples, *, seed: int = 0, epoch: int = 0) -> Batch:
    return Augmentations({"step": step}).bind(source).in_loader(rows_of(source), seed=seed, epoch=epoch)


def likely(count: int, trials: int, probability: float) -> bool:
    """Return whether a binomial count is within five standard deviations: wrong once in two million."""
    return abs(count - trials * probability) < 5 * math.sqrt(trials * probability * (1 - probability))


STEPS: list[tuple[Callable[[], Augmentation], str]] = [
    (lambda: TokenDropping(0.2), "char"),
    (lambda: SpanMasking(0.2), "char"),
    (lambda: TokenReplacement(0.2), "char"),
    (lambda: Swapping(0.2), "char"),
    (lambda: BpeDropout(0.3), "bpe"),
]


@pytest.mark.parametrize(("make", "tokenizer"), STEPS)
@pytest.mark.parametrize("form", ["texts", "two", "pairs"])
def test_what_becomes_of_a_row_follows_from_seed_epoch_and_row_alone(
    make: Callable[[], Augmentation], tokenizer: str, form: str
) -> None:
    samples = {"texts": (ClassFormat(), TEXTS), "two": (ClassFormat(), TWO), "pairs": (PairFormat(), PAIRS)}[form]
    source = source_of(*samples, tokenizer)
    steps = Augmentations({"step": make()}).bind(source)
    split = source.split("train")

    def texts(rows: list[int], seed: int = 3, epoch: int = 1) -> list[list[int]]:
        batch = steps.in_loader(split.batch(np.array(rows)), seed=seed, epoch=epoch)
        return [tokens[valid].tolist() for tokens, valid in zip(batch.tokens, batch.valid, strict=True)]

    together = texts(list(range(20)))
    assert together == texts(list(range(20)))
    assert [texts([row])[0] for row in (7, 2)] == [together[7], together[2]]
    assert together != texts(list(range(20)), epoch=2) and together != texts(list(range(20)), seed=4)


@pytest.mark.parametrize(("make", "tokenizer"), STEPS)
@pytest.mark.parametrize("form", ["texts", "two", "pairs"])
def test_rows_keep_their_frame_and_their_labels(make: Callable[[], Augmentation], tokenizer: str, form: str) -> None:
    samples = {"texts": (ClassFormat(), TEXTS), "two": (ClassFormat(), TWO), "pairs": (PairFormat(), PAIRS)}[form]
    source = source_of(*samples, tokenizer)
    before, after = rows_of(source), changed(make(), source)
    assert torch.equal(before.targets, after.targets) and torch.equal(before.rows, after.rows)
    assert after.tokens.shape == after.valid.shape and after.tokens.shape[1] <= source.spec().max_length
    for row in range(len(before.rows)):
        own, real = after.tokens[row][after.valid[row]], before.tokens[row][before.valid[row]]
        assert [token for token in own.tolist() if token in (1, 2)] == [t for t in real.tolist() if t in (1, 2)]
        assert (after.tokens[row][~after.valid[row]] == 0).all()
        if form == "two":
            border = own.tolist().index(2) + 1
            assert after.token_types[row][after.valid[row]].tolist() == [0] * border + [1] * (len(own) - border)
    if form == "pairs":
        assert torch.equal(before.decoder_tokens, after.decoder_tokens)


def test_dropping_from_a_source_leaves_a_target_of_the_same_length_alone() -> None:
    source = source_of(PairFormat(), [(f"{row:02d}abc", f"{row:02d}xy") for row in range(30)])
    before, after = rows_of(source), changed(TokenDropping(0.3), source)
    assert before.targets.shape == before.tokens.shape and not after.valid.all()
    assert torch.equal(before.targets, after.targets)


def test_tokens_are_dropped_at_the_rate_and_in_order() -> None:
    source = source_of(ClassFormat(), TEXTS)
    before, after = rows_of(source), changed(TokenDropping(0.2), source)
    assert likely(int(before.valid.sum() - after.valid.sum()), 40 * 100, 0.2)
    for row in range(40):
        rest = iter(before.tokens[row].tolist())
        assert all(token in rest for token in after.tokens[row][after.valid[row]].tolist()), "a subsequence"


def test_never_all_of_a_text_is_dropped() -> None:
    source = source_of(ClassFormat(), [("a", "0"), ("b", "1")] * 50)
    after = changed(TokenDropping(0.95), source)
    assert (after.valid.sum(1) == 3).all()


def test_tokens_are_masked_at_the_rate_in_spans_of_the_mean_length() -> None:
    source = source_of(ClassFormat(), TEXTS * 5)
    masked = (changed(SpanMasking(0.15, 3.0), source).tokens == 3).numpy()[:, 1:-1]
    # Neighbours are not independent: the count of a chain varies (1 + r) / (1 - r) times as much as a binomial one.
    r = 1 - 1 / 3 - 0.15 / 0.85 / 3
    spread = math.sqrt(masked.size * 0.15 * 0.85 * (1 + r) / (1 - r))
    assert abs(masked.sum() - masked.size * 0.15) < 5 * spread
    begins = masked & ~np.pad(masked, ((0, 0), (1, 0)))[:, :-1]
    within = masked[begins.any(1)]
    assert abs(within.sum() / begins.sum() - 3.0) < 0.2
    at_each_place = masked.mean(0)
    assert at_each_place.max() < 0.15 + 5 * math.sqrt(0.15 * 0.85 / 200), "no place is special, not even the first"


def test_masks_too_many_for_short_spans_are_refused() -> None:
    with pytest.raises(DataError, match=r"mean_length=1.0 is too short to hide 60% .* give at least 1.5"):
        SpanMasking(0.6, 1.0)


def test_tokens_change_places_in_pairs_at_the_rate() -> None:
    source = source_of(ClassFormat(), TEXTS)
    before, after = rows_of(source).tokens.numpy(), changed(Swapping(0.2), source).tokens.numpy()
    assert np.array_equal(np.sort(before, axis=1), np.sort(after, axis=1))
    moved = int((before != after).sum())
    # A chosen token stays where their number is odd, or where it meets its like: 26 letters, 100 places.
    expected = 40 * (100 * 0.2 - (1 - 0.6**100) / 2) * (1 - 73 / 99 / 25)
    assert abs(moved - expected) < 6 * math.sqrt(40 * 100 * 0.2 * 0.8)


def test_a_merge_is_left_out_at_the_rate() -> None:
    source = source_of(ClassFormat(), [("ab " * 60 + "ab", "0"), ("ba", "1")], "bpe")
    step = BpeDropout(0.25)
    step.bind(source)
    ids = [source.tokenizer.pieces.index(piece) for piece in (b"ab", b"a", b"b")]
    word = np.array(source.tokenizer.encode(["ab"]).values)
    assert word.tolist() == [ids[0]]
    draws = np.random.default_rng(0)
    apart = sum(step.rewritten(word, draws).tolist() == ids[1:] for _ in range(2000))
    assert likely(apart, 2000, 0.25)


def test_with_no_merge_left_out_pieces_are_those_of_the_tokenizer() -> None:
    source = source_of(ClassFormat(), [(source, "0") for source, _ in PAIRS] + [("Ünïcode 日本 🙂  it's", "1")], "bpe")
    before, after = rows_of(source), changed(BpeDropout(0.0), source)
    assert torch.equal(before.tokens, after.tokens)
    often = changed(BpeDropout(0.5), source)
    assert not torch.equal(often.tokens, before.tokens)
    for old, new in zip(before.tokens, often.tokens, strict=True):
        text, again = source.decode(old.tolist()), source.decode(new.tolist()).rstrip("\ufffd")
        is_cut = int((new != 0).sum()) == source.spec().max_length
        assert again == text or (is_cut and text.startswith(again))


def test_dropout_of_merges_needs_merges() -> None:
    for tokenizer in ("char", "byte", "unigram", "wordpiece"):
        with pytest.raises(DataError, match=f"data.tokenizer={tokenizer} has none: use data.tokenizer=bpe"):
            BpeDropout().bind(source_of(ClassFormat(), TEXTS[:4], tokenizer))


def test_words_become_their_synonyms_at_the_rate(table: Path) -> None:
    samples = [
        ("The queen saw the QUEEN; other words stay.", "0"),
        ("she sits, sits and theses stay" + " " * 30, "1"),
    ] * 200
    source = source_of(ClassFormat(), samples, "byte")
    texts = [source.decode(row.tolist()) for row in changed(Synonyms(str(table), 0.3), source).tokens]
    first = " ".join(texts[0::2])
    replaced = {word: first.count(word) for word in ("ruler", "RULER", "A ", "One ", " a ", " one ")}
    assert likely(replaced["ruler"], 200, 0.3) and likely(replaced["RULER"], 200, 0.3)
    assert likely(replaced["A "], 200, 0.15) and likely(replaced["One "], 200, 0.15)
    assert likely(replaced[" a "] + replaced[" one "], 200, 0.3)
    assert all(text.endswith("other words stay.") for text in texts[0::2])
    assert likely(" ".join(texts[1::2]).count("is seated"), 400, 0.3) and all("theses" in text for text in texts[1::2])


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
def test_a_word_keeps_its_tag_whatever_becomes_of_its_pieces(tokenizer: str, table: Path) -> None:
    source = source_of(TagFormat(), SENTENCES, tokenizer)
    names = source.spec().class_names

    def tagged(batch: Batch) -> list[list[tuple[str, str]]]:
        result = []
        for tokens, tags, valid in zip(batch.tokens, batch.targets, batch.valid, strict=True):
            first_ones = [index for index, tag in enumerate(tags.tolist()) if tag != IGNORED]
            ends = [*first_ones[1:], int(valid.sum()) - 1]
            words = [source.decode(tokens[a:b].tolist()).strip() for a, b in zip(first_ones, ends, strict=True)]
            result.append([(word, names[tags[index]]) for word, index in zip(words, first_ones, strict=True)])
        return result

    before = tagged(rows_of(source))
    assert before[0] == list(zip(*SENTENCES[0], strict=True))
    steps = [Synonyms(str(table), 0.9), *([BpeDropout(0.5)] if tokenizer == "bpe" else [])]
    synonyms = {"the": {"the", "a", "one"}, "queen": {"queen", "ruler"}}
    for step in steps:
        for old, new in zip(before, tagged(changed(step, source)), strict=True):
            assert len(new) <= len(old)
            for (word, tag), (other, same) in zip(old, new, strict=False):
                is_cut = (other, same) == new[-1]
                assert tag == same and (is_cut or other in synonyms.get(word, {word}))
    masked = changed(SpanMasking(0.3), source)
    assert torch.equal(masked.targets, rows_of(source).targets) and (masked.tokens == 3).any()


def test_of_tagged_words_whole_ones_outside_of_entities_are_dropped_at_the_rate() -> None:
    source = source_of(TagFormat(), SENTENCES)
    outside = source.spec().class_names.index("O")
    before, after = rows_of(source), changed(TokenDropping(0.3), source)
    saved, had = (int((batch.targets == outside).sum()) for batch in (after, before))
    assert likely(had - saved, had, 0.3)
    for row, (words, tags) in enumerate(SENTENCES):
        entities = [tag for tag in after.targets[row].tolist() if tag not in (IGNORED, outside)]
        assert entities == [source.spec().class_names.index(tag) for tag in tags if tag != "O"]
        left = source.decode(after.tokens[row].tolist()).split()
        assert set(left) <= set(words) and [w for w, tag in zip(words, tags, strict=True) if tag != "O"] == [
            word for word in left if word in ("Ada", "New", "York", "Bob")
        ]


def test_answers_stay_in_sight_under_masks() -> None:
    source = from_fields(QaGrammar, num_train=200, num_validation=20, num_test=20, tokenizer="char")
    split = source.split("train")
    before = split.batch(np.arange(len(split)))
    after = Augmentations({"step": SpanMasking(0.5, 4.0)}).bind(source).in_loader(before, seed=0, epoch=0)
    assert torch.equal(before.targets, after.targets) and (after.tokens == 3).float().mean() > 0.1
    for row, (first, last) in enumerate(before.targets.tolist()):
        assert torch.equal(after.tokens[row, first : last + 1], before.tokens[row, first : last + 1])


def test_several_are_applied_in_turn_with_chances_of_their_own() -> None:
    source = source_of(ClassFormat(), TEXTS)
    steps = {"swapping": Swapping(0.3), "again": Swapping(0.3), "span_masking": SpanMasking(0.2)}
    both = Augmentations(steps).bind(source).in_loader(rows_of(source), seed=1, epoch=0)
    batch = rows_of(source)
    for index, step in enumerate(steps.values()):
        batch = step(batch, Draws(batch.rows.numpy(), 1, 0, index))
    assert torch.equal(both.tokens, batch.tokens)
    first, second = (Swapping(0.3), Swapping(0.3))
    first.bind(source)
    second.bind(source)
    rows = rows_of(source)
    draws = [step(rows, Draws(rows.rows.numpy(), 1, 0, index)).tokens for index, step in enumerate((first, second))]
    assert not torch.equal(*draws)


def corpus() -> GrammarCorpus:
    return from_fields(GrammarCorpus, num_train=60, num_validation=5, num_test=5, context_length=8)


def questions() -> QaGrammar:
    return from_fields(QaGrammar, num_train=30, num_validation=5, num_test=5)


@pytest.mark.parametrize(
    ("step", "source", "message"),
    [
        (Swapping(), corpus, "kind language: a token that comes too early would tell what is to be predicted"),
        (BpeDropout(), corpus, "kind language: the rows of a corpus are cut from it at lengths of their own"),
        (TokenReplacement(), lambda: source_of(TagFormat(), SENTENCES), "a tag belongs to its word"),
        (
            TokenReplacement(),
            lambda: from_fields(ListOps, num_train=20, num_validation=2, num_test=2),
            "decides its answer",
        ),
        (TokenDropping(), questions, "kind questions: its answers are marked by their places"),
        (Swapping(), lambda: source_of(TagFormat(), SENTENCES), "kind tagged_text: a word's tag depends on the words"),
        (
            Swapping(),
            lambda: from_fields(ListOps, num_train=20, num_validation=2, num_test=2),
            "every token of this data decides",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    step: Augmentation, source: Callable[[], GivenSamples], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Augmentations({"step": step}).bind(source())


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_rates_that_are_none_are_refused(rate: float) -> None:
    for make in (TokenDropping, TokenReplacement, Swapping, BpeDropout, SpanMasking):
        with pytest.raises(DataError, match=f"rate={rate} must be at least 0 and below 1"):
            make(rate)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist"), ("", "holds no words"), ("big\tlarge\ngood fine\n", "line 2 is not a word and its")],
)
def test_a_table_that_says_nothing_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "table.tsv"
    if content is not None:
        file.write_text(content)
    with pytest.raises(DataError, match=message):
        Synonyms(str(file))
