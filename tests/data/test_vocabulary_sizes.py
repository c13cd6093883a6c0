"""A vocabulary of no given size grows with the user's texts, and that of generated texts does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.tokenizers.tokenizer_training import size_for


@pytest.mark.parametrize(
    ("letters", "size"),
    [(0, 512), (50_000, 512), (200_000, 1024), (1_115_394, 2048), (10**8, 16_384), (10**12, 32_768)],
)
def test_it_grows_with_the_root_of_the_letters(letters: int, size: int) -> None:
    assert size_for(letters) == size


@pytest.mark.slow  # it prepares texts by the thousand
def test_texts_of_the_user_get_the_size_that_fits_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    words = "".join(f"word{number * number} and then {number}.\n" for number in range(12_000))
    (tmp_path / "book.txt").write_text(words)
    provided = ["data=text", f"data.path={tmp_path / 'book.txt'}", "data.tokenizer=bpe", "data.documents=line"]
    assert build_data(compose_checked("train", provided)).spec().vocab_size == 1024
    assert build_data(compose_checked("train", [*provided, "data.vocab_size=600"])).spec().vocab_size == 600
    assert build_data(compose_checked("train", ["data=grammar_lm", "data.num_train=200"])).spec().vocab_size <= 512
