"""A small version of every choice of conf/data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from headtohead.data.associative_recall import AssociativeRecall
from headtohead.data.contracts import DataSource
from headtohead.data.digits import Digits
from headtohead.data.dyck import Dyck
from headtohead.data.grammar_lm import GrammarCorpus
from headtohead.data.induction import Induction
from headtohead.data.listops import ListOps
from headtohead.data.modular_addition import ModularAddition
from headtohead.data.number_words import NumberWords
from headtohead.data.rewriting import Copy, Reverse, Sort
from headtohead.data.selective_copy import SelectiveCopy
from headtohead.data.sentence_grammar import SentenceGrammar
from headtohead.data.text import TextFiles
from headtohead.data.word_problem import WordProblem

CONF = Path(__file__).parents[2] / "conf" / "data"
FEW = {"num_train": 200, "num_validation": 30, "num_test": 40}
PROCEDURAL: dict[str, Callable[..., DataSource]] = {
    "copy": partial(Copy, **FEW, length=6),
    "dyck": partial(Dyck, **FEW, length=12),
    "induction": partial(Induction, **FEW, length=12),
    "listops": partial(ListOps, **FEW, length=24),
    "modular_addition": partial(ModularAddition, modulus=13),
    "reverse": partial(Reverse, **FEW, length=8, min_length=3),
    "selective_copy": partial(SelectiveCopy, **FEW, length=10, num_copied=3),
    "sort": partial(Sort, **FEW, length=7, form="pairs"),
    "word_problem": partial(WordProblem, **FEW, group="S_3", length=7, test_length=9),
}
NAMES = ("associative_recall", "digits", "grammar_lm", "number_words", "sentence_grammar", "text", *PROCEDURAL)


def small_source(name: str, folder: Path, *, seed: int = 0) -> DataSource:
    """`folder` is where a source that reads files finds them."""
    if name in PROCEDURAL:
        return PROCEDURAL[name](seed=seed)
    if name == "associative_recall":
        return AssociativeRecall(**FEW, length=24, num_pairs=4, vocab_size=40, seed=seed)
    if name == "digits":
        return Digits(num_train=300, seed=seed)
    if name == "grammar_lm":
        return GrammarCorpus(**FEW, context_length=16, vocab_size=300, seed=seed)
    if name == "number_words":
        return NumberWords(**FEW, max_number=9_999, seed=seed)
    if name == "sentence_grammar":
        return SentenceGrammar(**FEW, seed=seed)
    assert name == "text", f"tests know no small version of data={name}"
    return TextFiles(path=str(written_text(folder)), documents="line", context_length=16, seed=seed)


def written_text(folder: Path) -> Path:
    path = folder / "lines.txt"
    path.write_text("".join(f"line number {line} says {line * line}\n" for line in range(400)), encoding="utf-8")
    return path
