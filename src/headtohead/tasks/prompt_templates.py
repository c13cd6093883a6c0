"""Labelled texts as prompts: a template with a word for each class (Brown et al. 2020,
https://arxiv.org/abs/2005.14165)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from torch import Tensor

from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.tasks.class_metrics import class_name, class_names

OF_ONE_TEXT = "Text: {text}\nLabel: {label}"
OF_TWO_TEXTS = "First: {text}\nSecond: {second_text}\nLabel: {label}"
CONTENT_FREE = ("N/A", "", "[MASK]")
"""Texts without content, for which a calibrated model would find all labels equally likely (Zhao et al. 2021,
https://arxiv.org/abs/2102.09690)."""
_FIELD = re.compile(r"\{(text|second_text|label)\}")
_LABEL = "{label}"

Texts = tuple[str, ...]
"""The texts of a row: one, or two."""
Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Template:
    """A prompt with fields for the texts and the label's word, which comes last."""

    text: str
    words: tuple[str, ...]
    """The word of each class."""

    @classmethod
    def of(cls, template: str | None, words: Sequence[str] | None, spec: DataSpec) -> Template:
        """Build the user's template, or a plain one with the names of the classes; raise ValueError if it is
        malformed."""
        usual = OF_ONE_TEXT if spec.num_texts == 1 else OF_TWO_TEXTS
        text = usual if template is None else template.replace("\\n", "\n")
        _check_fields(text, spec.num_texts)
        if words is not None and len(words) != spec.num_classes:
            raise UsageError(
                f"task.label_words names {len(words)} words, and the data has {spec.num_classes} classes "
                f"({', '.join(class_names(spec))}): give one for each, in this order."
            )
        chosen = tuple(words or (name.replace("_", " ") for name in class_names(spec)))
        if "" in chosen or len(set(chosen)) < len(chosen):
            raise UsageError(f"task.label_words={list(chosen)}: give words, no two of them alike.")
        return cls(text, chosen)

    def context(self, texts: Texts) -> str:
        """Return everything before the label's word and its leading blank."""
        values = dict(zip(("text", "second_text"), texts, strict=False))
        return _FIELD.sub(lambda match: values[match[1]], self._before)

    def choice(self, number: int) -> str:
        """Return the word of a class with its leading blank."""
        return self.text[len(self._before) : -len(_LABEL)] + self.words[number]

    def choice_tokens(self, encode: Encode) -> list[list[int]]:
        """Return each class word's tokens as encoded after the fixed text before it: some tokenizers spell a word by
        what precedes it."""
        after = _FIELD.split(self._before)[-1]
        alone = list(encode(after)) if after else []
        tokens = []
        for number in range(len(self.words)):
            both = list(encode(after + self.choice(number)))
            keeps_prefix = bool(alone) and both[: len(alone)] == alone
            tokens.append(both[len(alone) :] if keeps_prefix else list(encode(self.choice(number))))
        return tokens

    @property
    def _before(self) -> str:
        return self.text[: -len(_LABEL)].rstrip()


def _check_fields(text: str, num_texts: int) -> None:
    result = [match[1] for match in _FIELD.finditer(text)]
    needed = {"text", "label"} | ({"second_text"} if num_texts == 2 else set())
    if set(result) != needed or not text.endswith(_LABEL) or result.count("label") > 1:
        fields = " and ".join(f"{{{name}}}" for name in ("text", "second_text") if name in needed)
        raise UsageError(
            f"task.template={text!r} must hold {fields}, and end with its only {{label}}, as {OF_ONE_TEXT!r} does."
        )


def texts_of(batch: Batch, spec: DataSpec) -> list[Texts]:
    """Return the texts of each row as they were written."""
    assert batch.tokens is not None and spec.decode is not None, "labelled texts have tokens"
    result: list[Texts] = []
    for row in range(batch.num_samples):
        tokens = _real(batch.tokens[row], batch, row)
        if batch.token_types is None:
            result.append((spec.decode(tokens.tolist()),))
            continue
        second = _real(batch.token_types[row], batch, row) == 1
        result.append((spec.decode(tokens[~second].tolist()), spec.decode(tokens[second].tolist())))
    return result


def _real(values: Int[Tensor, " L"], batch: Batch, row: int) -> Int[Tensor, " K"]:
    return values if batch.valid is None else values[batch.valid[row]]


_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Example:
    """A row of the train split with its class."""

    row: int
    texts: Texts
    label: int


@dataclass(frozen=True)
class Examples:
    """The examples of a prompt, in the order in which prompts show them."""

    shown: tuple[Example, ...] = ()
    reserves: tuple[Example, ...] = ()
    """One more of each class, where the rows have one."""

    def without(self, row: int) -> tuple[Example, ...]:
        """Return the examples for the prompt of this row of the train split, with the row itself replaced by another of
        its class, or dropped."""
        return tuple(
            other
            for example in self.shown
            for other in ((example,) if example.row != row else self._in_place_of(example))
        )

    def _in_place_of(self, example: Example) -> tuple[Example, ...]:
        return tuple(reserve for reserve in self.reserves if reserve.label == example.label)


def drawn_examples(spec: DataSpec, count: int, seed: int) -> Examples:
    """Sample examples from the training rows, the same number of each class, or one more; the seed determines which,
    and their order."""
    if count == 0:
        return Examples()
    generator = np.random.default_rng(seed)
    classes = generator.permutation(spec.num_classes)
    counts = {int(number): 0 for number in classes}
    for index in range(count):
        counts[int(classes[index % len(classes)])] += 1
    examples: list[Example] = []
    reserves: dict[int, Example] = {}
    reserved = {number for number, left in counts.items() if left}
    for example in _shuffled(spec, generator):
        if counts[example.label]:
            counts[example.label] -= 1
            examples.append(example)
        elif example.label in reserved:
            reserves.setdefault(example.label, example)
        if len(examples) == count and len(reserves) == len(reserved):
            break
    if len(examples) < count:
        short = ", ".join(f"{left} more of {class_name(spec, number)}" for number, left in counts.items() if left)
        raise UsageError(
            f"task.shots={count} asks for {short} than the {_num_rows(spec)} rows of the train split that are learned "
            "from have: show fewer examples."
        )
    return Examples(tuple(examples[index] for index in generator.permutation(count)), tuple(reserves.values()))


def _num_rows(spec: DataSpec) -> int:
    assert spec.open_train is not None, "data opens its train split"
    return len(spec.open_train())


def _shuffled(spec: DataSpec, generator: np.random.Generator) -> Iterator[Example]:
    assert spec.open_train is not None, "data opens its train split"
    split = spec.open_train()
    order = generator.permutation(len(split))
    for start in range(0, len(order), _ROWS_AT_ONCE):
        batch = split.batch(order[start : start + _ROWS_AT_ONCE])
        assert batch.targets is not None, "labelled texts have labels"
        yield from map(Example, batch.rows.tolist(), texts_of(batch, spec), batch.targets.tolist())
