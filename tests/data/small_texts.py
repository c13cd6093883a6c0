"""A source of given samples, of any form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headtohead.data.data_source import SplitName
from headtohead.data.row_formats.text_source import BucketedRows, RowFormat, TextSource
from headtohead.data.tokenizers import TokenizerName


class GivenSamples(TextSource):
    """The same samples in every split, unless validation has its own."""

    name: ClassVar[str] = "given_samples"

    def __init__(
        self,
        form: RowFormat[Any],
        samples: Sequence[Any],
        *,
        validation: Sequence[Any] | None = None,
        tokenizer: TokenizerName = "char",
        bucket_by_length: bool = True,
    ) -> None:
        super().__init__(BucketedRows(2, tokenizer, None, bucket_by_length))
        self._form = form
        held = samples if validation is None else validation
        self.options: dict[SplitName, list[Any]] = {"train": [*samples], "validation": [*held], "test": [*samples]}

    @property
    def form(self) -> RowFormat[Any]:
        return self._form

    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        return self.options

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"form": type(self._form).__name__, "samples": repr(self.options)}
