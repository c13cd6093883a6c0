"""Labelled texts as prompts: a template with a word for each class (Brown et al. 2020,
https://arxiv.org/abs/2005.14165)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSpec
from headtohead.errors import UsageError
from headtohead.tasks.class_labels import class_names

OF_ONE_TEXT = "Text: {text}\nLabel: {label}"
OF_TWO_TEXTS = "First: {text}\nSecond: {second_text}\nLabel: {label}"
CONTENT_FREE = ("N/A", "", "[MASK]")
"""Texts that say nothing, of whose labels a model that knows nothing else should think alike (Zhao et al. 2021,
https://arxiv.org/abs/2102.09690)."""
_FIELD = re.compile(r"\{(text|second_text|label)\}")
_LABEL = "{label}"

Texts = tuple[str, ...]
"""Of a row: one, or two."""
Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Template:
    """Where the texts and the label's word stand; the word is the last thing in it."""

    text: str
    words: tuple[str, ...]
    """For each class."""

    @classmethod
    def of(cls, template: str | None, words: Sequence[str] | None, spec: DataSpec) -> Template:
        """As the user gives it, else a plain one with the names of the classes; raises ValueError."""
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
        """All before the label's word and its blank."""
        values = dict(zip(("text", "second_text"), texts, strict=False))
        return _FIELD.sub(lambda found: values[found[1]], self._before)

    def choice(self, number: int) -> str:
        """The word of a class, with the blank before it."""
        return self.text[len(self._before) : -len(_LABEL)] + self.words[number]

    def choice_tokens(self, encode: Encode) -> list[list[int]]:
        """As they stand after what is always before them: some tokenizers spell a word by what it follows."""
        after = _FIELD.split(self._before)[-1]
        alone = list(encode(after)) if after else []
        tokens = []
        for number in range(len(self.words)):
            both = list(encode(after + self.choice(number)))
            kept = bool(alone) and both[: len(alone)] == alone
            tokens.append(both[len(alone) :] if kept else list(encode(self.choice(number))))
        return tokens

    @property
    def _before(self) -> str:
        return self.text[: -len(_LABEL)].rstrip()


def _check_fields(text: str, num_texts: int) -> None:
    found = [match[1] for match in _FIELD.finditer(text)]
    wanted = {"text", "label"} | ({"second_text"} if num_texts == 2 else set())
    if set(found) != wanted or not text.endswith(_LABEL) or found.count("label") > 1:
        fields = " and ".join(f"{{{name}}}" for name in ("text", "second_text") if name in wanted)
        raise UsageError(
            f"task.template={text!r} must hold {fields}, and end with its only {{label}}, as {OF_ONE_TEXT!r} does."
        )


def texts_of(batch: Batch, spec: DataSpec) -> list[Texts]:
    """The texts of each row, as they were written."""
    assert batch.tokens is not None and spec.decode is not None, "labelled texts have tokens"
    found: list[Texts] = []
    for row in range(batch.num_samples):
        tokens = _real(batch.tokens[row], batch, row)
        if batch.token_types is None:
            found.append((spec.decode(tokens.tolist()),))
            continue
        second = _real(batch.token_types[row], batch, row) == 1
        found.append((spec.decode(tokens[~second].tolist()), spec.decode(tokens[second].tolist())))
    return found


def _real(values: Int[Tensor, " L"], batch: Batch, row: int) -> Int[Tensor, " K"]:
    return values if batch.valid is None else values[batch.valid[row]]
