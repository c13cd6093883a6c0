"""Positional encodings as numbers to look at: what is added to tokens, how queries and keys turn, what scores gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.component import Position
from headtohead.components.positions.relative import Shaw
from headtohead.components.stack import Stack
from headtohead.config.build import build_model
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.interpretability.layer_words import head_words
from headtohead.training.loop.seeds import seeds_of

LONGEST = 256
"""Places that are looked at, where an encoding knows more."""
WITHOUT_LIMIT = 128
"""Places that are looked at, where nothing says how many there are."""


@dataclass(frozen=True)
class Panel:
    """A map with named axes; `first_row` and `first_column` are the numbers that they start from."""

    title: str
    values: Float[Tensor, "R C"]
    rows: str
    columns: str
    first_row: int = 0
    first_column: int = 0
    causal: bool = False
    """Whether what lies right of the diagonal is never used."""


@dataclass(frozen=True)
class Curves:
    """Lines over one axis, which starts from `first`."""

    title: str
    values: Float[Tensor, "N C"]
    names: tuple[str, ...]
    axis: str
    first: int = 0


@dataclass(frozen=True)
class PositionEncoding:
    """One encoding of a model: where it is, what it does, and how that looks."""

    name: str
    encoding: str
    acts: Literal["added to tokens", "turns queries and keys", "biases scores"]
    figures: str
    """The gist in a few numbers."""
    panels: tuple[Panel, ...]
    curves: tuple[Curves, ...]


def fresh_model(config: Mapping[str, object]) -> nn.Module:
    """Build the model as training would start it; the global generator keeps its state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds_of(int(RunConfig(config).seed)).initialisation)
        return build_model(config)


@torch.no_grad()
def position_encodings(model: nn.Module, length: int | None) -> list[PositionEncoding]:
    """Return the encodings of every stack; `length` is the model's own limit. Raise ConfigurationError if nothing tells
    positions apart."""
    encodings = [
        encoding
        for name, stack in model.named_modules()
        if isinstance(stack, Stack)
        for number, position in enumerate(cast(list[Position], list(stack.positions)))
        for where, acting in _by_layer(_named(name, stack, number), position)
        for encoding in _of_position(where, acting, stack, length)
    ]
    if not encodings:
        raise ConfigurationError(
            "this model has no positional encoding to plot: choose another (h2h list model/position)"
        )
    return encodings


def _named(name: str, stack: Stack, number: int) -> str:
    return name if len(stack.positions) == 1 else f"{name}, layer {number}"


def _by_layer(name: str, position: Position) -> Iterator[tuple[str, Position]]:
    """Yield the encoding, and beside it the one that layers which see a window have instead."""
    yield name, position
    if (local := position.in_windows()) is not None:
        yield f"{name}, layers that see a window", local


def _of_position(name: str, position: Position, stack: Stack, length: int | None) -> Iterator[PositionEncoding]:
    limits = [limit for limit in (position.max_length, length) if limit]
    size = min(*(limits or [WITHOUT_LIMIT]), LONGEST)
    encoding = type(position).__name__
    if position.adds_to_tokens:
        yield _added(name, encoding, position.add(torch.zeros(1, size, stack.d_model), torch.arange(size)[None])[0])
    if position.rotates:
        turned = position.rotation(torch.arange(size)[None], torch.float32)
        assert turned is not None, "rotates promises a rotation"
        queries, keys = (turned, turned) if position.rotates_keys_alike else turned.chunk(2, dim=-1)
        yield _turned(name, encoding, queries[:, 0, 0], keys[:, 0, 0])
    if isinstance(position, Shaw):
        yield _relative_vectors(name, position)
    elif position.biases_scores:
        positions = torch.arange(size)[None]
        bias = position.bias(None, positions, positions)
        assert bias is not None, "biases_scores promises a bias"
        yield _biases(name, encoding, bias[0].float(), causal=stack.causal)


def _added(name: str, encoding: str, table: Float[Tensor, "L D"]) -> PositionEncoding:
    alike = _similarity(table)
    neighbours = alike.diagonal(1).mean() if len(table) > 1 else torch.tensor(1.0)
    return PositionEncoding(
        name,
        encoding,
        "added to tokens",
        f"mean length of a vector {table.norm(dim=-1).mean():.3f}, cosine of neighbours {neighbours:.3f}",
        (
            Panel("Added vectors, one per position", table, "position", "channel"),
            Panel("Similarity of positions: cosine of their vectors", alike, "position", "position"),
        ),
        (_by_distance("Mean cosine over distance", alike[None], ("cosine",), causal=False),),
    )


def _turned(
    name: str, encoding: str, queries: Float[Tensor, "2 L R"], keys: Float[Tensor, "2 L R"]
) -> PositionEncoding:
    """Describe a rotary encoding by half of its columns, since a pair of channels turns as one."""
    pairs = queries.shape[-1] // 2
    interleaved = pairs > 1 and torch.equal(queries[0, :, 0], queries[0, :, 1])
    chosen = slice(0, None, 2) if interleaved else slice(0, pairs)
    (cosines, sines), (of_keys, sines_of_keys) = queries[..., chosen], keys[..., chosen]
    size = (cosines * of_keys + sines * sines_of_keys).mean()  # 1, save where a scaling stretches queries and keys
    by_pair = (cosines * of_keys[0] + sines * sines_of_keys[0]).T / size
    alike = (cosines @ of_keys.T + sines @ sines_of_keys.T) / (pairs * size)
    angles = torch.atan2(sines[1], cosines[1]).abs() if len(cosines) > 1 else torch.ones(pairs)
    waves = 2 * torch.pi / angles[angles > 0]
    figures = f"{pairs} pairs of channels"
    if len(waves):
        figures += f", full turns after {waves.min():.3g} to {waves.max():.3g} tokens"
    return PositionEncoding(
        name,
        encoding,
        "turns queries and keys",
        figures,
        (
            Panel("Cosine of the angle from position 0, by pair of channels", by_pair, "pair", "position"),
            Panel("Between any two positions, mean over pairs", alike, "query", "key"),
        ),
        (_by_distance("Mean cosine over distance", alike[None], ("cosine",), causal=False),),
    )


def _biases(name: str, encoding: str, bias: Float[Tensor, "H L M"], *, causal: bool) -> PositionEncoding:
    heads = tuple(map(head_words, range(len(bias))))
    return PositionEncoding(
        name,
        encoding,
        "biases scores",
        f"{len(bias)} head{'' if len(bias) == 1 else 's'}, from {bias.min():.3g} to {bias.max() + 0.0:.3g}",
        tuple(
            Panel(f"Bias on the scores of {head_words(head)}", own, "query", "key", causal=causal)
            for head, own in enumerate(bias)
        ),
        (_by_distance("Bias on scores, over the key's distance", bias, heads, causal=causal),),
    )


def _relative_vectors(name: str, position: Shaw) -> PositionEncoding:
    """Return one learned vector per distance; what a score gains is its product with the query."""
    table, furthest = position.table.detach(), position.max_distance
    return PositionEncoding(
        name,
        type(position).__name__,
        "biases scores",
        f"mean length of a vector {table.norm(dim=-1).mean():.3f}; keys {furthest} or more positions away share one",
        (
            Panel("Vectors that queries meet, by distance", table, "distance", "channel", -furthest),
            Panel(
                "Similarity of distances: cosine of their vectors",
                _similarity(table),
                "distance",
                "distance",
                first_row=-furthest,
                first_column=-furthest,
            ),
        ),
        (Curves("Length of the vector over distance", table.norm(dim=-1)[None], ("length",), "distance", -furthest),),
    )


def _similarity(vectors: Float[Tensor, "L D"]) -> Float[Tensor, "L L"]:
    unit = F.normalize(vectors, dim=-1)
    return unit @ unit.T


def _by_distance(title: str, maps: Float[Tensor, "N L L"], names: tuple[str, ...], *, causal: bool) -> Curves:
    """Means over the diagonals: how the key's place before or after the query's tells."""
    size = maps.shape[-1]
    distances = range(1 - size, 1 if causal else size)
    lines = torch.stack([maps.diagonal(distance, dim1=-2, dim2=-1).mean(-1) for distance in distances], dim=1)
    return Curves(title, lines, names, "distance: the key's position minus the query's", 1 - size)
