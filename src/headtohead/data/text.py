"""Any local text: one file, or a folder of them, as a language-model corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headtohead.data.contracts import SplitName
from headtohead.data.documents import Documents, Unit
from headtohead.data.language import LanguageSource, Packing
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Length, Probability, Seed, Vocabulary


class TextFiles(LanguageSource):
    """Rows of tokens from documents, packed or padded."""

    name: ClassVar[str] = "text"

    def __init__(
        self,
        *,
        path: str | None = None,
        pattern: str = "**/*.txt",
        encoding: str = "utf-8",
        documents: Unit = "file",
        validation_share: Probability = 0.05,
        test_share: Probability = 0.05,
        context_length: Length = 128,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "char",
        vocab_size: Vocabulary | None = None,
        packing: Packing = "apart",
        seed: Seed = 0,
        drop_shared: bool = False,
    ) -> None:
        super().__init__(
            context_length=context_length,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            packing=packing,
        )
        self.drop_shared = drop_shared
        self.documents = Documents(
            path,
            pattern=pattern,
            encoding=encoding,
            unit=documents,
            validation_share=validation_share,
            test_share=test_share,
            seed=seed,
        )

    def sample_parameters(self) -> Mapping[str, Any]:
        return self.documents.parameters()

    def samples(self) -> Mapping[SplitName, Sequence[str]]:
        return self.documents.by_split()
