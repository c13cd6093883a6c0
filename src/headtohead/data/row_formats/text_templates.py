"""Templates write samples of each kind as text: a source that is read, and a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from string import Formatter
from typing import Any, ClassVar

from headtohead.data.data_source import DataError, SplitName, WrittenAs
from headtohead.data.row_formats.class_names import Classes
from headtohead.data.row_formats.labelled_text import ClassFormat
from headtohead.data.row_formats.questions import Question, QuestionFormat
from headtohead.data.row_formats.tagged import OUTSIDE, TagFormat
from headtohead.data.row_formats.text_source import RowFormat, SampleOrigin

NOTHING = "none"
"""Written where there are no entities."""
_BETWEEN, _NAMED = " ; ", ": "


def entities_to_text(words: Sequence[str], tags: Sequence[str]) -> str:
    """Write the entities that the tags mark (BIO), in their order; an I- that continues no entity of its type begins
    one, as conlleval reads them."""
    entities: list[tuple[str, list[str]]] = []
    before = ""
    for word, tag in zip(words, tags, strict=True):
        begins, _, kind = tag.partition("-")
        if begins == "I" and kind == before:
            entities[-1][1].append(word)
        elif begins in ("B", "I"):
            entities.append((kind, [word]))
        before = kind
    return _BETWEEN.join(f"{kind}{_NAMED}{' '.join(entity)}" for kind, entity in entities) or NOTHING


def entities_from_text(text: str) -> list[tuple[str, str]]:
    """Return type and words of each entity; text without a type is none."""
    parts = (part.partition(_NAMED.strip()) for part in text.split(_BETWEEN.strip()))
    entities = [(kind.strip(), " ".join(entity.split())) for kind, _, entity in parts]
    return [(kind, entity) for kind, entity in entities if kind and entity]


UNANSWERABLE = "unanswerable"
"""Written where a text does not answer the question."""


class TextTemplate(ABC):
    """One for each kind of sample."""

    written_as: ClassVar[WrittenAs]
    label_words: Sequence[str] = ()

    def __init__(self, template: str | None, usual: str, fields: Sequence[str]) -> None:
        self.template = usual if template is None else _checked(template, fields)

    @abstractmethod
    def pair(self, sample: Any, name: SplitName, row: int) -> tuple[str, str]:
        """Return the source and the target."""

    def read(self, **parts: str) -> str:
        return self.template.format(**parts)

    def shares(self, targets: Iterable[str]) -> list[float]:
        """Return the share of each label among the targets, the most frequent first; nothing where targets are
        not labels."""
        del targets
        return []


class LabelTemplate(TextTemplate):
    written_as = "label"

    def __init__(
        self,
        form: ClassFormat,
        train: Sequence[Any],
        template: str | None,
        label_words: Sequence[str] | None,
        origin: SampleOrigin,
    ) -> None:
        is_pair = bool(train) and len(train[0]) == 3
        fields = ("text", "second_text") if is_pair else ("text",)
        usual = "classify: first: {text} second: {second_text}" if is_pair else "classify: {text}"
        super().__init__(template, usual, fields)
        class_names = form.class_names
        self.fields, self.origin = fields, origin
        self.classes = (
            Classes(tuple(class_names)) if class_names else Classes.from_labels(sample[-1] for sample in train)
        )
        self.label_words = _checked_words(label_words, self.classes.names)

    def pair(self, sample: Any, name: SplitName, row: int) -> tuple[str, str]:
        *texts, label = sample
        number = self.classes.number_of(label, "label", partial(self.origin, name, row))
        return self.read(**dict(zip(self.fields, map(str, texts), strict=True))), self.label_words[number]

    def shares(self, targets: Iterable[str]) -> list[float]:
        counts = Counter(targets)
        return [count / counts.total() for _, count in counts.most_common()]


class EntityTemplate(TextTemplate):
    written_as = "entities"

    def __init__(self, form: TagFormat, template: str | None, origin: SampleOrigin) -> None:
        super().__init__(template, "tag: {text}", ("text",))
        self.classes = Classes(tuple(form.class_names)) if form.class_names else None
        self.origin = origin

    def pair(self, sample: Any, name: SplitName, row: int) -> tuple[str, str]:
        words, tags = sample
        named = [self._named(tag, name, row) for tag in tags]
        if len(named) != len(words):
            raise DataError(
                f"{self.origin(name, row)} has {len(words)} words and {len(tags)} tags: give each word one tag."
            )
        return self.read(text=" ".join(words)), entities_to_text(words, named)

    def _named(self, tag: Any, name: SplitName, row: int) -> str:
        named = str(tag)
        if self.classes is not None:
            named = self.classes.names[self.classes.number_of(tag, "tag", partial(self.origin, name, row))]
        if named != OUTSIDE and named[:2] not in ("B-", "I-"):
            raise DataError(
                f"{self.origin(name, row)} has the tag {named!r}, which does not say where an entity begins: name the "
                "tags O, B-TYPE and I-TYPE (data.of.class_names=[O,B-PER,I-PER])."
            )
        return named


class AnswerTemplate(TextTemplate):
    """A template for questions; of several valid answers, the first is the target."""

    written_as = "answer"

    def __init__(self, template: str | None) -> None:
        super().__init__(template, "question: {question} context: {context}", ("question", "context"))

    def pair(self, sample: Question, name: SplitName, row: int) -> tuple[str, str]:
        del name, row
        return self.read(question=sample.question, context=sample.context), sample.answer or UNANSWERABLE


def template_for(
    form: RowFormat[Any],
    train: Sequence[object],
    template: str | None,
    label_words: Sequence[str] | None,
    *,
    index: SampleOrigin,
) -> TextTemplate:
    if label_words is not None and not isinstance(form, ClassFormat):
        raise DataError(f"data.label_words={list(label_words)} has no meaning for {form.kind}: leave it null.")
    if isinstance(form, ClassFormat):
        return LabelTemplate(form, train, template, label_words, index)
    if isinstance(form, TagFormat):
        return EntityTemplate(form, template, index)
    if isinstance(form, QuestionFormat):
        return AnswerTemplate(template)
    raise DataError(
        f"data.of is of kind {form.kind}, which is not put in words: choose labelled_text, tagged_text or questions."
    )


def _checked(template: str, fields: Sequence[str]) -> str:
    known = " and ".join(f"{{{field}}}" for field in fields)
    try:
        named = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise DataError(f"data.template={template!r} cannot be filled ({error}): it takes {known}.") from error
    if set(named) != set(fields):
        raise DataError(f"data.template={template!r} must name {known}, and nothing else in braces.")
    return template


def _checked_words(label_words: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    words = [str(word).strip() for word in (names if label_words is None else label_words)]
    if len(words) != len(names):
        raise DataError(
            f"data.label_words={words} are {len(words)}, and the labels are {len(names)} ({', '.join(names)}): give a "
            "word for each, in this order."
        )
    if len(set(words)) < len(words) or not all(words):
        raise DataError(f"data.label_words={words}: no two may be alike, and none empty.")
    return words
