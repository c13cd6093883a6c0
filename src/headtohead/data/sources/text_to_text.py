"""Labels, tags and answers as texts to be written, so that one model does every task (Raffel et al. 2020,
https://arxiv.org/abs/1910.10683)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from headtohead.data.cache.cached_source import code_digest
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSource, DataSpec, SplitName
from headtohead.data.row_formats.text_pairs import Pair, PairFormat
from headtohead.data.row_formats.text_source import BucketedRows, TextSource, check_max_length
from headtohead.data.row_formats.text_templates import TextTemplate, template_for
from headtohead.data.splits.left_out_rows import LeftOutFacts
from headtohead.ranges import Length


class TextToText(TextSource):
    """The rows of another source of texts: a template writes the source text, and the target is the name of the label,
    the entities with their types, or the answer. The tokenizer learns from both."""

    name: ClassVar[str] = "text_to_text"
    kind = "pairs_of_text"
    own_fields: ClassVar[tuple[str, ...]] = ("batch_size", "bucket_by_length", "max_length", "tokenizer", "vocab_size")
    """Fields of the source that are not read: what is read and written has its own."""

    def __init__(
        self,
        *,
        of: DataSource | None = None,  # the source of the labelled texts, tagged words or questions
        template: str | None = None,
        label_words: list[str] | None = None,
        max_length: Length | None = None,
        rows: BucketedRows = BucketedRows(),
    ) -> None:
        super().__init__(rows)
        if not isinstance(of, TextSource):
            kind = "null" if of is None else type(of).__name__
            raise DataError(
                f"data.of={kind} is not a source of texts that can be put in words: choose labelled texts, tagged "
                f"words "
                "or questions, such as data@data.of=sentence_grammar."
            )
        self.source, self.template, self.label_words = of, template, label_words
        self.max_length = check_max_length(max_length)
        self.draws_its_rows = of.draws_its_rows
        self._target_facts: dict[str, Any] = {}

    @property
    def drop_field(self) -> str | None:
        inner = self.source.drop_field
        return None if inner is None else inner.replace("data.", "data.of.", 1)

    @property
    def form(self) -> PairFormat:
        return PairFormat(self.max_length)

    def sample_parameters(self) -> Mapping[str, object]:
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

    def pinned_fields(self) -> Mapping[str, object]:
        inner = self.source.pinned_fields()
        return {"of": inner} if inner else {}

    def ignored_fields(self) -> Mapping[str, object]:
        return {f"of.{name}": value for name, value in self.source.ignored_fields().items()}

    def view_parameters(self) -> Mapping[str, object]:
        return {**super().view_parameters(), **self.source.view_parameters()}

    def samples(self) -> Mapping[SplitName, list[Pair]]:
        samples, _ = self.source.samples_apart()
        wording = self._wording(samples)
        pairs = {
            name: [wording.pair(sample, name, row) for row, sample in enumerate(samples[name])] for name in SPLIT_NAMES
        }
        self._target_facts = {
            "written_as": wording.written_as,
            "label_words": list(wording.label_words),
            "answer_shares": wording.shares(target for _, target in pairs["train"]),
        }
        return pairs

    def _wording(self, samples: Mapping[SplitName, Any]) -> TextTemplate:
        return template_for(
            self.source.form, samples["train"], self.template, self.label_words, index=self.source.origin_of
        )

    def left_out_facts(self) -> LeftOutFacts:
        return self.source.left_out_facts()

    def origin_of(self, name: SplitName, row: int) -> str:
        return self.source.origin_of(name, row)

    def make(self) -> PreparedContent:
        made = super().make()
        return PreparedContent(made.tables, {**made.facts, **self._target_facts})

    def describe_rows(self) -> DataSpec:
        facts = self.content.facts
        return replace(
            super().describe_rows(),
            written_as=facts["written_as"],
            label_words=tuple(facts["label_words"]),
            answer_shares=tuple(facts["answer_shares"]),
        )
