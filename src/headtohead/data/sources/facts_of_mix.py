"""Facts about the texts of a mix are counted over all sources: a text of one may stand in the test of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headtohead.data.cache.cached_source import code_digest
from headtohead.data.cache.prepared_content import PreparedContent, prepared
from headtohead.data.data_source import SPLIT_NAMES
from headtohead.data.row_formats.text_source import SplitTexts, TextSource
from headtohead.data.splits.leaks import HELD_OUT, LEAKS, expected_repeats, leaks_between
from headtohead.data.tokenizers.tokenization_facts import facts_for_record, reading_facts

Item = TypeVar("Item")


@dataclass(frozen=True)
class MixFacts:
    """The facts of a mix, in the form of those of a single source."""

    reading: Mapping[str, object]
    leaks: Mapping[str, object]


def facts_of_mix(sources: Sequence[TextSource]) -> MixFacts:
    """Return the facts of these sources together, from the cache if they are there."""
    parameters = {
        "code": [code_digest(type(source)) for source in sources],
        "sources": [
            {"name": source.name, **source.parameters(), "drop_shared": source.drop_shared} for source in sources
        ],
    }
    facts = prepared("mix", parameters, lambda: _counted(sources)).facts
    return MixFacts(facts_for_record(sources[0].tokenizer, facts["reading"]), facts[LEAKS])


def _counted(sources: Sequence[TextSource]) -> PreparedContent:
    samples = [source.samples_apart()[0] for source in sources]
    texts = {
        name: _Chained([SplitTexts(source.form, own[name]) for source, own in zip(sources, samples, strict=True)])
        for name in SPLIT_NAMES
    }
    # Rows that are drawn from a space repeat by chance, and that is not a leak of texts that somebody wrote.
    read = [index for index, source in enumerate(sources) if not source.draws_its_rows] or list(range(len(sources)))
    compared = {name: _Chained([samples[index][name] for index in read]) for name in SPLIT_NAMES}
    form = sources[read[0]].form
    leaks = leaks_between(compared, form.pieces, form.unit)
    if all(source.draws_its_rows for source in sources):
        sizes = {name: leaks[name]["rows"] for name in HELD_OUT}
        leaks["expected"] = expected_repeats(compared["train"], form.pieces, sizes)
    return PreparedContent({}, {"reading": reading_facts(sources[0].tokenizer, texts), LEAKS: leaks})


class _Chained(Generic[Item]):
    """The items of several collections, one after another, which can be iterated repeatedly."""

    def __init__(self, parts: Sequence[Iterable[Item]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Item]:
        return (item for part in self._parts for item in part)
