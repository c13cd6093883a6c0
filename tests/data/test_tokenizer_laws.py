"""These laws hold for every kind of tokenizer and every text: nothing is lost but what is documented to be lost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from data.strange_texts import strange_texts
from headtohead.data.data_source import DataError
from headtohead.data.tokenizers import (
    UNK,
    Tokenizer,
    TokenizerName,
    named_tokenizer,
    tokenizer_cache,
    train_tokenizer,
    trained_tokenizer,
)
from headtohead.records.run_folder import RunFolder

ENGLISH = [
    f"The {who} {does} the {what}, and then the {what} {does} it again; {number} times."
    for number, (who, does, what) in enumerate(
        [("dog", "chased", "cat"), ("teacher", "praised", "book"), ("sailor", "heard", "sea"), ("queen", "saw", "king")]
    )
] * 5
TEXTS = strange_texts(150)
LOSSLESS = ("byte", "bpe", "unigram")
SIZES = {"bpe": 300, "unigram": 300, "wordpiece": 200}


@cache
def trained(kind: TokenizerName) -> Tokenizer:
    return train_tokenizer(kind, [*ENGLISH, *TEXTS[:40]], SIZES.get(kind))


@pytest.mark.parametrize("kind", LOSSLESS)
def test_every_text_comes_back_even_with_signs_that_were_not_learned(kind: TokenizerName) -> None:
    encoded = trained(kind).encode(TEXTS)
    assert [trained(kind).decode(encoded[row].tolist()) for row in range(len(TEXTS))] == TEXTS
    assert not (encoded.values <= UNK).any(), "a special token's name in a text is text"


def test_of_characters_the_known_ones_come_back_and_the_others_are_counted() -> None:
    tokenizer = train_tokenizer("char", TEXTS[:40])
    known = set("".join(TEXTS[:40]))
    for text in TEXTS:
        shown = "".join(sign if sign in known else "<unk>" for sign in text)
        assert tokenizer.decode(tokenizer.encode([text]).values.tolist()) == shown


@pytest.mark.parametrize("kind", LOSSLESS)
def test_pieces_of_exact_kinds_are_the_bytes_of_the_text(kind: TokenizerName) -> None:
    tokenizer = trained(kind)
    encoded = tokenizer.encode(TEXTS)
    for row, text in enumerate(TEXTS):
        assert b"".join(tokenizer.pieces[token] for token in encoded[row]) == text.encode()


def small(text: str) -> str:
    """Return the text without what WordPiece is documented to lose: capitals, accents, blanks."""
    saved = (sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn")
    return "".join("".join(saved).lower().split())


def test_wordpiece_loses_capitals_accents_and_blanks_and_nothing_else() -> None:
    texts = [*ENGLISH[:4], "Crème BRÛLÉE, à  la\tcarte!", "naïve café?"]
    tokenizer = train_tokenizer("wordpiece", texts, 200)
    for text in texts:
        message = tokenizer.decode(tokenizer.encode([text]).values.tolist())
        assert "<unk>" not in message and message.replace(" ", "") == small(text)


def test_wordpiece_read_again_gives_the_same_tokens() -> None:
    tokenizer = trained("wordpiece")
    for text in TEXTS:
        tokens = tokenizer.encode([text]).values.tolist()
        if UNK not in tokens:
            assert tokenizer.encode([tokenizer.decode(tokens)]).values.tolist() == tokens


def test_word_with_a_letter_that_was_not_learned_is_unknown_as_a_whole() -> None:
    tokenizer = train_tokenizer("wordpiece", ["the cat sat on the mat"], 64)
    assert tokenizer.encode(["cat"]).values.tolist() != [UNK]
    assert tokenizer.encode(["czt the"]).values[0] == UNK and (tokenizer.encode(["czt the"]).values[1:] != UNK).all()


def pieces_by_hand(words: Counter[str]) -> list[str]:
    """Return letters at the beginning of words, then those within, then the results of merging the most frequent pair,
    one after another; among equally frequent pairs the older one."""
    letters = sorted({letter for word in words for letter in word})
    pieces = [*letters, *(f"##{letter}" for letter in letters)]
    spelt = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in words}
    while True:
        counts: Counter[tuple[str, str]] = Counter()
        for word, own in spelt.items():
            for pair in pairwise(own):
                counts[pair] += words[word]
        if not counts:
            return pieces
        first, second = min(counts, key=lambda pair: (-counts[pair], pieces.index(pair[0]), pieces.index(pair[1])))
        pieces.append(first + second[2:])
        for own in spelt.values():
            index = 0
            while index < len(own) - 1:
                if (own[index], own[index + 1]) == (first, second):
                    own[index : index + 2] = [pieces[-1]]
                index += 1


def test_wordpiece_merges_the_most_frequent_pairs_first() -> None:
    words = Counter({"unseen": 50, "unsung": 31, "seeing": 23, "singer": 17, "ringer": 11, "users": 5, "ginger": 3})
    tokenizer = train_tokenizer("wordpiece", [" ".join([word] * number) for word, number in words.items()], 64)
    vocabulary = json.loads(tokenizer.merges)["model"]["vocab"]
    in_order = sorted(vocabulary, key=vocabulary.__getitem__)[5:]
    assert len(in_order) > 30 and in_order == pieces_by_hand(words)[: 64 - 5]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_special_tokens_come_first_and_the_size_is_kept(kind: TokenizerName) -> None:
    tokenizer = trained(kind)
    assert tokenizer.vocab_size <= SIZES[kind]
    assert tokenizer.byte_lengths[:5].tolist() == [0] * 5 and (tokenizer.byte_lengths[5:] > 0).all()
    assert Tokenizer.from_dict(json.loads(json.dumps(tokenizer.to_dict()))) == tokenizer


@pytest.mark.process
def test_learning_wordpieces_again_in_another_process_gives_the_same_ones() -> None:
    texts = [f"{number} is {number * number}, {number**3} it said; says, saying" for number in range(300)]
    script = (
        "from headtohead.data.tokenizers import train_tokenizer\n"
        "texts = [f'{n} is {n * n}, {n ** 3} it said; says, saying' for n in range(300)]\n"
        "print(train_tokenizer('wordpiece', texts, 400).digest)"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert train_tokenizer("wordpiece", texts, 400).digest == there


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_what_was_learned_from_a_text_is_kept_under_its_content(
    kind: TokenizerName, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 90 if kind == "wordpiece" else 280
    first = trained_tokenizer(kind, ENGLISH, size)
    others = [trained_tokenizer(kind, ENGLISH, size - 10), trained_tokenizer(kind, ENGLISH[:3], size)]
    assert first == trained_tokenizer(kind, ENGLISH, size) and first not in others
    monkeypatch.setattr(tokenizer_cache, "train_tokenizer", None)
    assert trained_tokenizer(kind, list(ENGLISH), size) == first
    with pytest.raises(TypeError):
        trained_tokenizer(kind, [*ENGLISH, "more"], size)


def test_bytes_of_wordpieces_are_the_bytes_of_the_text_as_it_was() -> None:
    tokenizer = trained("wordpiece")
    tokens, sizes = tokenizer.encode_with_bytes(TEXTS)
    assert np.array_equal(tokens.values, tokenizer.encode(TEXTS).values)
    for row, text in enumerate(TEXTS):
        assert sizes[row].sum() == len(text.encode()) and len(sizes[row]) == len(tokens[row]) + 1


def test_blanks_before_a_word_belong_to_it_and_the_last_ones_to_the_end() -> None:
    tokenizer = train_tokenizer("wordpiece", ["the cat"] * 9, 64)
    tokens, sizes = tokenizer.encode_with_bytes([" Thé  the "])
    assert len(tokens[0]) == 2 and sizes[0].tolist() == [5, 5, 1]


def bert_like(folder: Path) -> Path:
    """Write what `save_pretrained` of a BERT writes: a post-processor that adds [CLS] and [SEP], and names in a
    file."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "."]
    library = Library(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    library.normalizer, library.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    library.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    library.add_special_tokens(words[:5])
    folder.mkdir()
    library.save(str(folder / "tokenizer.json"))
    return folder


def test_any_tokenizer_json_is_read_by_its_path_or_its_folder(tmp_path: Path) -> None:
    folder = bert_like(tmp_path / "bert")
    for path in (folder, folder / "tokenizer.json"):
        tokenizer = named_tokenizer(str(path))
        assert tokenizer.encode(["The cats sat."]).values.tolist() == [5, 6, 8, 7, 9]
        special = tokenizer.special
        assert (special.pad, special.bos, special.eos, special.mask, special.unk) == (0, 2, 3, 4, 1)


@pytest.mark.parametrize("kind", ["char", "byte", "bpe", "unigram", "wordpiece"])
def test_a_runs_tokenizer_is_read_by_its_path_or_the_runs_folder(tmp_path: Path, kind: TokenizerName) -> None:
    RunFolder(tmp_path).write_tokenizer(trained(kind).to_dict())
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        tokenizer = named_tokenizer(str(path))
        assert tokenizer.digest == trained(kind).digest
        for text in ENGLISH[:4]:
            assert tokenizer.encode_one(text) == trained(kind).encode_one(text)


def test_names_in_files_beside_it_come_before_usual_ones(tmp_path: Path) -> None:
    folder = bert_like(tmp_path / "odd")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "[PAD]", "bos_token": {"content": "[MASK]"}})
    )
    special = named_tokenizer(str(folder)).special
    assert (special.eos, special.bos) == (0, 4)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere/tokenizer.json", None, "there is no such file or folder .*: correct the path, or write hf:NAME"),
        ("bad.json", "{}", "its tokenizer.json cannot be read"),
        ("bad.json", "{", "its tokenizer.json cannot be read"),
        ("empty", None, "has no tokenizer.json: save a fast tokenizer there"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    (tmp_path / "empty").mkdir()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"data.tokenizer={re.escape(str(tmp_path / name))}.*{message}"):
        named_tokenizer(str(tmp_path / name))


def test_a_tokenizer_without_an_end_is_refused(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers import models

    Library(models.WordLevel({"a": 0, "b": 1}, unk_token="a")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(DataError, match="names no token that starts or ends a text: add eos_token"):
        named_tokenizer(str(tmp_path))


def test_a_hub_tokenizer_that_is_not_here_is_refused_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        DataError, match=r"data.tokenizer=hf:someone/words is not in .* cannot be reached: connect once"
    ):
        named_tokenizer("hf:someone/words")


def test_a_hub_tokenizer_that_was_fetched_before_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--someone--words"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    bert_like(repository / "snapshots" / commit)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    local = named_tokenizer(str(repository / "snapshots" / commit))
    assert named_tokenizer("hf:someone/words") == named_tokenizer(f"hf:someone/words@{commit}") == local
