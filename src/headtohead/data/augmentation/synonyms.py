"""Words exchanged for synonyms of a table of one's own (synonym replacement of Wei and Zou 2019,
https://arxiv.org/abs/1901.11196)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from headtohead.data.augmentation.contracts import checked_rate
from headtohead.data.augmentation.rewriting import Rewriting
from headtohead.data.contracts import DataError
from headtohead.data.files import decoded
from headtohead.ranges import Probability

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


class Synonyms(Rewriting):
    """Each word that the table knows, capitals apart, becomes one of its synonyms with this probability; each of them
    is as likely. A capital at the beginning stays, and so do words all in capitals."""

    def __init__(self, path: str | None = None, rate: Probability = 0.2) -> None:
        self.rate = checked_rate(rate, "steps.synonyms.rate")
        self.table = read_table(path)

    def rewritten(self, tokens: np.ndarray, draws: np.random.Generator) -> np.ndarray:
        text = self.tokenizer.decode(tokens.tolist())
        again = _WORD.sub(lambda found: self._instead(found[0], draws), text)
        return tokens if again == text else self.tokenizer.encode([again]).values

    def _instead(self, word: str, draws: np.random.Generator) -> str:
        known = self.table.get(word.lower())
        if known is None or draws.random() >= self.rate:
            return word
        synonym = known[int(draws.integers(len(known)))]
        if word.isupper() and len(word) > 1:
            return synonym.upper()
        return synonym[:1].upper() + synonym[1:] if word[0].isupper() else synonym


def read_table(path: str | None) -> dict[str, tuple[str, ...]]:
    """A line for each word: the word, then its synonyms, with tabs between; blank lines and those of # say nothing."""
    field = "augmentation.steps.synonyms.path"
    if path is None:
        raise DataError(f"{field} is missing: give a file with a word and its synonyms a line, with tabs between.")
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"{field}={path} does not exist (from {Path.cwd()}): correct the path.")
    table: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(decoded(file, "utf-8", may_differ=False).removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, *synonyms = (part.strip() for part in line.split("\t"))
        synonyms = [synonym for synonym in synonyms if synonym]
        if not _WORD.fullmatch(word) or not synonyms:
            raise DataError(
                f"{file}, line {number} is not a word and its synonyms with tabs between ({line[:40]!r}): correct it."
            )
        table[word.lower()] = (*table.get(word.lower(), ()), *synonyms)
    if not table:
        raise DataError(f"{field}={path} holds no words: give one and its synonyms a line, with tabs between.")
    return table
