"""A small version of every choice of conf/data."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from from_fields import from_fields
from headtohead.data.data_source import DataSource
from headtohead.data.generated.dyck import Dyck
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.generated.group_problems import ModularAddition, WordProblem
from headtohead.data.generated.in_context_recall import FuzzyRecall, NoisyRecall
from headtohead.data.generated.listops import ListOps
from headtohead.data.generated.number_words import NumberWords
from headtohead.data.generated.pair_grammar import PairGrammar, SimilarityGrammar
from headtohead.data.generated.pathfinder import Pathfinder, PathfinderPixels
from headtohead.data.generated.qa_grammar import QaGrammar
from headtohead.data.generated.recall_problems import AssociativeRecall, Induction, Memorization
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.generated.string_rewriting import Copy, RandomTokens, Reverse, SelectiveCopy, Sort
from headtohead.data.generated.tagging_grammar import TaggingGrammar
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.digits import Digits
from headtohead.data.sources.hub.hub_corpora import HubCorpus
from headtohead.data.sources.hub.hub_images import HubImages
from headtohead.data.sources.hub.hub_tables import HubTables
from headtohead.data.sources.image_folder import ImageFolder
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.line_files import ConllFiles, ParallelText
from headtohead.data.sources.parquet_files import ParquetFiles
from headtohead.data.sources.text_files import NextSentence, TextFiles
from headtohead.data.sources.text_to_text import TextToText

CONF = Path(__file__).parents[2] / "conf" / "data"
FEW = {"num_train": 200, "num_validation": 30, "num_test": 40}
PROCEDURAL: dict[str, Callable[..., DataSource]] = {
    "copy": partial(from_fields, Copy, **FEW, length=6),
    "dyck": partial(from_fields, Dyck, **FEW, length=12),
    "fuzzy_recall": partial(from_fields, FuzzyRecall, **FEW, length=24, num_pairs=3, num_symbols=8, longest_motif=2),
    "induction": partial(from_fields, Induction, **FEW, length=12),
    "listops": partial(from_fields, ListOps, **FEW, length=24),
    "memorization": partial(from_fields, Memorization, **FEW, length=12, num_facts=9),
    "modular_addition": partial(ModularAddition, modulus=13),
    "noisy_recall": partial(from_fields, NoisyRecall, **FEW, length=24, num_pairs=3, num_symbols=8, num_noise=4),
    "random_tokens": partial(from_fields, RandomTokens, **FEW, length=8, num_symbols=7),
    "reverse": partial(from_fields, Reverse, **FEW, length=8, min_length=3),
    "selective_copy": partial(from_fields, SelectiveCopy, **FEW, length=10, num_copied=3),
    "sort": partial(from_fields, Sort, **FEW, length=7, form="pairs"),
    "word_problem": partial(from_fields, WordProblem, **FEW, group="S_3", length=7, test_length=9),
}
PICTURES: dict[str, Callable[..., DataSource]] = {
    name: partial(from_fields, made, **FEW, image_size=24, path_length=5, num_distractors=1, distractor_length=2)
    for name, made in (("pathfinder", Pathfinder), ("pathfinder_pixels", PathfinderPixels))
}
GRAMMARS: dict[str, Callable[..., DataSource]] = {
    "pair_grammar": partial(from_fields, PairGrammar, **FEW),
    "qa_grammar": partial(from_fields, QaGrammar, **FEW),
    "similarity_grammar": partial(from_fields, SimilarityGrammar, **FEW),
    "sentence_grammar": partial(from_fields, SentenceGrammar, **FEW),
    "tagging_grammar": partial(from_fields, TaggingGrammar, **FEW),
    "text_to_text": lambda seed: from_fields(TextToText, of=from_fields(SentenceGrammar, **FEW, seed=seed)),
}
FROM_FILES: dict[str, Callable[..., DataSource]] = {
    "conll": lambda folder, seed: from_fields(ConllFiles, path=str(written_tags(folder)), seed=seed),
    "csv": lambda folder, seed: from_fields(CsvFiles, path=str(written_table(folder)), seed=seed),
    "hub": lambda folder, seed: from_fields(HubTables, folder=str(written_parquet(folder)), seed=seed),
    "hub_images": lambda folder, seed: from_fields(HubImages, folder=str(written_set(folder)), image_size=8, seed=seed),
    "hub_corpus": lambda folder, seed: from_fields(
        HubCorpus, folder=str(written_corpus(folder)), context_length=16, seed=seed
    ),
    "image_folder": lambda folder, seed: from_fields(
        ImageFolder, path=str(written_images(folder)), image_size=8, seed=seed
    ),
    "json": lambda folder, seed: from_fields(JsonFiles, path=str(written_questions(folder)), seed=seed),
    "next_sentence": lambda folder, seed: from_fields(
        NextSentence, path=str(written_text(folder)), sentences="line", seed=seed
    ),
    "parallel_text": lambda folder, seed: from_fields(
        ParallelText, path=str(written_translation(folder)), source="de", target="en", seed=seed
    ),
    "parquet": lambda folder, seed: from_fields(ParquetFiles, path=str(written_parquet(folder)), seed=seed),
    "text": lambda folder, seed: from_fields(
        TextFiles, path=str(written_text(folder)), documents="line", context_length=16, seed=seed
    ),
}
NAMES = ("associative_recall", "digits", "grammar_lm", "number_words", *GRAMMARS, *PICTURES, *PROCEDURAL, *FROM_FILES)


def small_source(name: str, folder: Path, *, seed: int = 0) -> DataSource:
    """Build a small version of a choice; `folder` contains the files of sources that read files."""
    if name in PROCEDURAL | GRAMMARS | PICTURES:
        return (PROCEDURAL | GRAMMARS | PICTURES)[name](seed=seed)
    if name in FROM_FILES:
        return FROM_FILES[name](folder, seed)
    if name == "associative_recall":
        return from_fields(AssociativeRecall, **FEW, length=24, num_pairs=4, vocab_size=40, seed=seed)
    if name == "digits":
        return Digits(num_train=300, seed=seed)
    if name == "grammar_lm":
        return from_fields(GrammarCorpus, **FEW, context_length=16, vocab_size=300, seed=seed)
    assert name == "number_words", f"tests know no small version of data={name}"
    return from_fields(NumberWords, **FEW, max_number=9_999, seed=seed)


def written_text(folder: Path) -> Path:
    path = folder / "lines.txt"
    path.write_text("".join(f"line number {line} says {line * line}\n" for line in range(400)), encoding="utf-8")
    return path


def written_table(folder: Path) -> Path:
    """Write texts with two labels."""
    path = folder / "labelled.csv"
    lines = [f'"text {row}, quoted",{("no", "yes")[row % 2]}' for row in range(200)]
    path.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    return path


def written_questions(folder: Path) -> Path:
    path = folder / "questions.jsonl"
    rows = [
        {"question": f"what is {row} ?", "context": f"number {row} is {row * row} .", "answer": str(row * row)}
        for row in range(200)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def written_parquet(folder: Path) -> Path:
    """Write words and tags, in two splits as a hub provides them; the third is a share of the first."""
    import pyarrow as pa
    from pyarrow import parquet

    root = folder / "parquet"
    root.mkdir(exist_ok=True)
    for split, rows in (("train", range(200)), ("test", range(200, 230))):
        words = [["in", f"town{row}", "lives", f"name{row}"] for row in rows]
        tags = [["O", "B-LOC", "O", "B-PER"] if row % 2 else ["O", "B-LOC", "I-LOC", "O"] for row in rows]
        parquet.write_table(pa.table({"tokens": words, "ner_tags": tags}), root / f"{split}-00000-of-00001.parquet")
    return root


def written_corpus(folder: Path) -> Path:
    """Write documents in one file, as a hub provides them without splits."""
    import pyarrow as pa
    from pyarrow import parquet

    root = folder / "corpus"
    root.mkdir(exist_ok=True)
    texts = [f"document {row} tells of town {row * row}, where name {row} lives" for row in range(200)]
    parquet.write_table(pa.table({"text": texts}), root / "train-00000-of-00001.parquet")
    return root


def written_tags(folder: Path) -> Path:
    path = folder / "tagged.conll"
    sentences = [f"In\tO\nTown{row}\tB-LOC\nCity\tI-LOC\n.\tO\n" for row in range(200)]
    path.write_text("\n".join(sentences), encoding="utf-8")
    return path


def written_translation(folder: Path) -> Path:
    for ending, word in (("de", "Zeile"), ("en", "line")):
        (folder / f"lines.{ending}").write_text("".join(f"{word} {row}\n" for row in range(200)), encoding="utf-8")
    return folder / "lines.de"


def written_set(folder: Path) -> Path:
    """Write a set of pictures of two kinds, as a hub has them."""
    from published_sets.images import write_pictures

    write_pictures(
        folder / "set",
        image="image",
        labels={"label": ("left", "right")},
        shape=(8, 8, 3),
        rows={"train": 100},
        subset=None,
        inside="data",
        licence="mit",
    )
    return folder / "set"


def written_images(folder: Path) -> Path:
    """Write dark and bright noise, 10 x 14 pixels."""
    from PIL import Image

    root = folder / "images"
    generator = np.random.default_rng(0)
    for name, brightest in (("bright", 255), ("dark", 60)):
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(60):
            pixels = generator.integers(brightest, size=(10, 14, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root
