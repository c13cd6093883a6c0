"""Translations as two files that go together line by line, as in WMT: train.de and train.en."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.contracts import DataError
from headtohead.data.files import check_shares, content_digest, decoded
from headtohead.data.pairs import Pair, PairForm
from headtohead.data.tables.file_samples import FileSamples
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Length, Probability, Seed, Vocabulary


class ParallelText(FileSamples):
    """Files are found by the ending of the source language; beside each lies the one of the target language."""

    name: ClassVar[str] = "parallel_text"
    kind = "pairs_of_text"

    def __init__(
        self,
        *,
        path: str | None = None,
        validation_path: str | None = None,
        test_path: str | None = None,
        validation_share: Probability = 0.05,
        test_share: Probability = 0.05,
        source: str | None = None,
        target: str | None = None,
        encoding: str = "utf-8",
        max_length: Length | None = None,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(
            paths={"train": path, "validation": validation_path, "test": test_path},
            shares=check_shares(validation_share, test_share),
            max_length=max_length,
            seed=seed,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            bucket_by_length=bucket_by_length,
        )
        self.drop_shared = drop_shared
        if source is None or target is None or source == target:
            raise DataError(
                f"data.source={source} and data.target={target} must be two endings of files, such as de and en."
            )
        self.suffixes = (f".{source}".lower(),)
        self.target_suffix, self.encoding = f".{target}", encoding

    @property
    def form(self) -> PairForm:
        return PairForm(self.max_length)

    def sample_parameters(self) -> Mapping[str, Any]:
        partners = [content_digest(self._partner(file)) for files in self.files.values() for file in files]
        return {**super().sample_parameters(), "partners": partners, "encoding": self.encoding}

    def read(self, file: Path) -> Iterator[tuple[Pair, int]]:
        sources, targets = self._lines(file), self._lines(self._partner(file))
        if len(sources) != len(targets):
            raise DataError(
                f"{file} has {len(sources)} lines and {self._partner(file)} has {len(targets)}: they must go together "
                f"line by line."
            )
        yield from zip(zip(sources, targets, strict=True), range(1, len(sources) + 1), strict=True)

    def _lines(self, file: Path) -> list[str]:
        return decoded(file, self.encoding).removeprefix("\ufeff").removesuffix("\n").split("\n")

    def _partner(self, file: Path) -> Path:
        partner = file.with_suffix(self.target_suffix)
        if not partner.is_file():
            raise DataError(f"{file} has no translation beside it: {partner} does not exist; correct data.target.")
        return partner
