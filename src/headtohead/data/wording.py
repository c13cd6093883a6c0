"""Samples of each kind in words: what is read, by a template, and what is to be written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from string import Formatter
from typing import Any, ClassVar

from headtohead.data.classes import Classes
from headtohead.data.contracts import DataError, SplitName, WrittenAs
from headtohead.data.labelled import LabelledForm
from headtohead.data.questions import Question, QuestionForm
from headtohead.data.tagged import OUTSIDE, TaggedForm
from headtohead.data.texts import Form, Place
from headtohead.data.written_forms import entities_in_words

UNANSWERABLE = "unanswerable"
"""Written where a text does not answer the question."""


class Wording(ABC):
    """One for each kind of sample."""

    written_as: ClassVar[WrittenAs]
    label_words: Sequence[str] = ()

    def __init__(self, template: str | None, usual: str, fields: Sequence[str]) -> None:
        self.template = usual if template is None else _checked(template, fields)

    @abstractmethod
    def pair(self, sample: Any, name: SplitName, row: int) -> tuple[str, str]:
        """What is read and what is to be written."""

    def read(self, **parts: str) -> str:
        return self.template.format(**parts)

    def shares(self, targets: Iterable[str]) -> list[float]:
        """How often each label is written, the most frequent first; nothing where targets are no labels."""
        del targets
        return []


class LabelWording(Wording):
    written_as = "label"

    def __init__(
        self,
        form: LabelledForm,
        train: Sequence[Any],
        template: str | None,
        label_words: Sequence[str] | None,
        place: Place,
    ) -> None:
        is_pair = bool(train) and len(train[0]) == 3
        fields = ("text", "second_text") if is_pair else ("text",)
        usual = "classify: first: {text} second: {second_text}" if is_pair else "classify: {text}"
        super().__init__(template, usual, fields)
        given = form.class_names
        self.fields, self.place = fields, place
        self.classes = Classes(tuple(given)) if given else Classes.found(sample[-1] for sample in train)
        self.label_words = _checked_words(label_words, self.classes.names)

    def pair(self, sample: Any, name: SplitName, row: int) -> tuple[str, str]:
        *texts, label = sample
        number = self.classes.number_of(label, "label", partial(self.place, name, row))
        return self.read(**dict(zip(self.fields, map(str, texts), strict=True))), self.label_words[number]

    def shares(self, targets: Iterable[str]) -> list[float]:
        counts = Counter(targets)
        return [count / counts.total() for _, count in counts.most_common()]


class EntityWording(Wording):
    written_as = "entities"

    def __init__(self, form: TaggedForm, template: str | None, place: Place) -> None:
        super().__init__(template, "tag: {text}", ("text",))
        self.classes = Classes(tuple(form.class_names)) if form.class_names else None
        self.place = place

    def pair(self, sample: Any, name: SplitName, row: int) -> tuple[str, str]:
        words, tags = sample
        named = [self._named(tag, name, row) for tag in tags]
        if len(named) != len(words):
            raise DataError(
                f"{self.place(name, row)} has {len(words)} words and {len(tags)} tags: give each word one tag."
            )
        return self.read(text=" ".join(words)), entities_in_words(words, named)

    def _named(self, tag: Any, name: SplitName, row: int) -> str:
        named = str(tag)
        if self.classes is not None:
            named = self.classes.names[self.classes.number_of(tag, "tag", partial(self.place, name, row))]
        if named != OUTSIDE and named[:2] not in ("B-", "I-"):
            raise DataError(
                f"{self.place(name, row)} has the tag {named!r}, which does not say where an entity begins: name the "
                "tags O, B-TYPE and I-TYPE (data.of.class_names=[O,B-PER,I-PER])."
            )
        return named


class AnswerWording(Wording):
    """Of several answers that count, the first is written."""

    written_as = "answer"

    def __init__(self, template: str | None) -> None:
        super().__init__(template, "question: {question} context: {context}", ("question", "context"))

    def pair(self, sample: Question, name: SplitName, row: int) -> tuple[str, str]:
        del name, row
        return self.read(question=sample.question, context=sample.context), sample.answer or UNANSWERABLE


def wording_of(
    form: Form[Any],
    train: Sequence[Any],
    template: str | None,
    label_words: Sequence[str] | None,
    *,
    place: Place,
) -> Wording:
    if label_words is not None and not isinstance(form, LabelledForm):
        raise DataError(f"data.label_words={list(label_words)} has no meaning for {form.kind}: leave it null.")
    if isinstance(form, LabelledForm):
        return LabelWording(form, train, template, label_words, place)
    if isinstance(form, TaggedForm):
        return EntityWording(form, template, place)
    if isinstance(form, QuestionForm):
        return AnswerWording(template)
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
