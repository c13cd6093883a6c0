"""The door to optional kernels, with packages in their place that compute token by token behind the real signatures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from contracts.choices import factory
from headtohead.components import fast_kernels
from headtohead.components.component import Context
from headtohead.components.fast_kernels import CHUNK_SCAN, GATED_DELTA, GLA, FastKernel, boundaries, kernels_in_use

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
CALLS: list[str] = []


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None):
    CALLS.append("chunk_gla")
    assert initial_state is None and not output_final_state
    return by_token(q, k, v, g, None, None, scale, cu_seqlens), None


def chunk_gated_delta_rule(
    q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
    cu_seqlens=None,
):  # fmt: skip
    CALLS.append("chunk_gated_delta_rule")
    assert q.dtype == k.dtype == v.dtype == torch.bfloat16 and not use_qk_l2norm_in_kernel
    beta = beta[..., None]
    saved = g[..., None].exp()
    return by_token(q, k, beta * v, g[..., None], -beta * k * saved, k, scale, cu_seqlens), None


def chunk_delta_rule(q, k, v, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None):
    CALLS.append("chunk_delta_rule")
    beta = beta[..., None]
    return by_token(q, k, beta * v, torch.zeros_like(beta), -beta * k, k, scale, cu_seqlens), None


def chunk_dplr_delta_rule(
    q, k, v, a, b, gk, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None
):  # fmt: skip
    CALLS.append("chunk_dplr_delta_rule")
    return by_token(q, k, v, gk, a, b, scale, cu_seqlens), None


def by_token(q, k, v, g, a, b, scale, cu_seqlens) -> Tensor:
    """Compute S <- exp(g) S + b (a^T S) + k v^T, read by scale q, with all arguments [B, L, H, K]."""
    starts = set() if cu_seqlens is None else set(cu_seqlens.tolist())
    assert cu_seqlens is None or (len(q) == 1 and max(starts) == q.shape[1] and min(starts) == 0)
    q, k, v, g = (t.float() for t in (q, k, v, g))
    state, outputs = q.new_zeros(*q.shape[::2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[1]):
        state = torch.zeros_like(state) if t in starts else state
        read = 0 if a is None else b[:, t].float()[..., None] * (a[:, t].float()[:, :, None] @ state)
        state = g[:, t].exp()[..., None] * state + read + k[:, t][..., None] * v[:, t][:, :, None]
        outputs.append(((scale * q[:, t])[:, :, None] @ state).squeeze(2))
    return torch.stack(outputs, dim=1)


FUNCTIONS = {
    "fla.ops.gla": chunk_gla,
    "fla.ops.gated_delta_rule": chunk_gated_delta_rule,
    "fla.ops.delta_rule": chunk_delta_rule,
    "fla.ops.generalized_delta_rule": chunk_dplr_delta_rule,
}


def forget() -> None:
    fast_kernels._is_installed.cache_clear()
    fast_kernels._loaded.cache_clear()
    CALLS.clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fla", "fla.ops", *FUNCTIONS):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        if name in FUNCTIONS:
            setattr(module, FUNCTIONS[name].__name__, FUNCTIONS[name])
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def on_gpu(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_kernels, "_has_kernels", lambda _: True)


def test_without_a_package_torch_computes_and_nothing_is_imported() -> None:
    fast = FastKernel("auto", GLA, CHUNK_SCAN)
    assert fast.function(torch.zeros(1)) is None
    assert fast.in_use(CUDA, torch.float32) == "torch"
    assert not {"fla", "mamba_ssm"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("offer", "fix"), [(GLA, "pip install flash-linear-attention"), (CHUNK_SCAN, "pip install mamba-ssm")]
)
def test_a_kernel_requested_by_name_and_not_there_is_refused_with_the_fix(offer: fast_kernels.Offer, fix: str) -> None:
    with pytest.raises(ValueError, match=rf"kernel={offer.package} .* {fix}, or use kernel=auto"):
        FastKernel(offer.package, offer)


def test_a_kernel_that_a_mixer_does_not_have_is_refused() -> None:
    with pytest.raises(
        ValueError, match="kernel=mamba_ssm is not available for this mixer: choose from auto, torch, fla"
    ):
        FastKernel("mamba_ssm", GLA)


@pytest.mark.usefixtures("installed")
def test_on_a_cpu_torch_computes_and_a_kernel_requested_by_name_says_why_not() -> None:
    assert FastKernel("auto", GLA).function(torch.zeros(1)) is None
    with pytest.raises(ValueError, match="kernel=fla computes only on a CUDA device, and the tensors are on cpu"):
        FastKernel("fla", GLA).function(torch.zeros(1))


@pytest.mark.usefixtures("on_gpu")
def test_a_precision_that_a_kernel_does_not_take_is_left_to_torch_or_refused() -> None:
    assert FastKernel("auto", GATED_DELTA).in_use(CUDA, torch.float32) == "torch"
    assert FastKernel("auto", GATED_DELTA).in_use(CUDA, torch.bfloat16) == "fla"
    with pytest.raises(ValueError, match="takes bfloat16, float16 here, and the tensors are float32: use kernel=auto"):
        FastKernel("fla", GATED_DELTA).function(torch.zeros(1))


@pytest.mark.usefixtures("on_gpu")
def test_the_door_can_be_closed() -> None:
    fast = FastKernel("torch", GLA)
    assert fast.function(torch.zeros(1)) is None
    assert fast.in_use(CUDA, torch.float32) == "torch"


@pytest.mark.usefixtures("on_gpu")
def test_a_package_that_lacks_the_function_is_reported_and_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["fla.ops.gla"], "chunk_gla")
    with pytest.warns(UserWarning, match=r"flash-linear-attention is installed but gives no fla\.ops\.gla\.chunk_gla"):
        assert FastKernel("auto", GLA).function(torch.zeros(1)) is None
    assert FastKernel("auto", GLA).in_use(CUDA, torch.float32) == "torch"


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        ("gated_linear", {}, chunk_gla),
        ("gated_delta", {}, chunk_gated_delta_rule),
        ("gated_delta", {"gate": False}, chunk_delta_rule),
        ("rwkv7", {}, chunk_dplr_delta_rule),
    ],
)
def test_through_the_kernel_a_mixer_gives_what_it_gives_without(
    name: str, options: dict, function: Callable, packed: bool
) -> None:
    made = []
    for kernel in ("auto", "torch"):
        torch.manual_seed(0)
        made.append(factory("mixer", name, kernel=kernel, **options)(32, num_heads=2, causal=True).to(torch.bfloat16))
    x = torch.randn(2, 9, 32, dtype=torch.bfloat16)
    segments = (torch.arange(9) >= torch.tensor([[4], [7]])).long() if packed else None
    with torch.no_grad():
        through, without = (mixer(x, Context(segments=segments)) for mixer in made)
    assert [function.__name__] == CALLS
    assert [mixer.kernel_in_use() for mixer in made] == ["fla", "torch"]
    assert (through - without).abs().max() <= 0.03 * without.abs().max()


@pytest.mark.usefixtures("on_gpu")
def test_the_kernel_in_use_is_that_of_autocast() -> None:
    mixer = factory("mixer", "gated_delta")(32, num_heads=2, causal=True)
    assert mixer.kernel_in_use() == "torch"
    with torch.autocast("cpu", torch.bfloat16):
        assert mixer.kernel_in_use() == "fla"


def test_a_model_tells_what_computes_every_mixer_by_what_the_mixers_say() -> None:
    mixers = [factory("mixer", name)(16, num_heads=2, causal=True) for name in ("gated_linear", "softmax_attention")]
    assert kernels_in_use(nn.Sequential(*mixers)) == {"0": "torch", "1": "fused attention"}


@pytest.mark.usefixtures("on_gpu")
def test_a_model_tells_what_will_compute_it_elsewhere_and_shapes_alone_need_no_kernel() -> None:
    mixer = factory("mixer", "gated_delta", kernel="fla")(16, num_heads=2, causal=True)
    assert kernels_in_use(mixer, CPU, torch.bfloat16) == {"": "fla"}
    assert mixer.fast.in_use(torch.device("meta"), torch.float32) == "torch"


def test_boundaries_are_those_of_rows_and_of_documents_in_them() -> None:
    starts = torch.tensor([[False, False, True, False], [False, False, False, False]])
    assert boundaries(starts).tolist() == [0, 2, 4, 8]
