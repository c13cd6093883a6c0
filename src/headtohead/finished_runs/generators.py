"""The ways in which finished runs write: one token after another, or hidden tokens in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch

from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.architectures.external_module import External
from headtohead.architectures.vocabulary_heads import LanguageModel
from headtohead.config.errors import ConfigurationError
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.text_generator import Ending, GeneratedText, HasEnded, Show, TextGenerator, without_end
from headtohead.generation.beam_search import search
from headtohead.generation.decoding_loop import denoise, stream
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.tasks.masked_diffusion import MaskedDiffusion
from headtohead.training.loop.precision import Precision, Unmixed, precision_in_use


def generator_of(run: FinishedRun, precision: Unmixed | None = None) -> TextGenerator:
    """Return what writes with the run's weights, which are cast to `precision` once; null is double where the run was
    trained so."""
    if isinstance(run.task, MaskedDiffusion):
        return DenoisingGenerator(run, run.task.sampling_steps, precision)
    return AutoregressiveGenerator(run, precision)


def _model_of(run: FinishedRun, precision: Unmixed | None) -> Architecture:
    if precision not in (None, *get_args(Unmixed)):
        raise ConfigurationError(f"precision={precision} is unknown: choose one of {', '.join(get_args(Unmixed))}")
    model = run.model_with(lambda config: config)
    return model.to(run.device, Precision(precision or precision_in_use(run.config)).of_weights)


class AutoregressiveGenerator(TextGenerator):
    """Writes one token after another."""

    def __init__(self, run: FinishedRun, precision: Unmixed | None = None) -> None:
        super().__init__(run)
        self.model = _writing(_model_of(run, precision), run)

    @property
    def reads_source(self) -> bool:
        return self.model.reads_source

    def feed(self, prompts: Sequence[Sequence[int]], strategy: DecodingStrategy, has_ended: HasEnded) -> None:
        for _ in stream(self.model, prompts, strategy, bos_id=self.spec.bos_id, has_ended=has_ended):
            pass

    def searched(
        self,
        prompts: Sequence[Sequence[int]],
        texts: Sequence[str],
        strategy: DecodingStrategy,
        stop_tokens: Sequence[int],
        show: Show | None,
    ) -> list[GeneratedText]:
        written: list[GeneratedText] = []
        ends = {self.spec.eos_id, *stop_tokens}
        for prompt, beams in zip(
            texts, search(self.model, prompts, strategy, bos_id=self.spec.bos_id, ends=ends), strict=True
        ):
            for one in beams:
                ending: Ending = "length" if not one.ended else "end" if one.tokens[-1] == self.spec.eos_id else "stop"
                text = self.text_of(without_end(one.tokens, ending))
                if show is not None:
                    show(len(written), text)
                written.append(GeneratedText(prompt, text, one.tokens, ending, one.score))
        return written

    def room(self, prompts: Sequence[Sequence[int]], strategy: DecodingStrategy, max_new_tokens: int | None) -> int:
        """The last token is written, but never read: a row may be one token longer than what has positions."""
        limit = self.model.longest_written
        if limit is None:
            return strategy.max_new_tokens if max_new_tokens is None else max_new_tokens
        longest = 1 if self.model.reads_source else max(map(len, prompts))
        room = limit - longest + 1
        if room < 1 or (max_new_tokens is not None and max_new_tokens > room):
            field = "max_target_length" if self.model.reads_source else "max_length"
            raise ConfigurationError(
                f"{longest} tokens of prompt and {max_new_tokens or 1} new ones are more than model.{field}={limit} "
                f"positions: "
                + (f"write at most {room} new ones" if room > 0 else f"give at most {limit} tokens of prompt")
            )
        return min(room, strategy.max_new_tokens) if max_new_tokens is None else max_new_tokens


class DenoisingGenerator(TextGenerator):
    """Writes all tokens behind a prompt at once, the surest first; a text ends at its first end token."""

    reads_source = False

    def __init__(self, run: FinishedRun, steps: int, precision: Unmixed | None = None) -> None:
        super().__init__(run)
        self._model, self._steps = _model_of(run, precision).eval(), steps

    def room(self, prompts: Sequence[Sequence[int]], strategy: DecodingStrategy, max_new_tokens: int | None) -> int:
        """Rows are as long as those that the run was trained on, since it knows no others."""
        longest, limit = max(map(len, prompts)), self.spec.max_length
        room = limit - longest
        if room < 1 or (max_new_tokens is not None and max_new_tokens > room):
            raise ConfigurationError(
                f"{longest} tokens of prompt and {max_new_tokens or 1} new ones are more than the {limit} of a row of "
                "this run: "
                + (f"write at most {room} new ones" if room > 0 else f"give at most {limit - 1} tokens of prompt")
            )
        return min(room, strategy.max_new_tokens) if max_new_tokens is None else max_new_tokens

    def feed(self, prompts: Sequence[Sequence[int]], strategy: DecodingStrategy, has_ended: HasEnded) -> None:
        for name, default in (("top_k", None), ("top_p", None), ("repetition_penalty", 1.0)):
            if (value := getattr(strategy, name)) != default:
                raise ConfigurationError(
                    f"{name}={value} is for texts that grow token by token, and this run writes in any order: leave "
                    "it out, or give a temperature"
                )
        for number, prompt in enumerate(prompts):
            for sample in range(strategy.num_samples):
                row = number * strategy.num_samples + sample
                for token in self._written(prompt, strategy, strategy.seed + sample):
                    if has_ended(row, token):
                        break

    def searched(
        self,
        prompts: Sequence[Sequence[int]],
        texts: Sequence[str],
        strategy: DecodingStrategy,
        stop_tokens: Sequence[int],
        show: Show | None,
    ) -> list[GeneratedText]:
        """Raises ConfigurationError: a search is among texts that grow."""
        del prompts, texts, stop_tokens, show
        raise ConfigurationError(
            f"beams={strategy.beams} search among texts that grow token by token, and this run writes in any order: "
            "leave beams out"
        )

    def _written(self, prompt: Sequence[int], strategy: DecodingStrategy, seed: int) -> list[int]:
        device = next(self._model.parameters()).device
        tokens = torch.tensor([[*prompt, *[self.spec.mask_id] * strategy.max_new_tokens]], device=device)
        written = denoise(
            self._model,
            tokens,
            torch.arange(tokens.shape[1], device=device)[None] >= len(prompt),
            mask_id=self.spec.mask_id,
            steps=min(self._steps, strategy.max_new_tokens),
            temperature=strategy.temperature or 0.0,
            generator=torch.Generator(device).manual_seed(seed),
        )
        return written[0, len(prompt) :].tolist()


def _writing(model: Architecture, run: FinishedRun) -> DecodingModel:
    """Return the model, or the reason why it writes nothing and what does."""
    name = (run.config.get("choices") or {}).get("model") or model.family
    way = "generate from a run of task=causal_lm (model=decoder_only) or task=seq2seq (model=encoder_decoder)"
    if not isinstance(model, DecodingModel):
        raise ConfigurationError(
            f"model={name} of this run reads a whole row at once and cannot write token by token: {way}; h2h "
            "evaluate and h2h probe work with this one"
        )
    task_head = model.task_head if isinstance(model, External) else None
    if not isinstance(model.head, LanguageModel) and task_head != "language_model":
        task = (run.config.get("choices") or {}).get("task") or type(model.head).__name__
        raise ConfigurationError(
            f"task={task} of this run predicts labels and cannot write text: {way}; h2h evaluate and h2h probe work "
            "with this one"
        )
    return model
