"""Classify with a language model as it is: the class whose word is the most likely after a prompt (Brown et al. 2020,
https://arxiv.org/abs/2005.14165, section 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.generation.likelihoods import choice_likelihoods
from headtohead.ranges import Amount, Seed
from headtohead.tasks.chunked_cross_entropy import Workspace
from headtohead.tasks.class_metrics import class_loss, class_name
from headtohead.tasks.classification import Classification
from headtohead.tasks.prompt_templates import CONTENT_FREE, Example, Template, drawn_examples, texts_of
from headtohead.tasks.task import Decode, Loss, Task
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary_loss import loss_of_rows, scored_rows, vocabulary_head

Normalisation = Literal["none", "tokens", "bytes"]
_ROOM_FOR_OTHER_SPELLING = 8
"""Tokens that a text may take more inside a prompt than alone."""


class MultipleChoice(Classification):
    """Choose the most likely class word after a prompt.

    With trainer.max_steps=0 nothing is trained: zero-shot without examples, few-shot with them. Otherwise training
    learns the word of the true class, and metrics are those of any classifier: `loss` is that of the shares of the
    choices.
    """

    head: ClassVar[HeadName] = "language_model"
    families: ClassVar[tuple[str, ...]] = ("decoder_only", "external")
    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text",)
    measured_as: ClassVar[str | None] = "Classification"

    def __init__(
        self,
        shots: Amount = 0,
        example_seed: Seed = 0,
        template: str | None = None,
        label_words: list[str] | None = None,
        separator: str = "\n\n",
        normalisation: Normalisation = "none",
        calibrate: bool = False,
        monitor: str = "loss",
    ) -> None:
        super().__init__(0.0, monitor)
        if shots < 0:
            raise UsageError(f"task.shots={shots} must be 0 or more: the number of examples in the prompt.")
        if normalisation not in get_args(Normalisation):
            raise UsageError(
                f"task.normalisation={normalisation} is unknown: choose one of {', '.join(get_args(Normalisation))}."
            )
        self.shots, self.example_seed, self.separator = shots, example_seed, separator.replace("\\n", "\n")
        self.given_template, self.label_words = template, label_words
        self.normalisation, self.calibrate = normalisation, calibrate
        self.workspace = Workspace()

    def bind(self, spec: DataSpec) -> Task:
        super().bind(spec)
        if spec.encode is None:
            raise UsageError("task=multiple_choice writes prompts, and this data spells no text: choose data of texts.")
        self.template = Template.of(self.given_template, self.label_words, spec)
        self.choices = self.template.choice_tokens(spec.encode)
        self._check_choices()
        examples = drawn_examples(spec, self.shots, self.example_seed)
        self.shared = self._beginning(examples.shown)
        """The prefix of all prompts, except those of the examples themselves: the start token, and the examples."""
        self._own = {example.row: self._beginning(examples.without(example.row)) for example in examples.shown}
        self._content_free = (
            [self._context((text,) * spec.num_texts) for text in CONTENT_FREE] if self.calibrate else []
        )
        return self

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Return prompts that end in the true class's word, whose tokens are the targets; the classes are the
        labels."""
        return self._prompts(super().view(batch, seed=seed, epoch=epoch), [self.shared] * batch.num_samples)

    def training_view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Build training prompts in which no row is an example for itself, where its answer could be read."""
        beginnings = [self._own.get(row, self.shared) for row in batch.rows.tolist()]
        return self._prompts(super().view(batch, seed=seed, epoch=epoch), beginnings)

    def _prompts(self, batch: Batch, beginnings: Sequence[list[int]]) -> Batch:
        texts_of_rows = texts_of(batch, self.spec)
        contexts = [
            [*beginning, *self._context(texts)] for beginning, texts in zip(beginnings, texts_of_rows, strict=True)
        ]
        words = [self.choices[number] for number in targets_of(batch).tolist()]
        lengths = [len(context) + len(word) - 1 for context, word in zip(contexts, words, strict=True)]
        tokens = torch.zeros(len(contexts), max(lengths), dtype=torch.long)
        targets = torch.full_like(tokens, IGNORED)
        for row, (context, word) in enumerate(zip(contexts, words, strict=True)):
            tokens[row, : lengths[row]] = torch.tensor([*context, *word][:-1])
            targets[row, len(context) - 1 : lengths[row]] = torch.tensor(word)
        valid = torch.arange(tokens.shape[1]) < torch.tensor(lengths)[:, None]
        return replace(batch, tokens=tokens, valid=valid, targets=targets, labels=batch.targets, token_types=None)

    def num_scored(self, length: int) -> int:
        return min(length, max(map(len, self.choices)))

    def rows_read(self, spec: DataSpec) -> DataSpec:
        empty = self._context(("",) * self.spec.num_texts)
        beginning = max(map(len, self._beginnings()))
        longest = beginning + len(empty) + self.spec.max_length + max(map(len, self.choices)) - 1
        return replace(spec, max_length=longest + _ROOM_FOR_OTHER_SPELLING)

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        rows, targets = scored_rows(model.features(**batch.inputs()), targets_of(batch), wait=True)
        return loss_of_rows(vocabulary_head(model), rows, targets, label_smoothing=0.0, workspace=self.workspace)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        labels = _labels(batch)
        scores = self.choice_scores(model, batch).to(labels.device)
        loss = class_loss(scores, labels)
        self.sums.add(stage, loss=loss.total, samples=loss.count)
        self.keep_rows(stage, scores, labels, batch)
        self.count(stage, scores.argmax(1), labels)

    def choice_scores(self, model: Architecture, batch: Batch) -> Float[Tensor, "B C"]:
        """Return the log-likelihoods of the choices for a batch made by `view`, normalised by length and calibrated as
        configured."""
        beginnings, contexts = zip(*self._split_prompts(batch), strict=True)
        scores: Tensor | None = None
        for shared in self._beginnings():
            rows = [row for row, beginning in enumerate(beginnings) if beginning == shared]
            if rows:
                result = self._scores_after(model, shared, [contexts[row] for row in rows], len(contexts))
                scores = result.new_empty(len(contexts), result.shape[1]) if scores is None else scores
                scores[rows] = result
        assert scores is not None, "a batch has rows"
        return scores

    def _scores_after(
        self, model: Architecture, shared: list[int], contexts: Sequence[list[int]], batch_size: int
    ) -> Float[Tensor, "N C"]:
        likelihoods = choice_likelihoods(
            model, [*contexts, *self._content_free], self.choices, shared=shared, batch_size=batch_size
        )
        scores = likelihoods / torch.tensor(self._lengths(), dtype=likelihoods.dtype)
        if not self.calibrate:
            return scores
        usual = scores[len(contexts) :].softmax(-1).mean(0)
        return scores[: len(contexts)].log_softmax(-1) - usual.log()

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        with torch.no_grad():
            shares, predicted = self.choice_scores(model, batch).softmax(-1).max(-1)
        return [
            {
                "prompt": decode(context),
                "truth": class_name(self.spec, int(_labels(batch)[row])),
                "predicted": class_name(self.spec, int(predicted[row])),
                "confidence": f"{float(shares[row]):.3f}",
            }
            for row, (_, context) in enumerate(self._split_prompts(batch))
        ]

    def _context(self, texts: tuple[str, ...]) -> list[int]:
        assert self.spec.encode is not None, "bind checks it"
        return list(self.spec.encode(self.template.context(texts)))

    def _beginning(self, examples: Sequence[Example]) -> list[int]:
        assert self.spec.encode is not None, "bind checks it"
        shown = "".join(
            self.template.context(example.texts) + self.template.choice(example.label) + self.separator
            for example in examples
        )
        return [self.spec.bos_id, *(self.spec.encode(shown) if shown else ())]

    def _beginnings(self) -> list[list[int]]:
        """Return all prefixes that a prompt can have, the longest first."""
        beginnings = [self.shared, *(own for own in self._own.values() if own != self.shared)]
        return sorted(beginnings, key=len, reverse=True)

    def _split_prompts(self, batch: Batch) -> list[tuple[list[int], list[int]]]:
        """Return each prompt's prefix and its continuation without the class's word."""
        assert batch.tokens is not None, "view makes them"
        ends = ((targets_of(batch) != IGNORED).int().argmax(1) + 1).tolist()
        result = []
        for row, end in enumerate(ends):
            prompt = batch.tokens[row, :end].tolist()
            beginning = next(one for one in self._beginnings() if prompt[: len(one)] == one)
            result.append((beginning, prompt[len(beginning) :]))
        return result

    def _lengths(self) -> Sequence[int]:
        if self.normalisation == "tokens":
            return [len(choice) for choice in self.choices]
        if self.normalisation == "bytes":
            return [len(self.template.choice(number).encode()) for number in range(len(self.choices))]
        return [1] * len(self.choices)

    def _check_choices(self) -> None:
        if not all(self.choices) or len(set(map(tuple, self.choices))) < len(self.choices):
            raise UsageError(
                f"task.label_words={list(self.template.words)} are not different tokens of this tokenizer: give other "
                "words."
            )


def _labels(batch: Batch) -> Tensor:
    assert batch.labels is not None, "view moves them here"
    return batch.labels
