"""Write what was left out of a text: spans are replaced by sentinels, and the target is each sentinel with its span
(Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 3.1.4); with UL2's mixture of denoisers (Tay et al. 2023,
https://arxiv.org/abs/2205.05131)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import uniform
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import LOSS, PERPLEXITY, TOKEN_ACCURACY
from headtohead.metrics.metric import Metric
from headtohead.ranges import AtLeastOne, Count, Probability, ShareLeavingSome
from headtohead.tasks.corrupted_spans import Denoiser, draw_spans, source_of, target_of
from headtohead.tasks.metric_sums import MetricSums, PerStage
from headtohead.tasks.seq2seq_one_stack import in_one_row
from headtohead.tasks.task import Decode, Task
from headtohead.tasks.token_prediction import TokenPrediction, targets_of
from headtohead.tasks.vocabulary_loss import mean, perplexity

# Independent uses of the same row's random numbers.
_DENOISER, _RETAINED, _HIDDEN = 111, 112, 113
Mixture = Literal["none", "ul2"]
_MODES = ("regular", "extreme", "sequential")
UL2 = (
    ("regular", Denoiser(0.15, 3)),
    ("regular", Denoiser(0.15, 8)),
    ("extreme", Denoiser(0.5, 3)),
    ("extreme", Denoiser(0.5, 8)),
    ("extreme", Denoiser(0.15, 64)),
    ("extreme", Denoiser(0.5, 64)),
    ("sequential", Denoiser(0.25, None)),
)
"""UL2's denoisers, each as frequent; the first token of a source says which kind it is (its table 1)."""
_PUBLISHED = "<extra_id_{}>"
"""The names of the sentinels in T5's tokenizer."""


class SpanCorruption(TokenPrediction):
    """(seed, epoch, row) alone determines the spans. Sentinels have ids of their own behind the vocabulary, or those
    that a published tokenizer has for them; loss and accuracy are with teacher forcing, over spans and sentinels."""

    head: ClassVar[HeadName] = "language_model"
    families: ClassVar[tuple[str, ...]] = ("encoder_decoder", "recurrent_encoder_decoder")
    data_kinds: ClassVar[tuple[str, ...]] = ("language",)
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, PERPLEXITY, TOKEN_ACCURACY)
    measured_as: ClassVar[str | None] = "SpanCorruption"
    keeps_documents_apart: ClassVar[bool] = False
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "tokens"),
        "token_accuracy": ("correct", "tokens"),
    }

    def __init__(
        self,
        noise_density: ShareLeavingSome = 0.15,
        mean_span_length: AtLeastOne = 3.0,
        mixture: Mixture = "none",
        num_sentinels: Count = 100,
        label_smoothing: Probability = 0.0,
        monitor: str = "loss",
    ) -> None:
        super().__init__(label_smoothing, monitor)
        if not 0 < noise_density < 1:
            raise UsageError(f"task.noise_density={noise_density} must be above 0 and below 1.")
        if mean_span_length < 1:
            raise UsageError(f"task.mean_span_length={mean_span_length} must be at least 1.")
        if mixture not in get_args(Mixture):
            raise UsageError(f"task.mixture={mixture} is unknown: choose one of {', '.join(get_args(Mixture))}.")
        self.mixture, self.num_sentinels = mixture, num_sentinels
        self.denoisers = UL2 if mixture == "ul2" else (("", Denoiser(noise_density, mean_span_length)),)
        self.sentinels: tuple[int, ...] = ()
        """The ids that stand for the first span of a row, the second, and so on."""
        self.modes: Mapping[str, int] = {}
        """The id of each kind of denoiser, where there are several."""
        self.sums = PerStage(lambda: MetricSums("loss", "correct", "tokens"))

    def bind(self, spec: DataSpec) -> Task:
        published = _published_sentinels(spec)
        own = () if published else tuple(range(spec.vocab_size, spec.vocab_size + self.num_sentinels))
        self.sentinels = published or own
        first = spec.vocab_size + len(own)
        self.modes = {name: first + index for index, name in enumerate(_MODES)} if self.mixture == "ul2" else {}
        beyond = (*own, *self.modes.values())
        self._check_spans(spec.max_length)
        size, special = spec.vocab_size + len(beyond), (*spec.special_ids, *beyond)
        return super().bind(replace(spec, vocab_size=size, special_ids=special, num_scored=None))

    def _check_spans(self, length: int) -> None:
        most = max(int(denoiser.sizes(torch.tensor([length]))[1]) for _, denoiser in self.denoisers)
        if most > len(self.sentinels):
            longer = "" if self.modes else ", longer spans (task.mean_span_length)"
            raise UsageError(
                f"task.num_sentinels={len(self.sentinels)} sentinels stand for as many spans, and a row of {length} "
                f"tokens has up to {most}: give more{longer}, or shorter rows (data.context_length)."
            )

    def measured_how(self) -> str:
        shares = ((denoiser.density, denoiser.mean_length) for _, denoiser in self.denoisers)
        return f"{super().measured_how()}, {', '.join(f'{density} by {length}' for density, length in shares)}"

    def rows_read(self, spec: DataSpec) -> DataSpec:
        length = torch.tensor([spec.max_length])
        sizes = [tuple(int(size) for size in denoiser.sizes(length)) for _, denoiser in self.denoisers]
        ends = 1 + bool(self.modes)
        source = max(spec.max_length - hidden + spans for hidden, spans in sizes) + ends
        target = max(hidden + spans for hidden, spans in sizes) + 1
        return replace(spec, vocab_size=self.spec.vocab_size, max_length=source, max_target_length=target)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        tokens = self._checked(batch)
        rows, width = batch.rows.numpy(), tokens.shape[1]
        lengths = torch.full((len(tokens),), width) if batch.valid is None else batch.valid.sum(1)
        self._check_spans(int(lengths.max()))
        chosen = uniform(rows, 1, seed=seed, epoch=epoch, stream=_DENOISER)[:, 0]
        kinds = torch.from_numpy(chosen * len(self.denoisers)).long()
        of_kinds = [torch.stack(denoiser.sizes(lengths)) for _, denoiser in self.denoisers]
        hidden, num_spans = torch.stack(of_kinds)[kinds, :, torch.arange(len(tokens))].unbind(1)
        retained_draws, hidden_draws = (
            torch.from_numpy(uniform(rows, width, seed=seed, epoch=epoch, stream=stream))
            for stream in (_RETAINED, _HIDDEN)
        )
        spans = draw_spans(lengths, hidden, num_spans, (retained_draws, hidden_draws))
        source, valid = source_of(tokens, spans, self.sentinels, self.spec.eos_id)
        if self.modes:
            of_kind = torch.tensor([self.modes[name] for name, _ in self.denoisers], dtype=source.dtype)
            source = torch.cat([of_kind[kinds][:, None], source], dim=1)
            valid = torch.cat([valid[:, :1], valid], dim=1)
        truth = tokens if batch.original_tokens is None else batch.original_tokens
        written, written_valid = target_of(truth, spans, self.sentinels, self.spec.eos_id)
        start = torch.full_like(written[:, :1], self.spec.bos_id)
        return replace(
            batch,
            tokens=source,
            valid=valid,
            decoder_tokens=torch.cat([start, written[:, :-1]], dim=1),
            decoder_valid=written_valid,
            targets=written.masked_fill(~written_valid, IGNORED),
            original_tokens=None,
            segments=None,
            positions=None,
            num_bytes=None,
        )

    def _checked(self, batch: Batch) -> Int[Tensor, "B L"]:
        if batch.tokens is None:
            raise UsageError("task=span_corruption reads tokens, and this data has none: choose data of kind language.")
        if batch.segments is not None:
            raise UsageError(
                "task=span_corruption makes a source and a target of each row, in which documents that share it are "
                "not kept apart: set data.packing=stream, as T5 did, or none."
            )
        return batch.tokens

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        scores = self.token_scores(model, model.features(**batch.inputs()), batch)
        self.count_targets(stage, batch)
        self.sums.add(stage, loss=scores.loss, correct=scores.correct, tokens=scores.count)
        self.keep_rows(stage, scores, batch)

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        sums = self.sums.read(stage)
        self.read_targets(stage)
        loss = mean(sums["loss"], sums["tokens"], "token")
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "token_accuracy": sums["correct"] / sums["tokens"],
        }

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens and sentinels."""
        del spec
        return self.chance()

    def chance(self) -> dict[str, float]:
        """Return the metrics of a uniform prediction over tokens and sentinels."""
        size = self.spec.vocab_size
        return {LOSS.name: math.log(size), PERPLEXITY.name: float(size), TOKEN_ACCURACY.name: 1 / size}

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the loss of the train split's token frequencies, and the accuracy of always naming its most frequent
        one."""
        return self.guessed(stage, TOKEN_ACCURACY)

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return each text with numbers in place of its spans, the spans, and each of their tokens as the model
        predicts it from those before."""
        assert batch.tokens is not None, "view checks the tokens"
        sources, targets, predicted = self.sources(batch), targets_of(batch), self.predicted(model, batch)
        samples = []
        for row in range(batch.num_samples):
            counted = targets[row] != IGNORED
            texts = {
                "read": sources[row],
                "truth": targets[row][counted].tolist(),
                "predicted": predicted[row][counted].tolist(),
            }
            samples.append({name: self.text_of(ids, decode) for name, ids in texts.items()})
        return samples

    def sources(self, batch: Batch) -> list[list[int]]:
        """Return the tokens of each row's source."""
        assert batch.tokens is not None and batch.valid is not None, "view gives both"
        return [tokens[valid].tolist() for tokens, valid in zip(batch.tokens, batch.valid, strict=True)]

    def prompt(self, text: str) -> list[int]:
        """Return the source whose spans are written <1>, <2> ..., behind <extreme> or another kind of denoiser where
        the task has several."""
        if self.spec.encode is None:
            raise UsageError("this run's data spells no text: give the prompt as token ids, --tokens 5,7,9")
        named = re.match(r"<([a-z]+)>", text)
        kind = _MODES[0] if named is None or named[1] not in self.modes else named[1]
        parts = re.split(r"<(\d+)>", text.removeprefix(f"<{kind}>") if self.modes else text)
        numbers = [int(number) for number in parts[1::2]]
        if not numbers or numbers != list(range(1, len(numbers) + 1)) or len(numbers) > len(self.sentinels):
            raise UsageError(
                f"the prompt {text!r} does not say what to fill in: write <1> for the first span that is left out, <2> "
                f"for the second, up to {len(self.sentinels)}, as in 'the <1> sat on the <2>'."
            )
        tokens = [self.modes[kind]] if self.modes else []
        for index, part in enumerate(parts):
            tokens += [self.sentinels[int(part) - 1]] if index % 2 else self.spec.encode(part)
        return [*tokens, self.spec.eos_id]

    def text_of(self, tokens: Sequence[int], decode: Decode) -> str:
        """Return the text with <1>, <2> ... for sentinels, and the name of a kind of denoiser for its token."""
        names = {token: f"<{number}>" for number, token in enumerate(self.sentinels, start=1)}
        names |= {token: f"<{name}>" for name, token in self.modes.items()}
        parts: list[str] = []
        stretch: list[int] = []
        for token in tokens:
            if token in names:
                parts += [decode(stretch), names[token]]
                stretch = []
            else:
                stretch.append(token)
        return "".join([*parts, decode(stretch)])


class SpanCorruptionInOneRow(SpanCorruption):
    """Source, start token, target in one row: only the target is learned, and measured as with two stacks."""

    families: ClassVar[tuple[str, ...]] = ("decoder_only",)
    few_are_scored = True

    def rows_read(self, spec: DataSpec) -> DataSpec:
        spec = super().rows_read(spec)
        return replace(spec, max_length=spec.max_length + spec.max_target_length, max_target_length=0)

    def prompt(self, text: str) -> list[int]:
        return [*super().prompt(text), self.spec.bos_id]

    def num_scored(self, length: int) -> int:
        return min(length, super().rows_read(self.spec).max_target_length)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        return in_one_row(super().view(batch, seed=seed, epoch=epoch))

    def sources(self, batch: Batch) -> list[list[int]]:
        """Return the tokens before the start token of each target."""
        assert batch.tokens is not None, "view gives them"
        starts = (targets_of(batch) != IGNORED).int().argmax(1).tolist()
        return [tokens[:start].tolist() for tokens, start in zip(batch.tokens, starts, strict=True)]


def _published_sentinels(spec: DataSpec) -> tuple[int, ...]:
    """Return the sentinels of a published tokenizer, in the order of their use; none where it has none."""
    ids: list[int] = []
    while spec.special_ids and spec.encode is not None:
        result = [token for token in spec.encode(_PUBLISHED.format(len(ids))) if token in spec.special_ids]
        if len(result) != 1 or result[0] in ids:
            break
        ids += result
    return tuple(ids)
