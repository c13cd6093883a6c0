"""A finished run as a writer: its model, made ready once, and the tokens of its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoding import Decodes
from headtohead.architectures.external import External
from headtohead.architectures.vocabulary_heads import LanguageModel
from headtohead.building.errors import ConfigurationError
from headtohead.examining.generation.prompts import Prompt, encoded
from headtohead.examining.generation.texts import Ending, GrowingText, Written
from headtohead.generation.beams import search
from headtohead.generation.loop import stream
from headtohead.generation.strategy import Strategy
from headtohead.training.precision import Precision, Unmixed, precision_in_use

if TYPE_CHECKING:
    from headtohead.examining.finished import FinishedRun

Show = Callable[[int, str], None]
"""Told the number of a text and what was added to it."""


class Writer:
    """`precision` is that of the weights, which are cast once; null is double where the run was trained so."""

    def __init__(self, run: FinishedRun, precision: Unmixed | None = None) -> None:
        if precision not in (None, *get_args(Unmixed)):
            raise ConfigurationError(f"precision={precision} is unknown: choose one of {', '.join(get_args(Unmixed))}")
        model = run.model_with(lambda config: config)
        self.model = _writing(model, run)
        self.model.to(run.device, Precision(precision or precision_in_use(run.config)).of_weights)
        self.data, self.spec = run.data, run.data.spec()

    def write(
        self,
        prompts: Sequence[Prompt],
        how: Strategy,
        *,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
        stop_tokens: Sequence[int] = (),
        show: Show | None = None,
    ) -> list[Written]:
        """The samples of the first prompt, then those of the second, and so on; `show` sees every text grow.

        `max_new_tokens` is as many as fit, if fewer, where it is not given.
        """
        read = [encoded(prompt, self.data, self.spec, is_source=self.model.reads_source) for prompt in prompts]
        _check_not_empty(prompts, read)
        _check_stops(stop, stop_tokens, self.spec.vocab_size)
        how = replace(how, max_new_tokens=self._room(read, how, max_new_tokens))
        shown = [prompt if isinstance(prompt, str) else self.data.decode(list(prompt)) for prompt in prompts]
        if how.beams > 1:
            if stop:
                raise ConfigurationError("strings to stop at are looked for in one text as it grows: leave beams out")
            return self._searched(read, shown, how, stop_tokens, show)
        return self._streamed(read, shown, how, tuple(stop), stop_tokens, show)

    def _streamed(
        self,
        prompts: Sequence[Sequence[int]],
        shown: Sequence[str],
        how: Strategy,
        stop: Sequence[str],
        stop_tokens: Sequence[int],
        show: Show | None,
    ) -> list[Written]:
        texts = [GrowingText(self.data.decode, stop) for _ in shown for _ in range(how.num_samples)]

        def has_ended(row: int, token: int) -> bool:
            text = texts[row]
            if token == self.spec.eos_id or token in stop_tokens:
                text.tokens.append(token)
                text.ending = "end" if token == self.spec.eos_id else "stop"
                return True
            if show is None and not stop:
                text.tokens.append(token)
                return False
            added = text.add(token)
            if show is not None and added:
                show(row, added)
            return text.ending == "stop"

        for _ in stream(self.model, prompts, how, bos_id=self.spec.bos_id, has_ended=has_ended):
            pass
        written = []
        for row, text in enumerate(texts):
            if show is None and not stop:
                text.text = self.data.decode(_without_end(text.tokens, text.ending))
            elif show is not None and (held := text.rest()):
                show(row, held)
            written.append(Written(shown[row // how.num_samples], text.text, tuple(text.tokens), text.ending))
        return written

    def _searched(
        self,
        prompts: Sequence[Sequence[int]],
        shown: Sequence[str],
        how: Strategy,
        stop_tokens: Sequence[int],
        show: Show | None,
    ) -> list[Written]:
        written: list[Written] = []
        ends = {self.spec.eos_id, *stop_tokens}
        for prompt, found in zip(
            shown, search(self.model, prompts, how, bos_id=self.spec.bos_id, ends=ends), strict=True
        ):
            for one in found:
                ending: Ending = "length" if not one.ended else "end" if one.tokens[-1] == self.spec.eos_id else "stop"
                text = self.data.decode(_without_end(one.tokens, ending))
                if show is not None:
                    show(len(written), text)
                written.append(Written(prompt, text, one.tokens, ending, one.score))
        return written

    def _room(self, prompts: Sequence[Sequence[int]], how: Strategy, wanted: int | None) -> int:
        """The last token is written, but never read: a row may be one token longer than what has positions."""
        limit = self.model.longest_written
        if limit is None:
            return how.max_new_tokens if wanted is None else wanted
        longest = 1 if self.model.reads_source else max(map(len, prompts))
        room = limit - longest + 1
        if room < 1 or (wanted is not None and wanted > room):
            field = "max_target_length" if self.model.reads_source else "max_length"
            raise ConfigurationError(
                f"{longest} tokens of prompt and {wanted or 1} new ones are more than model.{field}={limit} positions: "
                + (f"write at most {room} new ones" if room > 0 else f"give at most {limit} tokens of prompt")
            )
        return min(room, how.max_new_tokens) if wanted is None else wanted


def _writing(model: Architecture, run: FinishedRun) -> Decodes:
    """The model, or the reason why it writes nothing and what does."""
    name = (run.config.get("choices") or {}).get("model") or model.family
    way = "generate from a run of task=causal_lm (model=decoder_only) or task=seq2seq (model=encoder_decoder)"
    if not isinstance(model, Decodes):
        raise ConfigurationError(
            f"model={name} of this run reads a whole row at once and writes none token by token: {way}; what this one "
            "can do are h2h evaluate and h2h probe"
        )
    task_head = model.task_head if isinstance(model, External) else None
    if not isinstance(model.head, LanguageModel) and task_head != "language_model":
        task = (run.config.get("choices") or {}).get("task") or type(model.head).__name__
        raise ConfigurationError(
            f"task={task} of this run gives labels for what is read, and no next token: {way}; what this one can do "
            "are h2h evaluate and h2h probe"
        )
    return model


def _check_not_empty(prompts: Sequence[Prompt], read: Sequence[Sequence[int]]) -> None:
    if not prompts:
        raise ConfigurationError("there is no prompt: give at least one")
    for prompt, tokens in zip(prompts, read, strict=True):
        if not tokens:
            raise ConfigurationError(
                f"the prompt {prompt!r} is empty, and this run has no start to write from: give text"
            )


def _check_stops(stop: Sequence[str], stop_tokens: Sequence[int], vocab_size: int) -> None:
    if "" in stop:
        raise ConfigurationError("a string to stop at is empty, and would end every text at once: give text")
    for token in stop_tokens:
        if not 0 <= token < vocab_size:
            raise ConfigurationError(
                f"token {token} to stop at is none of the run's: its ids are 0 to {vocab_size - 1}"
            )


def _without_end(tokens: Sequence[int], ending: str) -> Sequence[int]:
    return tokens if ending == "length" else tokens[:-1]
