"""The loop that writes: choose a token for every row, greedily or by sampling, read it, and so on until all rows have
ended.

Texts are written in any order by a model that restores hidden tokens: all are hidden at first, and a few are fixed
at each step, those of which the model is surest (Chang et al. 2022, https://arxiv.org/abs/2202.04200; Nie et al. 2025,
https://arxiv.org/abs/2502.09992).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, DecodingModel, DecodingState, select_rows
from headtohead.components.precision import at_least_float32
from headtohead.errors import UsageError
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.ranges import Count, Temperature

_NEVER = float("-inf")


def with_repetition_penalty(
    logits: Float[Tensor, "B V"], seen: Bool[Tensor, "B V"], penalty: float
) -> Float[Tensor, "B V"]:
    """Divide the positive logits of tokens already seen by the penalty and multiply the negative ones (Keskar et al.
    2019, https://arxiv.org/abs/1909.05858, section 4.1, which divides both: a negative one would rise)."""
    penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalised, logits)


def top_k(logits: Float[Tensor, "B V"], k: int) -> Float[Tensor, "B V"]:
    """Rule out all but the k most likely tokens (Fan et al. 2018, https://arxiv.org/abs/1805.04833)."""
    if k >= logits.shape[-1]:
        return logits
    least = logits.topk(k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < least, _NEVER)


def top_p(logits: Float[Tensor, "B V"], p: float) -> Float[Tensor, "B V"]:
    """Rule out all tokens but the nucleus: the fewest tokens, most likely first, that hold a share p of the probability
    (Holtzman et al. 2020, https://arxiv.org/abs/1904.09751)."""
    ordered, order = logits.sort(dim=-1, descending=True)
    shares = ordered.softmax(-1, dtype=at_least_float32(logits.dtype))
    before = shares.cumsum(-1) - shares
    outside = torch.zeros_like(logits, dtype=torch.bool).scatter_(-1, order, before >= p)
    return logits.masked_fill(outside, _NEVER)


def draw(logits: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """Return the token at which the cumulative probability exceeds a uniform number from [0, 1)."""
    sums = logits.softmax(-1, dtype=torch.float64).cumsum(-1)
    # The last sum is 1 but for rounding; a token that cannot be has the sum of the one before it, and is passed over.
    return torch.searchsorted(sums, uniform[:, None] * sums[:, -1:], right=True)[:, 0]


class TokenSampler:
    """One token for every row; rows are the samples of the first prompt, then those of the second, and so on."""

    def __init__(
        self,
        strategy: DecodingStrategy,
        prompts: Sequence[Sequence[int]],
        read: Sequence[Sequence[int]],
        *,
        vocab_size: int,
        device: torch.device,
    ) -> None:
        """Set up the choice; `read` is what precedes each text in the sequence that the model continues."""
        self.strategy, self.written = strategy, 0
        self.seen = None
        if strategy.repetition_penalty != 1.0:
            self.seen = seen_tokens(read, vocab_size, device).repeat_interleave(strategy.num_samples, dim=0)
        self.uniforms = _uniforms(strategy, prompts).to(device) if strategy.is_sampled else None

    def __call__(self, logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        if self.seen is not None:
            logits = with_repetition_penalty(logits, self.seen, self.strategy.repetition_penalty)
        token = logits.argmax(-1) if self.uniforms is None else self._drawn(logits, self.uniforms[self.written])
        if self.seen is not None:
            self.seen.scatter_(1, token[:, None], True)
        self.written += 1
        return token

    def _drawn(self, logits: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
        strategy = self.strategy
        if strategy.temperature is not None and strategy.temperature != 1.0:
            logits = logits / strategy.temperature
        if strategy.top_k is not None:
            logits = top_k(logits, strategy.top_k)
        if strategy.top_p is not None:
            logits = top_p(logits, strategy.top_p)
        return draw(logits, uniform)


def seen_tokens(read: Sequence[Sequence[int]], vocab_size: int, device: torch.device) -> Bool[Tensor, "B V"]:
    """Return a mask of the tokens that each row contains."""
    seen = torch.zeros(len(read), vocab_size, dtype=torch.bool)
    for row, tokens in enumerate(read):
        seen[row, list(tokens)] = True
    return seen.to(device)


def _uniforms(strategy: DecodingStrategy, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "T B"]:
    """Return the random numbers of every row, derived from the seed, the prompt and the sample's number: neither the
    other prompts of a batch nor more samples change a text."""
    rows = []
    for prompt in prompts:
        for sample in range(strategy.num_samples):
            key = zlib.crc32(repr((strategy.seed, sample, list(prompt))).encode())
            generator = torch.Generator().manual_seed(key)
            rows.append(torch.rand(strategy.max_new_tokens, generator=generator, dtype=torch.float64))
    return torch.stack(rows, dim=1)


def as_batch(
    prompts: Sequence[Sequence[int]], model: DecodingModel, device: torch.device
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"] | None]:
    """Return the prompts as a tensor of tokens and a mask of the real ones, None where all are real. Padding is token
    0, which no position attends to."""
    if not prompts or not all(prompts):
        raise UsageError("a prompt has no tokens: give it at least one")
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    valid = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        index = slice(0, len(prompt)) if model.reads_source else slice(longest - len(prompt), longest)
        tokens[row, index] = torch.tensor(prompt)
        valid[row, index] = True
    return tokens.to(device), None if bool(valid.all()) else valid.to(device)


def read_prompt(prompts: Sequence[Sequence[int]], model: DecodingModel, bos_id: int) -> list[Sequence[int]]:
    """Return what precedes each text in the sequence that the model continues: the prompt, or the start token where the
    prompt is a separate source."""
    return [[bos_id] if model.reads_source else prompt for prompt in prompts]


Choose = Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]]
"""One token for every row, given the logits."""


def steps(
    model: DecodingModel, logits: Float[Tensor, "B V"], state: DecodingState, *, choose: Choose, max_new_tokens: int
) -> Iterator[Int[Tensor, " B"]]:
    """Yield a token for every row, `max_new_tokens` times; the caller may stop earlier."""
    for left in range(max_new_tokens, 0, -1):
        token = choose(logits)
        yield token
        if left > 1:
            logits = model.decode_step(token[:, None], state)


@torch.inference_mode()
def stream(
    model: DecodingModel,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    *,
    bos_id: int,
    has_ended: Callable[[int, int], bool],
) -> Iterator[list[tuple[int, int]]]:
    """Yield the next token of every unfinished row, step by step, as (row, token). Rows are the samples of the first
    prompt, then those of the second, and so on; `has_ended` receives each row and token and decides which token was the
    last."""
    device = next(model.parameters()).device
    tokens, valid = as_batch(prompts, model, device)
    logits, state = model.prefill(tokens, valid, room=strategy.max_new_tokens, bos_id=bos_id)
    read = read_prompt(prompts, model, bos_id)
    choose = TokenSampler(strategy, prompts, read, vocab_size=logits.shape[-1], device=device)
    if strategy.num_samples > 1:
        rows = torch.arange(len(prompts), device=device).repeat_interleave(strategy.num_samples)
        select_rows(state, rows)
        logits = logits[rows]
    going = list(range(len(logits)))
    for written in steps(model, logits, state, choose=choose, max_new_tokens=strategy.max_new_tokens):
        column = written.tolist()
        new = [(row, column[row]) for row in going]
        yield new
        going = [row for row, token in new if not has_ended(row, token)]
        if not going:
            return


@torch.no_grad()
def greedy(
    model: DecodingModel,
    tokens: Int[Tensor, "B L"],
    valid: Bool[Tensor, "B L"] | None = None,
    *,
    max_length: int,
    bos_id: int = 1,
    eos_id: int | None = None,
) -> Int[Tensor, "B T"]:
    """Return the most likely next token, `max_length` times; a row that has ended repeats `eos_id`."""
    with model.writing():
        logits, state = model.prefill(tokens, valid, room=max_length, bos_id=bos_id)
        written = torch.full((len(tokens), max_length), 0 if eos_id is None else eos_id, device=tokens.device)
        finished = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)

        def most_likely(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
            token = logits.argmax(-1)
            return token if eos_id is None else token.masked_fill(finished, eos_id)

        for index, token in enumerate(steps(model, logits, state, choose=most_likely, max_new_tokens=max_length)):
            written[:, index] = token
            if eos_id is not None:
                finished |= token == eos_id
                if bool(finished.all()):
                    break
    return written


@torch.no_grad()
def denoise(
    model: Architecture,
    tokens: Int[Tensor, "B L"],
    hidden: Bool[Tensor, "B L"],
    *,
    mask_id: int,
    steps: Count,
    valid: Bool[Tensor, "B L"] | None = None,
    temperature: Temperature = 0.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B L"]:
    """Return the tokens with the hidden ones written in so many steps, of about equally many tokens each.

    At temperature 0 a token is the most likely; else it is drawn, and its own probability says how sure the model is.
    """
    written, hidden = tokens.masked_fill(hidden, mask_id), hidden.clone()
    totals = hidden.sum(1)
    for step in range(1, steps + 1):
        probabilities = _probabilities(model(tokens=written, valid=valid), mask_id, temperature)
        if temperature > 0:
            flat = probabilities.flatten(0, 1)
            chosen = torch.multinomial(flat, 1, generator=generator).view(written.shape)
        else:
            chosen = probabilities.argmax(-1)
        sureness = probabilities.gather(-1, chosen[..., None]).squeeze(-1).masked_fill(~hidden, -1.0)
        due = totals * step // steps - (totals - hidden.sum(1))
        rank = sureness.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        now = hidden & (rank < due[:, None])
        written, hidden = torch.where(now, chosen, written), hidden & ~now
    return written


def _probabilities(logits: Float[Tensor, "B L V"], mask_id: int, temperature: float) -> Float[Tensor, "B L V"]:
    """Return probabilities of all tokens but the mask."""
    logits = logits.float()
    logits[..., mask_id] = float("-inf")
    return (logits / temperature if temperature > 0 else logits).softmax(-1)
