"""Residual wirings against their equations, and what may be dropped of a branch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from contracts.choices import factory, names
from headtohead.components.block_parts import Branch, Branches, ResidualScheme
from headtohead.components.component import Context
from headtohead.components.norms import LayerNorm
from headtohead.components.residuals import DeepNorm, LayerScale, NoResidual, Parallel, PreNorm, ReZero
from headtohead.components.streams import HyperConnections, Sphere

D = 6


def sublayers() -> list[Callable[[Tensor], Tensor]]:
    return [lambda h: h.flip(-1) ** 2, lambda h: h.roll(1, -1) + h[:, :1]]


def wired(name: str, **options: object) -> tuple[ResidualScheme, Tensor]:
    torch.manual_seed(0)
    wiring = factory("residual", name, **options)(LayerNorm, D, Branches(num_layers=5)).double()
    for parameter in wiring.parameters():
        torch.nn.init.normal_(parameter)
    streams = wiring.widened(torch.randn(2, 3, D, dtype=torch.float64))
    return wiring, streams + 0.1 * torch.randn_like(streams)


def pre(wiring: ResidualScheme, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    x = x + f(n[0](x))
    return x + g(n[1](x))


def post(wiring: ResidualScheme, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    x = n[0](x + f(x))
    return n[1](x + g(x))


def sandwich(wiring: ResidualScheme, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    x = x + n[2](f(n[0](x)))
    return x + n[3](g(n[1](x)))


def reordered(wiring: ResidualScheme, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    x = x + n[0](f(x))
    return x + n[1](g(x))


def parallel(wiring: ResidualScheme, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    return x + f(n[0](x)) + g(n[0](x))


def rezero(wiring: ReZero, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    x = x + wiring.gains[0] * f(x)
    return x + wiring.gains[1] * g(x)


def layer_scale(wiring: LayerScale, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    x = x + wiring.gains[0] * f(n[0](x))
    return x + wiring.gains[1] * g(n[1](x))


def deepnorm(wiring: DeepNorm, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    alpha = (2 * 5) ** 0.25
    x = n[0](alpha * x + f(x))
    return n[1](alpha * x + g(x))


def none(wiring: NoResidual, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    return g(n[1](f(n[0](x))))


def sphere(wiring: Sphere, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    def scaled(h: Tensor) -> Tensor:
        return h / (h.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    x = scaled(x)
    x = scaled(x + wiring.gains[0] * (scaled(f(x)) - x))
    return scaled(x + wiring.gains[1] * (scaled(g(x)) - x))


def hyper_connections(wiring: HyperConnections, x: Tensor, f: Callable, g: Callable, n: list[Callable]) -> Tensor:
    """H' = A_r^T H + B^T f(A_m^T H), stream by stream, with A and B plus their parts made of the token."""
    streams = list(x.chunk(wiring.num_streams, -1))
    for s, sublayer in enumerate((f, g)):
        chosen = []
        for h in streams:
            normed = h / (h.square().mean(-1, keepdim=True) + torch.finfo(h.dtype).eps).sqrt()
            chosen.append(torch.tanh(normed @ wiring.by_token[s]))
        weights = [wiring.mixture[s, i] + wiring.scales[s, 0] * c[..., 1:] for i, c in enumerate(chosen)]
        shares = [wiring.share[s, i] + wiring.scales[s, 1] * c[..., :1] for i, c in enumerate(chosen)]
        mixed = [
            torch.stack([w[..., j, None] * h for w, h in zip(weights, streams, strict=True)]).sum(0)
            for j in range(wiring.num_streams + 1)
        ]
        branch = sublayer(n[s](mixed[0]))
        streams = [rest + share * branch for rest, share in zip(mixed[1:], shares, strict=True)]
    return torch.cat(streams, -1)


ALL = (pre, post, sandwich, reordered, parallel, rezero, layer_scale, deepnorm, none, sphere, hyper_connections)
EQUATIONS: dict[str, Callable[..., Tensor]] = {f.__name__: f for f in ALL}


def test_every_wiring_has_an_equation_here() -> None:
    assert set(EQUATIONS) == set(names("residual"))


@pytest.mark.parametrize("name", EQUATIONS)
def test_wiring_is_its_equation(name: str) -> None:
    wiring, x = wired(name)
    norms = [lambda h, norm=norm: norm(h, Context()) for norm in wiring.norms]
    expected = EQUATIONS[name](wiring, x, *sublayers(), norms)
    torch.testing.assert_close(wiring(x, sublayers(), Context()), expected)


def test_parallel_with_own_norms_reads_each() -> None:
    wiring, x = wired("parallel", shared_norm=False)
    f, g = sublayers()
    assert isinstance(wiring, Parallel)
    first, second = wiring.norms
    torch.testing.assert_close(wiring(x, [f, g], Context()), x + f(first(x, Context())) + g(second(x, Context())))
    assert isinstance(wiring, Parallel)


@pytest.mark.parametrize(
    ("num_sublayers", "stream", "branch"), [(2, (2 * 9) ** 0.25, (8 * 9) ** -0.25), (3, 27**0.25, (12 * 9) ** -0.25)]
)
def test_deepnorm_constants_are_the_papers(num_sublayers: int, stream: float, branch: float) -> None:
    wiring = DeepNorm(LayerNorm, D, Branches(9, num_sublayers))
    assert (wiring.stream_gain, wiring.branch_gain) == pytest.approx((stream, branch))


@pytest.mark.parametrize("name", names("residual"))
def test_a_missing_sublayer_is_noticed(name: str) -> None:
    wiring, x = wired(name)
    with pytest.raises(ValueError, match="zip"):
        wiring(x, sublayers()[:1], Context())


@pytest.mark.parametrize("name", names("residual"))
def test_branches_are_dropped_in_training_alone(name: str) -> None:
    torch.manual_seed(0)
    wiring = factory("residual", name)(LayerNorm, D, Branches(num_layers=5, dropout=0.3, drop_path=0.3))
    for parameter in wiring.parameters():
        torch.nn.init.normal_(parameter)
    x = wiring.widened(torch.randn(8, 3, D))
    assert not torch.equal(wiring(x, sublayers(), Context()), wiring(x, sublayers(), Context()))
    wiring.eval()
    assert torch.equal(wiring(x, sublayers(), Context()), wiring(x, sublayers(), Context()))


def test_drop_path_drops_whole_samples_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    branch = Branch(D, 2, dropout=0.0, drop_path=0.25)
    y = branch(torch.ones(20_000, 3, D))
    per_sample = y.flatten(1)
    assert torch.equal(per_sample.amin(1), per_sample.amax(1))
    assert per_sample[:, 0].unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert y.mean().item() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("options", [{"dropout": 1.0, "drop_path": 0.0}, {"dropout": 0.0, "drop_path": -0.1}])
def test_no_probability_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is not a probability below 1"):
        Branch(D, 2, **options)


@pytest.mark.parametrize("num_sublayers", [1, 2, 3])
def test_hyper_connections_start_as_streams_that_are_all_the_plain_one(num_sublayers: int) -> None:
    wiring = HyperConnections(LayerNorm, D, Branches(2, num_sublayers), streams=2)
    plain = PreNorm(LayerNorm, D, Branches(2, num_sublayers))
    x, parts = torch.randn(2, 3, D), (sublayers() * 2)[:num_sublayers]
    y = wiring.narrowed(wiring(wiring.widened(x), parts, Context()))
    torch.testing.assert_close(y, 2 * plain(x, parts, Context()))
