"""Attention by a pattern: who looks at whom, by hand; what it costs as rows grow; what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Mixer
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.bigbird import BigBird, adjacent
from headtohead.components.mixers.attention.linformer import Linformer
from headtohead.components.mixers.attention.longformer import Longformer
from headtohead.components.mixers.attention.low_rank import LowRank
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.attention.sparse_attention import SparseAttention
from headtohead.components.mixers.attention.strided import Strided

WINDOWS = (SlidingWindow, Longformer)


def looks_at(mixer: HasAttentionMaps, length: int, context: Context | None = None) -> list[set[int]]:
    """Return the keys that have weight, for each query."""
    x = torch.randn(1, length, 8, dtype=torch.float64)
    weights = mixer.double().attention(x, context or Context())[0, 0]
    return [set(row.nonzero()[:, 0].tolist()) for row in weights]


def test_a_causal_window_of_three_holds_a_token_and_the_two_before_it() -> None:
    seen = looks_at(SlidingWindow(8, num_heads=2, causal=True, window=3), 6)
    assert seen == [{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}]


def test_a_bidirectional_window_of_one_holds_a_token_and_its_neighbours() -> None:
    seen = looks_at(SlidingWindow(8, num_heads=2, causal=False, window=1), 4)
    assert seen == [{0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3}]


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_as_long_as_the_row_is_full_attention(causal: bool) -> None:
    window = SlidingWindow(8, num_heads=2, causal=causal, window=9).double()
    full = SoftmaxAttention(8, num_heads=2, causal=causal).double()
    full.load_state_dict(window.state_dict())
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    torch.testing.assert_close(window(x, Context()), full(x, Context()), atol=1e-12, rtol=0)


def test_global_tokens_see_all_and_are_seen_by_all() -> None:
    seen = looks_at(Longformer(8, num_heads=2, causal=False, window=1, num_global=1), 5)
    assert seen == [{0, 1, 2, 3, 4}, {0, 1, 2}, {0, 1, 2, 3}, {0, 2, 3, 4}, {0, 3, 4}]


def test_a_causal_longformer_keeps_its_first_token_in_sight_and_sees_nothing_later() -> None:
    mixer = Longformer(8, num_heads=2, causal=True, window=2, num_global=1)
    assert looks_at(mixer, 5) == [{0}, {0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 4}]
    assert not [name for name, _ in mixer.named_parameters() if "global" in name]


def test_strides_and_a_dilated_window_by_hand() -> None:
    seen = looks_at(Strided(8, num_heads=2, causal=True, window=2, stride=5, dilation=3), 12)
    assert seen[11] == {11, 8, 6, 1}
    assert seen[4] == {4, 1}


def pattern(mixer: BigBird, length: int) -> Tensor:
    return adjacent(torch.tensor([length]), length, mixer.num_random, mixer.seed, causal=mixer.causal)[0]


def test_bigbird_attends_to_neighbours_ends_and_as_many_random_blocks_as_requested() -> None:
    mixer = BigBird(8, num_heads=2, causal=False, block_size=2, num_random=3)
    blocks = pattern(mixer, 20)
    assert blocks[0].all() and blocks[19].all()
    for at in range(2, 18):
        assert blocks[at, [0, at - 1, at, at + 1, 19]].all()
    assert blocks[2:17].sum(1).eq(8).sum() >= 14  # 5 certain ones and 3 drawn, but where certain ones meet


def test_a_causal_bigbird_begins_alike_however_long_it_becomes() -> None:
    mixer = BigBird(8, num_heads=2, causal=True, block_size=2)
    assert torch.equal(pattern(mixer, 30)[:12, :12], pattern(mixer, 12))


def test_each_layer_draws_its_own_random_blocks_and_keeps_them_with_its_weights() -> None:
    one, other = (BigBird(8, num_heads=2, causal=False) for _ in range(2))
    assert not torch.equal(pattern(one, 20), pattern(other, 20))
    other.load_state_dict(one.state_dict())
    assert torch.equal(pattern(one, 20), pattern(other.eval(), 20))


def test_random_blocks_are_spread_over_the_row() -> None:
    rows = torch.tensor([64])
    drawn = torch.stack([adjacent(rows, 64, 1, torch.tensor(seed), causal=False)[0, 32] for seed in range(400)]).sum(0)
    others = drawn[[block for block in range(1, 63) if abs(block - 32) > 1]]
    assert others.max() < 25 and (others > 0).float().mean() > 0.95  # about 7 each


@pytest.mark.parametrize(
    "mixer",
    [
        SlidingWindow(8, num_heads=2, causal=False, window=2),
        Longformer(8, num_heads=2, causal=False, window=2),
        BigBird(8, num_heads=2, causal=False, block_size=2, num_random=1),
        Strided(8, num_heads=2, causal=False, window=2, stride=4),
        Linformer(8, num_heads=2, causal=False, max_length=40, rank=3),
    ],
    ids=lambda mixer: type(mixer).__name__,
)
def test_gradients_of_a_mostly_padded_batch_are_finite(mixer: Mixer) -> None:
    x = torch.randn(2, 40, 8, requires_grad=True)
    valid = torch.arange(40) < torch.tensor([40, 3])[:, None]
    mixer(x, Context(valid=valid))[valid].square().sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in mixer.parameters())


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", WINDOWS)
def test_what_windows_keep_and_compute_grows_as_the_row_does(kind: type[SparseAttention], causal: bool) -> None:
    mixer = kind(8, num_heads=2, causal=causal, window=16)  # type: ignore[call-arg]
    saved = []
    for length in (256, 512, 1024):
        with saved_bytes(mixer) as count:
            y = mixer(torch.randn(1, length, 8, requires_grad=True), Context())
        saved.append(count())
        del y
    assert saved[2] - saved[1] == pytest.approx(2 * (saved[1] - saved[0]), rel=0.02)
    flops = [mixer.costs(CostContext(length)).forward_flops for length in (256, 512, 1024)]
    assert flops[2] - flops[1] == pytest.approx(2 * (flops[1] - flops[0]), rel=1e-9)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [3, 12, 39])
@pytest.mark.parametrize("kind", WINDOWS)
def test_blocks_count_the_pairs_that_are_looked_at_and_no_result_that_is_thrown_away(
    kind: Callable[..., SparseAttention], length: int, causal: bool
) -> None:
    for window in (3, 128):  # rows of whole blocks: padding would look at keys too
        mixer = kind(32, num_heads=2, causal=causal, window=window)
        with counting() as counts:
            mixer(torch.randn(1, length, 32), Context())
        assert counts.products == mixer.costs(CostContext(length)).forward_flops


def test_a_causal_window_costs_what_the_formula_says() -> None:
    n, d, w = 100, 8, 16
    mixer = SlidingWindow(d, num_heads=2, causal=True, window=w)
    assert mixer.costs(CostContext(n)).forward_flops == 8 * n * d * d + 4 * d * (w * n - w * (w - 1) // 2)


def test_a_stride_near_the_root_of_the_length_attends_to_far_fewer_than_all_keys() -> None:
    mixer = Strided(8, num_heads=2, causal=True, window=32, stride=32)
    assert mixer.num_pairs(1024) < 1024 * (1024 + 1) // 2 / 8


def test_a_windows_cache_does_not_grow() -> None:
    mixer = SlidingWindow(8, num_heads=2, causal=True, window=4)
    state = mixer.initial_state(1, 1000, device=torch.device("cpu"), dtype=torch.float32)
    assert sum(t.numel() for t in state.tensors() if t.is_floating_point()) == 2 * 4 * 8


def test_thin_projections_decode_as_they_compute_in_inference_mode() -> None:
    mixer = LowRank(8, num_heads=2, causal=True, rank=3).double().eval()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    with torch.inference_mode():
        state = mixer.initial_state(1, 5, device=x.device, dtype=x.dtype)
        y, state = mixer.step(x[:, :4], state, Context())
        last, _ = mixer.step(x[:, 4:], state, Context())
        torch.testing.assert_close(torch.cat((y, last), dim=1), mixer(x, Context()), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linformer(8, num_heads=2, causal=True, max_length=9), "cannot be causal"),
        (lambda: Linformer(8, num_heads=2, causal=False, max_length=None), "set model.max_length"),
        (lambda: SlidingWindow(8, num_heads=2, causal=True, window=0), "window=0"),
        (lambda: Longformer(8, num_heads=2, causal=True, num_global=0), "sliding_window"),
        (lambda: BigBird(8, num_heads=2, causal=True, block_size=0), "block_size=0"),
        (lambda: Strided(8, num_heads=2, causal=True, stride=0), "stride=0"),
        (lambda: LowRank(8, num_heads=2, causal=True, rank=0), "rank=0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_linformer_refuses_rows_longer_than_its_weights() -> None:
    mixer = Linformer(8, num_heads=2, causal=False, max_length=9, rank=3)
    with pytest.raises(ValueError, match=r"10 tokens .* set model.max_length higher"):
        mixer(torch.randn(1, 10, 8), Context())
