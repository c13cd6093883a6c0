"""A finished run as a model of lm-evaluation-harness (https://github.com/EleutherAI/lm-evaluation-harness), which asks
for likelihoods of texts and for texts. Registered there as `headtohead`, with run=FOLDER."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.data.row_formats.text_source import tokenizer_of
from headtohead.finished_runs.finished_run import FinishedRun, open_run
from headtohead.finished_runs.generators import AutoregressiveGenerator
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.generation.likelihoods import Likelihood, likelihoods
from headtohead.training.callbacks.progress import ProgressLine

_WINDOW = 1024
"""Tokens of a long text that a model without a table of positions, trained on rows of any length, reads at once."""


@register_model("headtohead")
class LmEvalModel(LM):  # type: ignore[misc]
    """A text begins with the start token that rows of the run's data begin with."""

    def __init__(
        self,
        run: str | Path | FinishedRun,
        batch_size: int | str = 32,
        max_length: int | None = None,
        max_gen_toks: int = 128,
        device: str | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        """`max_length` are the tokens that are read at once; `device` is the run's own, and both are taken since the
        harness gives them to every model."""
        del device, max_batch_size
        super().__init__()
        self.run = run if isinstance(run, FinishedRun) else open_run(run)
        self.writer = AutoregressiveGenerator(self.run)
        source = self.writer.data
        if self.writer.model.reads_source:
            raise ConfigurationError(
                "lm-evaluation-harness needs a language model, and this run writes a target for a source: give a run "
                "of model=decoder_only or recurrent"
            )
        if (tokenizer := tokenizer_of(source)) is None:
            raise ConfigurationError("lm-evaluation-harness needs texts, and this run's data contains none")
        self.tokenizer, self.bos_id = tokenizer, self.writer.spec.bos_id
        self.batch_size = int(batch_size) if str(batch_size).isdecimal() else 32
        self.max_gen_toks = int(max_gen_toks)
        self.max_length = int(max_length) if max_length else self._usual_length()

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return the log-likelihood of each continuation after its context."""
        rows = [self._parts(*request.args) for request in requests]
        pairs = [
            (one.log_likelihood, one.is_greedy)
            for one in self._likelihoods([self._cut(*row) for row in rows], disable_tqdm)
        ]
        for request, answer in zip(requests, pairs, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return pairs

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Return the log-likelihood of whole texts, each token with as much context as there is room for."""
        rows: list[tuple[list[int], list[int]]] = []
        owners: list[int] = []
        for number, request in enumerate(requests):
            tokens = self.tokenizer.encode_one(request.args[0])
            for window in get_rolling_token_windows(tokens, self.bos_id, self.max_length, 1):
                rows.append(make_disjoint_window(window))
                owners.append(number)
        totals = [0.0] * len(requests)
        for owner, one in zip(owners, self._likelihoods(rows, disable_tqdm), strict=True):
            totals[owner] += one.log_likelihood
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text that follows each context, up to the first of its strings to stop at."""
        texts = []
        display = ProgressLine("writing", start=0, total=len(requests), enabled=not disable_tqdm, unit="texts")
        try:
            for number, request in enumerate(requests, start=1):
                context, options = request.args
                texts.append(self._written(context, dict(options)))
                self.cache_hook.add_partial("generate_until", request.args, texts[-1])
                display.step(number)
        finally:
            display.close(len(texts))
        return texts

    @property
    def tokenizer_name(self) -> str:
        return self.tokenizer.digest

    def _written(self, context: str, options: dict[str, Any]) -> str:
        until = options.get("until") or []
        stop = [text for text in ([until] if isinstance(until, str) else until) if text]
        length = int(options.get("max_gen_toks") or self.max_gen_toks)
        temperature = float(options.get("temperature") or 0.0)
        how = (
            DecodingStrategy(temperature=temperature)
            if options.get("do_sample") and temperature
            else DecodingStrategy()
        )
        prompt = [self.bos_id, *self.tokenizer.encode_one(context)]
        limit = self.writer.model.longest_written
        if limit is not None:
            length = min(length, limit)
            prompt = prompt[-max(1, limit + 1 - length) :]
        [written] = self.writer.write([prompt], how, max_new_tokens=length, stop=stop)
        return written.text

    def _parts(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Blanks between the two belong to the second, as words are spelt with the blank before them."""
        blanks = len(context) - len(context.rstrip())
        if blanks:
            context, continuation = context[:-blanks], context[-blanks:] + continuation
        before = self.tokenizer.encode_one(context) if context else []
        both = self.tokenizer.encode_one(context + continuation)
        after = both[len(before) :] or self.tokenizer.encode_one(continuation)
        return [self.bos_id, *before], after

    def _cut(self, before: list[int], after: list[int]) -> tuple[list[int], list[int]]:
        """Cut the beginning of what is too long."""
        after = after[-self.max_length :]
        return before[-max(1, self.max_length + 1 - len(after)) :], after

    def _likelihoods(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]], disable_tqdm: bool) -> list[Likelihood]:
        display = ProgressLine("scoring", start=0, total=len(rows), enabled=not disable_tqdm, unit="rows")
        done = 0

        def report_progress(count: int) -> None:
            nonlocal done
            done = count
            display.step(count)

        try:
            return likelihoods(self.writer.model, rows, batch_size=self.batch_size, report=report_progress)
        finally:
            display.close(done)

    def _usual_length(self) -> int:
        """Return the number of positions of the model, else the length it was trained on."""
        limit = self.writer.model.longest_written
        trained = RunConfig(self.run.config).context_length
        return int(limit or trained or _WINDOW)
