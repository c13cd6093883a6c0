"""Beam search: the most likely text, sought among the most likely prefixes (Lowerre 1976,
https://stacks.stanford.edu/file/druid:rq916rn6924/rq916rn6924.pdf), by log-probability per length^penalty (Wu et al.
2016, https://arxiv.org/abs/1609.08144)."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import DecodingModel, select_rows
from headtohead.generation.decoding_loop import as_batch, read_prompt, seen_tokens, with_repetition_penalty
from headtohead.generation.decoding_strategy import DecodingStrategy

_NEVER = float("-inf")


@dataclass(frozen=True, order=True)
class BeamSearchResult:
    """A text with its score."""

    score: float
    """Its log-probability, divided by its length to the power of the penalty."""
    tokens: tuple[int, ...] = field(compare=False)
    ended: bool = field(compare=False)
    """Whether it ended by itself."""


class _FinishedBeams:
    """The best ended texts of one prompt."""

    def __init__(self, strategy: DecodingStrategy) -> None:
        self.strategy, self.best = strategy, list[BeamSearchResult]()

    def add(self, log_probability: float, tokens: Sequence[int], *, ended: bool) -> None:
        score = log_probability / len(tokens) ** self.strategy.length_penalty
        heapq.heappush(self.best, BeamSearchResult(score, tuple(tokens), ended))
        if len(self.best) > self.strategy.beams:
            heapq.heappop(self.best)

    def beyond_reach(self, log_probability: float, num_tokens: int) -> bool:
        """Return whether no text that continues one of this log-probability can be better: more tokens only lower it,
        and a positive length penalty is most lenient to the longest text."""
        longest = self.strategy.max_new_tokens if self.strategy.length_penalty > 0 else num_tokens
        return (
            len(self.best) == self.strategy.beams
            and self.best[0].score >= log_probability / longest**self.strategy.length_penalty
        )


class _Beams:
    """The state of the search: for every prompt `beams` rows of the batch, the most likely first."""

    def __init__(
        self,
        read: Sequence[Sequence[int]],
        strategy: DecodingStrategy,
        ends: Collection[int],
        vocab_size: int,
        device: torch.device,
    ) -> None:
        self.strategy, self.num = strategy, strategy.beams
        self.finds = [_FinishedBeams(strategy) for _ in read]
        self.rows = torch.arange(len(read) * self.num, device=device)
        self.first = self.rows.view(len(read), self.num)[:, :1]
        self.written = torch.zeros(len(self.rows), 0, dtype=torch.long, device=device)
        # All beams of a prompt begin alike: only the first may continue from there.
        self.sums = torch.full((len(read), self.num), _NEVER, dtype=torch.float64, device=device)
        self.sums[:, 0] = 0.0
        self.ending = torch.zeros(vocab_size, dtype=torch.bool, device=device)
        self.ending[list(ends)] = True
        # As many as are sure to leave enough that continue, each beam having one way to end for every ending token.
        self.num_candidates = self.num * min(1 + len(ends), vocab_size)
        self.seen = None
        if strategy.repetition_penalty != 1.0:
            self.seen = seen_tokens(read, vocab_size, device).repeat_interleave(self.num, dim=0)

    def extend(self, logits: Float[Tensor, "R V"]) -> Int[Tensor, " R"]:
        """Write one more token in every row, and return the index of the row that each new row continues."""
        if self.seen is not None:
            logits = with_repetition_penalty(logits, self.seen, self.strategy.repetition_penalty)
        sums = self.sums.view(-1, 1) + logits.log_softmax(-1, dtype=torch.float64)
        values, indices = sums.view(*self.sums.shape[:1], -1).topk(self.num_candidates, dim=-1)
        sources, chosen = self.first + indices // logits.shape[-1], indices % logits.shape[-1]
        stops = self.ending[chosen]
        self._take_ended(values, sources, chosen, stops)
        self.sums, order = values.masked_fill(stops, _NEVER).topk(self.num, dim=-1)
        sources_of_rows, tokens = (part.gather(1, order).flatten() for part in (sources, chosen))
        self.written = torch.cat([self.written[sources_of_rows], tokens[:, None]], dim=1)
        if self.seen is not None:
            self.seen = self.seen[sources_of_rows].scatter_(1, tokens[:, None], True)
        return sources_of_rows

    def _take_ended(
        self,
        values: Float[Tensor, "P C"],
        sources: Int[Tensor, "P C"],
        chosen: Int[Tensor, "P C"],
        stops: Bool[Tensor, "P C"],
    ) -> None:
        """Add the texts that end at this step and are among the best of all continuations."""
        for prompt, rank in stops[:, : self.num].nonzero().tolist():
            value = float(values[prompt, rank])
            if value > _NEVER:
                row = self.written[sources[prompt, rank]].tolist()
                self.finds[prompt].add(value, [*row, int(chosen[prompt, rank])], ended=True)

    def take_unended(self) -> None:
        """Add the texts that ran out of room; they compete with those that ended."""
        texts = self.written.view(*self.sums.shape, -1).tolist()
        for one, values, rows in zip(self.finds, self.sums.tolist(), texts, strict=True):
            for value, row in zip(values, rows, strict=True):
                if value > _NEVER:
                    one.add(value, row, ended=False)

    def are_done(self) -> bool:
        num_tokens = self.written.shape[1]
        best = zip(self.finds, self.sums[:, 0].tolist(), strict=True)
        return num_tokens == self.strategy.max_new_tokens or all(one.beyond_reach(s, num_tokens) for one, s in best)


@torch.inference_mode()
def search(
    model: DecodingModel,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    *,
    bos_id: int,
    ends: Collection[int],
) -> list[list[BeamSearchResult]]:
    """Return the best texts of every prompt, at most `how.num_samples`, best first; a text includes the token that
    ended it."""
    device = next(model.parameters()).device
    tokens, valid = as_batch(prompts, model, device)
    logits, state = model.prefill(tokens, valid, room=strategy.max_new_tokens, bos_id=bos_id)
    beams = _Beams(read_prompt(prompts, model, bos_id), strategy, ends, logits.shape[-1], device)
    of_prompt = beams.rows // beams.num
    select_rows(state, of_prompt)
    logits = logits[of_prompt]
    while True:
        sources_of_rows = beams.extend(logits)
        if beams.are_done():
            break
        if not torch.equal(sources_of_rows, beams.rows):
            select_rows(state, sources_of_rows)
        logits = model.decode_step(beams.written[:, -1:], state)
    beams.take_unended()
    return [sorted(one.best, reverse=True)[: strategy.num_samples] for one in beams.finds]
