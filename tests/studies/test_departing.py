"""A shipped question can be asked of your own data, and is then no longer the shipped question."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from headtohead.cli import main
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import LEARNED, compose_checked
from headtohead.config.schema.key_checks import fields_of
from headtohead.data.tokenizers import TokenizerKind, check_tokenizer
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.planning.study_runs import overrides_of


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text("\n".join(f"Line {number} of a small book about numbers." for number in range(400)))
    return path


def test_positions_are_asked_of_a_book(book: Path) -> None:
    study = read_study("positions_extrapolation", ["data=text", f"data.path={book}"])
    assert any("data.num_train=4000" in sentence for sentence in study.departures)
    assert "no longer the question of study positions_extrapolation" in study.departures[0]
    assert not study.expected and len(study.departures) == 2
    config = compose_checked("train", overrides_of(study, "rotary", 0))
    assert config["data"]["path"] == str(book) and config["data"]["context_length"] == 64


@pytest.mark.slow
def test_the_command_says_what_is_left_out(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "positions_extrapolation", "data=text", f"data.path={book}", "--plan"]) == 0
    assert "data.num_train=4000" in capsys.readouterr().err


def test_what_stays_the_same_question_keeps_its_expectations() -> None:
    shipped = read_study("positions_extrapolation")
    elsewhere = read_study("positions_extrapolation", ["trainer.threads=1", "tracking=none", "seeds=1"])
    assert elsewhere.expected == shipped.expected and not elsewhere.departures
    assert not read_study("positions_extrapolation", ["trainer.max_steps=9"]).expected


@pytest.mark.parametrize("name", [choice.name for choice in choices("study")])
def test_no_field_of_the_old_choice_stays_that_the_new_one_does_not_have(name: str) -> None:
    study = read_study(name, ["data=text", "data.path=book.txt"])
    known = fields_of("data", compose_checked("train", ["data=text", "data.path=book.txt"])["data"])
    assert known is not None
    set_by_base = [override.partition("=")[0] for override in study.base if override.startswith("data.")]
    assert all(key.split(".")[1] in known.kinds for key in set_by_base)
    left_out = set(read_study(name).base) - set(study.base)
    assert all(any(override in sentence for sentence in study.departures) for override in left_out)


@pytest.mark.parametrize("kind", get_args(TokenizerKind))
def test_composition_and_data_agree_on_the_tokenizers_whose_size_is_chosen(kind: str) -> None:
    if kind in LEARNED:
        check_tokenizer(kind, 512)
    else:
        with pytest.raises(ValueError, match="has no meaning for tokenizer"):
            check_tokenizer(kind, 512)


def test_a_tokenizer_of_its_own_size_leaves_out_the_size_of_the_sets() -> None:
    assert compose_checked("train", ["data=fineweb_edu"])["data"]["vocab_size"] == 32768
    assert compose_checked("train", ["data=fineweb_edu", "data.tokenizer=hf:gpt2"])["data"]["vocab_size"] is None
    saved = ["data=fineweb_edu", "data.tokenizer=unigram"]
    assert compose_checked("train", saved)["data"]["vocab_size"] == 32768
    options = ["data=fineweb_edu", "data.tokenizer=hf:gpt2", "data.vocab_size=512"]
    assert compose_checked("train", options)["data"]["vocab_size"] == 512
