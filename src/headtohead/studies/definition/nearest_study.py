"""Find the study nearest to some words: `h2h list study --find "rotary alibi length"`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.compose.choices import STUDY, Choice, choices
from headtohead.config.errors import ConfigurationError
from headtohead.files.safe_read import read_text, read_yaml

_WORD = re.compile(r"[a-z0-9]+")
_SAME_BEGINNING = 5
"""Letters that words of one stem share: length and lengths, extrapolate and extrapolation."""
_IN_THE_NAME, _IN_THE_QUESTION = 1.0, 1.0
"""The factors by which a word counts more there than elsewhere in the file."""


@dataclass(frozen=True)
class NearStudy:
    """A study, and how well words fit it."""

    name: str
    question: str
    score: float
    matched: tuple[str, ...]
    """The words that are in it."""


def nearest_studies(words: str, config_dir: str | Path | None = None, *, most: int = 5) -> list[NearStudy]:
    """Return the studies that have some of the words, the best first; a word that few studies have tells more."""
    terms = list(dict.fromkeys(_words(words)))
    listed = choices(STUDY, config_dir)
    texts = {choice.name: _words(read_text(choice.path)) for choice in listed}
    having = {word: sum(_times(word, text) > 0 for text in texts.values()) for word in terms}
    near = [_near(choice, terms, texts[choice.name], having, len(texts)) for choice in listed]
    ranked = sorted((study for study in near if study.score > 0), key=lambda study: -study.score)
    if not ranked:
        raise ConfigurationError(f"no study has the words {words or repr(words)}: h2h list {STUDY} shows all")
    return ranked[:most]


def _near(
    choice: Choice, terms: Sequence[str], text: Sequence[str], having: Mapping[str, int], total: int
) -> NearStudy:
    content = read_yaml(choice.path)
    question = str(content.get("question", "")) if isinstance(content, dict) else ""
    name, question_words = _words(choice.name), _words(question)

    def weight(word: str) -> float:
        bonus = _IN_THE_NAME * (_times(word, name) > 0) + _IN_THE_QUESTION * (_times(word, question_words) > 0)
        return math.log(1 + total / having[word]) * (math.log(1 + _times(word, text)) + bonus)

    matched = tuple(word for word in terms if _times(word, text))
    score = sum(map(weight, matched)) * len(matched) / max(1, len(terms))
    return NearStudy(choice.name, question, score, matched)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("_", " "))


def _times(word: str, text: Sequence[str]) -> int:
    beginning = word[: max(_SAME_BEGINNING, len(word) - 2)]
    return sum(other == word or (len(word) >= _SAME_BEGINNING and other.startswith(beginning)) for other in text)
