"""Position encodings against their papers' formulas."""

from __future__ import annotations

import math

import jaxtyping
import pytest
import torch

from contracts.choices import factory, names
from headtohead.components.component import Position
from headtohead.components.positions.absolute import Learned, Sinusoidal
from headtohead.components.positions.distance_functions import Kerple
from headtohead.components.positions.fire import Fire
from headtohead.components.positions.image_positions import Rotary2d, Sinusoidal2d
from headtohead.components.positions.relative import Alibi, Shaw, T5Bias, head_slopes
from headtohead.components.positions.rotary import Rotary
from headtohead.components.positions.xpos import Xpos
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.config.instantiate import make
from headtohead.diagnostics.laws import LawSubject, alone
from order_laws import order_is_seen, permutation_equivariance

FOR_IMAGES = ("sinusoidal_2d", "rotary_2d")


def made(kind: type[Position], d_model: int = 16, num_heads: int = 2, **options: object) -> Position:
    provided = {"max_length": 10, "causal": False, **options}
    position: Position = make(
        {"_target_": f"{kind.__module__}.{kind.__name__}"}, d_model=d_model, num_heads=num_heads, **provided
    )
    return position


def positions(*values: int) -> torch.Tensor:
    return torch.tensor([values])


def test_sinusoidal_follows_the_papers_exponents() -> None:
    encoding = made(Sinusoidal, 8).add(torch.zeros(1, 1, 8), positions(1))
    expected = torch.tensor([0.841, 0.540, 0.100, 0.995, 0.010, 1.000, 0.001, 1.000])
    torch.testing.assert_close(encoding[0, 0], expected, atol=5e-4, rtol=0)


def test_sinusoidal_in_double_precision_is_exact_far_out() -> None:
    encoding = made(Sinusoidal, 4).add(torch.zeros(1, 1, 4, dtype=torch.float64), positions(100_003))
    expected = [math.sin(100_003), math.cos(100_003), math.sin(1000.03), math.cos(1000.03)]
    torch.testing.assert_close(encoding[0, 0], torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0)


def test_learned_adds_the_row_of_each_position() -> None:
    learned = made(Learned)
    x = torch.randn(2, 3, 16)
    torch.testing.assert_close(learned.add(x, positions(4, 0, 9)), x + learned.table.weight[[4, 0, 9]])


def turned(rotary: Position, x: torch.Tensor, position: int) -> torch.Tensor:
    rotation = rotary.rotation(positions(position), x.dtype)
    assert rotation is not None
    return rotary.rotate(x.view(1, 1, 1, -1), rotation).flatten()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"pairing": "interleaved"}, {"fraction": 0.5}], ids=str)
def test_rotary_has_first_and_second_derivatives(options: dict) -> None:
    rotary = made(Rotary, **options)
    rotation = rotary.rotation(torch.arange(3)[None], torch.float64)
    x = torch.randn(1, 2, 3, 8, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda y: rotary.rotate(y, rotation), x)
    torch.autograd.gradgradcheck(lambda y: rotary.rotate(y, rotation) ** 2, x)


@pytest.mark.parametrize("options", [{}, {"pairing": "interleaved"}, {"fraction": 0.5}, {"base": 100.0}], ids=str)
def test_rotary_scores_depend_on_the_distance_alone(options: dict) -> None:
    rotary = made(Rotary, **options)
    q, k = torch.randn(2, 8, dtype=torch.float64)
    scores = [turned(rotary, q, start + 3) @ turned(rotary, k, start) for start in (0, 5, 1000)]
    assert max(scores) - min(scores) < 1e-9
    assert abs(scores[0] - turned(rotary, q, 4) @ turned(rotary, k, 0)) > 1e-3


def test_rotary_pairings_are_one_rotation_in_two_orders() -> None:
    x = torch.randn(8, dtype=torch.float64)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    half, interleaved = (turned(made(Rotary, pairing=pairing), v, 5) for pairing, v in
                         (("half", x), ("interleaved", x[order])))  # fmt: skip
    torch.testing.assert_close(half[order], interleaved)


def test_rotary_turns_the_papers_angles() -> None:
    x = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    rotary = made(Rotary, 4, 1, pairing="interleaved")
    angles = (7.0, 7.0 / 100.0)
    expected = [part for angle in angles for part in (math.cos(angle), math.sin(angle))]
    torch.testing.assert_close(turned(rotary, x, 7), torch.tensor(expected, dtype=torch.float64))


def test_partial_rotary_leaves_the_rest_of_the_head_alone() -> None:
    x = torch.randn(8)
    after = turned(made(Rotary, fraction=0.5), x, 3)
    assert torch.equal(after[4:], x[4:]) and not torch.allclose(after[:4], x[:4])


@pytest.mark.parametrize(
    ("kind", "d_model", "options"),
    [
        (Rotary, 6, {}),
        (Rotary, 16, {"fraction": 0.1}),
        (Rotary, 16, {"fraction": 1.5}),
        (Rotary2d, 12, {"grid": (3, 3)}),
    ],
)
def test_rotary_refuses_heads_it_cannot_pair(kind: type[Position], d_model: int, options: dict) -> None:
    with pytest.raises(ValueError, match="change d_model, num_heads or the position's fraction"):
        made(kind, d_model, **options)


def xpos_score(xpos: Xpos, q: torch.Tensor, k: torch.Tensor, query: int, key: int) -> float:
    q, k = (part.view(1, 1, 1, -1) for part in (q, k))
    of_query, of_key = (xpos.rotation(positions(position), q.dtype) for position in (query, key))
    return float((xpos.rotate(q, of_query) * xpos.rotate_keys(k, of_key)).sum())


@pytest.mark.parametrize("options", [{}, {"pairing": "interleaved"}, {"fraction": 0.5}, {"smoothing": 2.0}], ids=str)
def test_xpos_scores_decay_with_the_distance_alone_at_the_rate_of_each_pair(options: dict) -> None:
    xpos = made(Xpos, decay_length=64.0, **options)
    q, k = torch.randn(2, 8, dtype=torch.float64)
    scores = [xpos_score(xpos, q, k, start + 9, start) for start in (0, 5, 1000)]
    assert max(scores) - min(scores) < 1e-9 * max(1.0, abs(scores[0]))
    pairs, smoothing = xpos.rotated // 2, options.get("smoothing", 0.4)
    for pair in range(pairs):
        first, second = (2 * pair, 2 * pair + 1) if "pairing" in options else (pair, pair + pairs)
        unit = torch.zeros(8, dtype=torch.float64)
        unit[first] = 1.0
        angle, share = 9 * 10000.0 ** (-pair / pairs), ((pair / pairs + smoothing) / (1 + smoothing)) ** (9 / 64)
        assert xpos_score(xpos, unit, unit, 9, 0) == pytest.approx(share * math.cos(angle))
        other = torch.zeros(8, dtype=torch.float64)
        other[second] = 1.0
        assert xpos_score(xpos, unit, other, 9, 0) == pytest.approx(share * math.sin(angle))


def test_xpos_is_the_authors_in_their_pairing() -> None:
    theirs = pytest.importorskip("torchscale.component.xpos_relative_position", reason="torchscale is not installed")
    xpos, authors = made(Xpos, 24, 2, pairing="interleaved"), theirs.XPOS(12).double()
    q, k = torch.randn(2, 3, 40, 12, dtype=torch.float64)
    rotation = xpos.rotation(torch.arange(40)[None], q.dtype)
    own = xpos.rotate(q[None], rotation)[0] @ xpos.rotate_keys(k[None], rotation)[0].mT
    torch.testing.assert_close(own, authors(q) @ authors(k, downscale=True).mT, rtol=0, atol=1e-5)  # angles in float32


def test_xpos_knows_positions_up_to_where_a_key_would_overflow() -> None:
    xpos = made(Xpos)
    last = xpos.rotation(positions(xpos.max_length - 1), torch.float32)
    assert last.isfinite().all() and last[..., -8:].abs().max() > 1e28
    assert xpos.max_length > 25_000


def test_alibi_slopes_are_the_authors_for_any_number_of_heads() -> None:
    assert head_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert head_slopes(1) == [2.0**-8]
    expected = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
    expected += [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert head_slopes(12) == pytest.approx(expected)


def test_alibi_is_linear_in_distance_and_symmetric() -> None:
    bias = made(Alibi, num_heads=4).bias(None, positions(0, 1, 2), positions(0, 1, 2))
    assert bias[0, 1].tolist() == [[0, -0.0625, -0.125], [-0.0625, 0, -0.0625], [-0.125, -0.0625, 0]]


def test_alibi_slopes_come_back_after_materialisation_from_the_meta_device() -> None:
    with torch.device("meta"):
        alibi = made(Alibi, num_heads=4)
    alibi.to_empty(device="cpu")
    alibi.reset_parameters()
    assert alibi.slopes.tolist() == head_slopes(4)


def test_t5_buckets_are_exact_when_near_and_logarithmic_when_far() -> None:
    causal, both = made(T5Bias, causal=True), made(T5Bias, causal=False)
    behind = -torch.arange(0, 200)[None, None]
    buckets = causal.buckets(behind)[0, 0].tolist()
    assert buckets[:16] == list(range(16))
    assert [buckets[d] for d in (16, 18, 19, 20, 21, 31, 32, 63, 64, 112, 113, 127, 128, 199)] == [
        16, 16, 17, 17, 18, 21, 21, 26, 26, 30, 31, 31, 31, 31,
    ]  # fmt: skip
    assert causal.buckets(-behind)[0, 0].tolist() == [0] * 200
    ahead = both.buckets(-behind)[0, 0].tolist()
    assert ahead[0] == 0 and ahead[1:8] == list(range(17, 24)) and ahead[127] == 31 and ahead[199] == 31
    assert both.buckets(behind)[0, 0].tolist()[1:8] == list(range(1, 8))


def test_t5_bias_looks_its_table_up() -> None:
    bias = made(T5Bias, causal=True)
    result = bias.bias(None, positions(5), positions(0, 4, 5))
    torch.testing.assert_close(result[0, :, 0].T, bias.table[[5, 1, 0]])


def test_kerple_falls_with_the_logarithm_of_the_distance_at_the_rate_of_each_head() -> None:
    kerple = made(Kerple, num_heads=3).double()
    queries, keys = (2, 100_003), (0, 2, 5)
    result = kerple.bias(None, positions(*queries), positions(*keys)).tolist()
    for head in range(3):
        strength, rate = (math.exp(part.tolist()[head]) for part in (kerple.log_strengths, kerple.log_rates))
        assert 0.0099 < strength < 2.001 and 0.0099 < rate < 1.001
        for i, query in enumerate(queries):
            for j, key in enumerate(keys):
                expected = -strength * math.log(1 + rate * abs(query - key))
                assert result[0][head][i][j] == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_kerple_has_first_and_second_derivatives() -> None:
    kerple = made(Kerple).double()
    here = positions(0, 1, 7)

    def bias(*_: torch.Tensor) -> torch.Tensor:
        return kerple.bias(None, here, here)

    torch.autograd.gradcheck(bias, (kerple.log_strengths, kerple.log_rates))
    torch.autograd.gradgradcheck(bias, (kerple.log_strengths, kerple.log_rates))


def perceptron_of_shares(fire: Fire, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the bias by the paper's equation 6: a perceptron of each pair's distance."""
    query, key = queries.double()[0, :, None], keys.double()[0]
    furthest = query.maximum(fire.log_threshold.exp())
    share = ((query - key).abs() * fire.rate).log1p() / ((furthest * fire.rate).log1p() + 1e-6)
    hidden = (share[..., None] * fire.hidden_weights + fire.hidden_biases).relu()
    return (hidden @ fire.head_weights.T + fire.head_biases).permute(2, 0, 1)[None]


@pytest.mark.parametrize("constant", [0.5, -0.5])
def test_fire_is_a_perceptron_of_distances_as_shares_of_the_querys_position(constant: float) -> None:
    fire = made(Fire, num_heads=3, initial_threshold=4.5).double()
    with torch.no_grad():
        fire.hidden_weights[3], fire.hidden_biases[3] = 0.0, constant
    queries, keys = torch.arange(2, 9)[None], torch.tensor([[0, 1, 2, 5, 8, 1000]])
    result, expected = fire.bias(None, queries, keys), perceptron_of_shares(fire, queries, keys)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(result)
    gradients = [torch.autograd.grad((part * weights).sum(), list(fire.parameters())) for part in (result, expected)]
    for own, of_perceptron in zip(*gradients, strict=True):
        torch.testing.assert_close(own, of_perceptron, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_fire_has_first_and_second_derivatives() -> None:
    fire = made(Fire, initial_threshold=4.5, hidden_width=5).double()

    def bias(*_: torch.Tensor) -> torch.Tensor:
        return fire.bias(None, positions(2, 7), positions(0, 1, 7))

    torch.autograd.gradcheck(bias, tuple(fire.parameters()))
    torch.autograd.gradgradcheck(bias, tuple(fire.parameters()))


def test_fire_sees_distances_far_beyond_training_as_the_same_shares() -> None:
    fire = made(Fire, initial_threshold=4.5, initial_rate=1e6).double()
    near, far = (fire.bias(None, positions(query), positions(0, query)) for query in (100, 100_000))
    torch.testing.assert_close(near, far, rtol=1e-5, atol=1e-5)


def test_shaw_meets_each_query_with_the_clipped_distance() -> None:
    shaw = made(Shaw, max_distance=2)
    q = torch.randn(3, 2, 5, 8)
    here = torch.arange(5)[None]
    result = shaw.bias(q, here, here)
    for i in range(5):
        for j in range(5):
            relative = shaw.table[max(-2, min(2, j - i)) + 2]
            torch.testing.assert_close(result[:, :, i, j], q[:, :, i] @ relative)


def test_shaw_and_fire_have_parameters_per_layer_and_t5_one_table_for_all() -> None:
    stacks = {}
    for name in ("shaw", "fire", "t5_bias"):
        one = alone(factory("mixer", "softmax_attention"), causal=True, position=factory("position", name))
        stacks[name] = Stack(StackSize(16, 3, 4), one.args[1], **one.keywords)
    assert [len(stack.positions) for stack in stacks.values()] == [3, 3, 1]
    assert len({id(position.table) for position in stacks["shaw"].positions}) == 3


def test_image_encodings_know_row_and_column_and_leave_the_class_token_alone() -> None:
    sinusoidal = made(Sinusoidal2d, 8, max_length=7, grid=(2, 3))
    result = sinusoidal.add(torch.zeros(1, 7, 8), torch.arange(7)[None])[0]
    line = made(Sinusoidal, 4)
    assert not result[0].any()
    for patch in range(6):
        row, column = divmod(patch, 3)
        expected = [line.add(torch.zeros(1, 1, 4), positions(index))[0, 0] for index in (row, column)]
        torch.testing.assert_close(result[1 + patch], torch.cat(expected))


def test_rotary_2d_scores_depend_on_row_and_column_distances_alone() -> None:
    rotary = made(Rotary2d, max_length=17, grid=(4, 4))
    q, k = torch.randn(2, 8, dtype=torch.float64)

    def score(a: tuple[int, int], b: tuple[int, int]) -> float:
        return float(turned(rotary, q, 1 + a[0] * 4 + a[1]) @ turned(rotary, k, 1 + b[0] * 4 + b[1]))

    assert score((1, 2), (0, 0)) == pytest.approx(score((3, 3), (2, 1)))
    assert score((1, 2), (0, 0)) != pytest.approx(score((2, 1), (0, 0)), abs=1e-3)
    assert torch.equal(turned(rotary, q, 0), q)


@pytest.mark.parametrize("name", FOR_IMAGES)
@pytest.mark.parametrize("options", [{"grid": None}, {"grid": (4, 4), "max_length": 15}], ids=str)
def test_image_encodings_refuse_what_is_no_image(name: str, options: dict) -> None:
    with pytest.raises(ValueError, match=f"position={name}"):
        factory("position", name)(16, **{"num_heads": 2, "max_length": 8, "causal": False, **options})


@pytest.mark.parametrize(
    ("kind", "d_model", "options", "sentence"),
    [
        (Learned, 16, {"max_length": None}, "set model.max_length"),
        (Sinusoidal, 7, {}, "d_model=7 is odd"),
        (Sinusoidal2d, 6, {"grid": (1, 1)}, "multiple of 4"),
        (Shaw, 16, {"max_distance": 0}, "max_distance=0"),
        (T5Bias, 16, {"num_buckets": 3}, "num_buckets=3"),
        (T5Bias, 16, {"max_distance": 4}, "max_distance=4"),
    ],
)
def test_impossible_options_are_refused_with_the_remedy(
    kind: type[Position], d_model: int, options: dict, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(kind, d_model, **options)


def test_an_unknown_pairing_is_refused_without_the_tests_type_checks_too() -> None:
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match="choose half or interleaved"):
            made(Rotary, pairing="thirds")
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def encoder(name: str) -> LawSubject:
    grid, length = ((2, 5), 11) if name in FOR_IMAGES else (None, 11)
    position = factory("position", name)
    return LawSubject(
        lambda: Stack(
            StackSize(16, 2, 4),
            StackParts(
                mixer=factory("mixer", "softmax_attention"),
                position=position,
                norm=factory("norm", "layer_norm"),
                residual=factory("residual", "pre"),
                feedforward=factory("feedforward", "gelu"),
            ),
            causal=False,
            max_length=length,
            grid=grid,
        )
    )


def test_an_encoder_without_positions_cannot_tell_orders_apart() -> None:
    permutation_equivariance(encoder("none"))


@pytest.mark.parametrize("name", [name for name in names("position") if name != "none"])
def test_every_encoding_lets_an_encoder_tell_orders_apart(name: str) -> None:
    order_is_seen(encoder(name))
