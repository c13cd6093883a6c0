"""A finished run that writes a text for a text, as an augmentation uses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.config.errors import ConfigurationError
from headtohead.config.trust import recorded_config
from headtohead.data.data_source import DataSource
from headtohead.data.sources.local_files import content_digest
from headtohead.generation.beam_search import search
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import BEST, put_best

BuildData = Callable[[Mapping[str, Any]], Any]


class RunTranslator:
    """Its data is opened for the tokenizer alone, its model when the first text is written."""

    def __init__(
        self, folder: str, field: str, beams: int, *, build_data: BuildData, make_model: Callable[..., Architecture]
    ) -> None:
        self.field, self.beams, self._build_data, self._make_model = f"{field}={folder}", beams, build_data, make_model
        path = Path(folder.removeprefix("run:")).expanduser()
        if not (path / "record.json").is_file():
            raise ConfigurationError(f"{self.field} holds no record.json: give the folder of a finished run")
        run = RunFolder.open(path)
        self.folder, self.config = run.path, recorded_config(run)
        self._weights = self.folder / "checkpoints" / BEST
        if not self._weights.is_file():
            raise ConfigurationError(f"{self.field} kept no weights: train it with trainer.keep_checkpoints=best")

    @property
    def direction(self) -> TranslationDirection | None:
        return translation_direction_of(self.config["data"])

    def check_goes_back(self, way: TranslationDirection | None, of: str) -> None:
        """Refuse a run that translates in the same direction: it would read what it never learned to read, or write
        what is there already."""
        if way is not None and self.direction is not None and self.direction.is_known_to_meet(way):
            raise ConfigurationError(
                f"{self.field} translates from {self.direction}, and {of} from {way}: give one that was trained from "
                f"{way.back}"
            )

    @property
    def digest(self) -> str:
        return content_digest(self._weights)

    @cached_property
    def data(self) -> DataSource:
        own = {"init_from": str(self.folder)} if self.config.get("init_from") else {}
        data: DataSource = self._build_data({**self.config, **own})
        return data

    @cached_property
    def model(self) -> DecodingModel:
        model = self._make_model(self.config)
        if not isinstance(model, DecodingModel) or not model.reads_source:
            raise ConfigurationError(
                f"{self.field} translates nothing: give a run of task=seq2seq and model=encoder_decoder"
            )
        put_best(self.folder, model)
        return model.eval()

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return the most likely by a beam search; of a text longer than the model reads, its beginning."""
        spec = self.data.spec()
        assert spec.encode is not None and spec.decode is not None, "pairs of texts have a tokenizer"
        prompts = [spec.encode(text)[: spec.max_length] for text in texts]
        indices = [index for index, prompt in enumerate(prompts) if prompt]
        how = DecodingStrategy(max_new_tokens=spec.max_target_length, beams=self.beams)
        result = search(
            self.model, [prompts[index] for index in indices], how, bos_id=spec.bos_id, ends={spec.eos_id}
        )  # fmt: skip
        written = [""] * len(texts)
        for index, best in zip(indices, result, strict=True):
            written[index] = spec.decode([token for token in best[0].tokens if token != spec.eos_id]).strip()
        return written


_NAMES = (("source", "target"), ("source_column", "target_column"))
"""The names of languages, by the endings of files or the names of columns."""
_OF_NUMBERS = {"to_words": ("digits", "words"), "to_digits": ("words", "digits")}
"""Directions of data=number_words; the third, both, goes any way."""
_FILES = ("_target_", "name", "subset", "folder", "path", "column_names")
"""The fields that say in which files, or in which published set, such names are."""
_PATH_FIELDS = ("folder", "path")
_LANGUAGES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka
    kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl
    nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
    ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
"""ISO 639-1."""
_LONGER_TAG = re.compile(r"[a-z]{2,3}[_-]([A-Z]{2}|[A-Z][a-z]{3})")
"""A language tag with a country or a script: de_CH, eng_Latn."""


@dataclass(frozen=True)
class TranslationDirection:
    """A translation direction names what is read, what is written, and the kind of these names."""

    source: str | None
    """Return None where the data tells by itself which of its columns is read."""
    target: str | None
    files: Mapping[str, object]

    @property
    def is_of_languages(self) -> bool:
        """Names that mean the same wherever they are; de and translation.de do, source and target do not."""
        return all(name is not None and _is_language(_last(name)) for name in (self.source, self.target))

    def is_known_to_meet(self, other: TranslationDirection) -> bool:
        """Return whether both read the same or both write the same, so that neither translates the other's way back."""
        if self.files == other.files:
            return self.source == other.source or self.target == other.target
        if not (self.is_of_languages and other.is_of_languages):
            return False
        return _last(self.source) == _last(other.source) or _last(self.target) == _last(other.target)

    def __str__(self) -> str:
        return f"{self.source or 'the source'} to {self.target or 'the target'}"

    @property
    def back(self) -> TranslationDirection:
        """Return the one to be wished for."""
        return TranslationDirection(self.target or "the target", self.source or "the source", self.files)


def translation_direction_of(data: Mapping[str, Any]) -> TranslationDirection | None:
    """Return the direction of pairs of texts; None if no field names it."""
    files = {field: _resolved(field, data[field]) for field in _FILES if data.get(field) is not None}
    if (direction := data.get("direction")) in _OF_NUMBERS:
        return TranslationDirection(*_OF_NUMBERS[direction], files)
    for source, target in _NAMES:
        if source in data and target in data:
            return TranslationDirection(data[source], data[target], files)
    return None


def _resolved(field: str, value: Any) -> Any:
    return str(Path(value).expanduser().resolve()) if field in _PATH_FIELDS and isinstance(value, str) else value


def _last(name: str | None) -> str:
    """Return the last part of a nested column's name, as in translation.de."""
    return (name or "").rpartition(".")[2]


def _is_language(name: str) -> bool:
    return name in _LANGUAGES.split() or _LONGER_TAG.fullmatch(name) is not None
