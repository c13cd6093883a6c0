"""Labels, tags and answers as texts to be written, so that one model does every task (Raffel et al. 2020,
https://arxiv.org/abs/1910.10683)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataError, DataSource, DataSpec, SplitName
from headtohead.data.pairs import Pair, PairForm
from headtohead.data.source import code_digest
from headtohead.data.texts import TextSource, check_max_length
from headtohead.data.tokenizers import TokenizerName
from headtohead.data.wording import Wording, wording_of
from headtohead.ranges import BatchSize, Length, Vocabulary


class TextToText(TextSource):
    """The rows of another source of texts: a template makes the text that is read, and what is to be written is the
    name of the label, the entities with their types, or the answer. The tokenizer learns from both."""

    name: ClassVar[str] = "text_to_text"
    kind = "pairs_of_text"

    def __init__(
        self,
        *,
        of: DataSource | None = None,
        template: str | None = None,
        label_words: list[str] | None = None,
        max_length: Length | None = None,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        if not isinstance(of, TextSource):
            told = "null" if of is None else type(of).__name__
            raise DataError(
                f"data.of={told} is no source of texts that can be put in words: choose labelled texts, tagged words "
                "or questions, such as data@data.of=sentence_grammar."
            )
        self.source, self.template, self.label_words = of, template, label_words
        self.max_length = check_max_length(max_length)
        self.draws_its_rows = of.draws_its_rows
        self._told: dict[str, Any] = {}

    @property
    def drop_field(self) -> str | None:
        inner = self.source.drop_field
        return None if inner is None else inner.replace("data.", "data.of.", 1)

    @property
    def form(self) -> PairForm:
        return PairForm(self.max_length)

    def sample_parameters(self) -> Mapping[str, Any]:
        source = self.source
        inner = {**source.sample_parameters(), **source.form.parameters(), "kind": source.form.kind}
        if source.drop_shared:
            inner["drop_shared"] = True
        return {
            "of": [source.name, code_digest(type(source)), inner],
            "template": self.template,
            "label_words": self.label_words,
        }

    def provenance(self) -> Mapping[str, Any]:
        return self.source.provenance()

    def settled(self) -> Mapping[str, Any]:
        inner = self.source.settled()
        return {"of": inner} if inner else {}

    def view_parameters(self) -> Mapping[str, Any]:
        return {**super().view_parameters(), **self.source.view_parameters()}

    def samples(self) -> Mapping[SplitName, list[Pair]]:
        samples, _ = self.source.samples_apart()
        wording = self._wording(samples)
        pairs = {
            name: [wording.pair(sample, name, row) for row, sample in enumerate(samples[name])] for name in SPLIT_NAMES
        }
        self._told = {
            "written_as": wording.written_as,
            "label_words": list(wording.label_words),
            "answer_shares": wording.shares(target for _, target in pairs["train"]),
        }
        return pairs

    def _wording(self, samples: Mapping[SplitName, Any]) -> Wording:
        return wording_of(self.source.form, samples["train"], self.template, self.label_words, place=self.source.place)

    def place(self, name: SplitName, row: int) -> str:
        return self.source.place(name, row)

    def make(self) -> Prepared:
        made = super().make()
        return Prepared(made.tables, {**made.facts, **self._told})

    def describe_rows(self) -> DataSpec:
        facts = self.content.facts
        return replace(
            super().describe_rows(),
            written_as=facts["written_as"],
            label_words=tuple(facts["label_words"]),
            answer_shares=tuple(facts["answer_shares"]),
        )
