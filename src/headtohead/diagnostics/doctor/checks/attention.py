"""Check attention scores at initialisation: too large gives one-hot weights, too small or independent of the tokens
gives uniform weights (scaling by 1/sqrt(K): Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, CrossMixer
from headtohead.components.linear_maps import ScoreLinear
from headtohead.diagnostics.doctor.part_calls import SAME, PartCall, part_calls
from headtohead.diagnostics.doctor.patient import Finding, Patient, not_applicable
from headtohead.diagnostics.laws.law_subject import difference
from headtohead.interpretability.head_statistics import head_statistics
from headtohead.interpretability.recorded_attention import attention_maps

_FEWEST_KEYS = 4
_TOO_LARGE = 1.8
"""A standard deviation of scores; 1 is expected, and sqrt(K) where they are not scaled. Wide heads are given more room,
half the way to sqrt(K), because position biases that depend on the query increase the spread."""
_TOO_SMALL = 0.02
"""Scaling by 1/K, as some do, gives 1/sqrt(K): 0.06 at K = 256."""
_ONE_HOT = 0.1
"""The share of the largest possible entropy below which weights count as one-hot."""


@dataclass(frozen=True)
class ScoreSpread:
    """The standard deviation of one mixer's scores over keys, head by head, for tokens of unit variance."""

    call: PartCall
    by_head: list[float]
    head_width: int

    @property
    def limit(self) -> float:
        value: float = max(_TOO_LARGE, self.head_width**0.25)
        return value


def attention(patient: Patient) -> Finding:
    """Check every part that has softmax weights."""
    with torch.no_grad():
        spreads = list(_spreads(patient))
    if not spreads:
        return not_applicable("no mixer has softmax scores")
    largest = max(spreads, key=lambda spread: max(spread.by_head) / spread.limit)
    smallest = min(spreads, key=lambda spread: min(spread.by_head))
    share = _entropy_share(patient)
    measured = {
        "score_deviation": max(largest.by_head),
        "smallest_score_deviation": min(smallest.by_head),
        "entropy_share_at_start": share,
    }
    wrong = _unscaled(largest) or _uniform(smallest) or _weights_disagree(patient) or _saturated(share)
    if wrong is not None:
        return replace(wrong, measured=measured)
    message = (
        f"scores have standard deviation {max(largest.by_head):.2f} for tokens of variance 1; "
        f"entropy starts at {share:.0%} of the largest"
    )
    return Finding("ok", message, measured=measured)


def _unscaled(spread: ScoreSpread) -> Finding | None:
    deviation, width = max(spread.by_head), spread.head_width
    if not deviation > spread.limit:
        return None
    message = (
        f"scores of {spread.call.name} have standard deviation {deviation:.1f} for tokens of variance 1: 1 is "
        f"expected, "
        f"and without scaling by the head's width sqrt({width}) = {width**0.5:.1f}"
    )
    return Finding("fault", message, "divide scores by sqrt(head width): model.mixer.scale=null does")


def _uniform(spread: ScoreSpread) -> Finding | None:
    dead = [value for value in spread.by_head if value < _TOO_SMALL]
    if not dead:
        return None
    message = (
        f"{len(dead)} of {len(spread.by_head)} heads of {spread.call.name} attend to all tokens equally: their scores "
        f"have standard deviation {min(dead):.0e}, and 1 is expected"
    )
    return Finding(
        "fault", message, "look for queries, keys or a scale of zero: model.mixer.scale=null is 1/sqrt(width)"
    )


def _weights_disagree(patient: Patient) -> Finding | None:
    """Return a fault where forward and attention() disagree; the causal mask is the matter of another check."""
    patient.exact.eval()
    with torch.no_grad():
        for call in part_calls(patient.exact, patient.example, (HasAttentionMaps,)):
            part, y = call.part, call.again()
            assert isinstance(part, HasAttentionMaps)
            context = call.context or Context()
            masks = (None,) if isinstance(part, CrossMixer) else (None, True, False)
            weights = [part.attention(call.x, context, causal=causal) for causal in masks]
            if all(difference(part.mixed(own, call.x, context), y) > SAME for own in weights):
                message = f"forward of {call.name} uses other weights than its attention() returns"
                return Finding("fault", message, "look for another scale, mask or bias in one of the two")
    return None


def _saturated(share: float) -> Finding | None:
    if share >= _ONE_HOT:
        return None
    message = f"a head is nearly one-hot at initialisation: its entropy is {share:.0%} of the largest possible"
    return Finding("warning", message, "take a smaller initialisation, or model.mixer.qk_norm=true")


def _spreads(patient: Patient) -> Iterator[ScoreSpread]:
    model = _of_unit_scores(patient)
    generator = torch.Generator().manual_seed(4)

    def drawn(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.device)

    for call in part_calls(model, patient.example, (HasAttentionMaps,)):
        part = call.part
        assert isinstance(part, HasAttentionMaps)
        context = call.context or Context()
        if part.gives_shares(context):
            if context.memory is not None:
                context = replace(context, memory=drawn(context.memory))
            weights = part.attention(drawn(call.x), context)
            yield ScoreSpread(call, _deviations(weights), call.x.shape[-1] // weights.shape[1])


def _deviations(weights: Float[Tensor, "B H L M"]) -> list[float]:
    """Return the deviations by head, from logarithms: scores up to a constant of each query. What all rows share is due
    to positions."""
    logs = weights.log()
    seen = logs.isfinite().all(0)
    num_keys = seen.sum(-1)
    seen &= (num_keys >= min(_FEWEST_KEYS, int(num_keys.max())))[..., None]
    logs = logs.masked_fill(~seen, 0.0)
    centred = (logs - (logs.sum(-1) / num_keys.clamp(min=1))[..., None]).masked_fill(~seen, 0.0)
    own = centred - centred.mean(0)
    freedom = (len(weights) - 1) * (num_keys - 1).clamp(min=0).masked_fill(~seen.any(-1), 0).sum(-1)
    return (own.square().sum((0, 2, 3)) / freedom.clamp(min=1)).sqrt().tolist()


def _of_unit_scores(patient: Patient) -> Architecture:
    """Return a copy at initialisation whose query and key maps are rescaled: the larger keep the variance of tokens.

    Their sizes keep their proportion, in which an initialisation may hide the scale (T5).
    """
    model = deepcopy(patient.model).double().eval()
    for part in model.modules():
        if isinstance(part, HasAttentionMaps):
            every = [module for module in part.modules() if isinstance(module, nn.Linear)]
            linears = [linear for linear in every if isinstance(linear, ScoreLinear)] or every
            gains = [float(m.weight.std()) * m.in_features**0.5 for m in linears]
            if gains and max(gains) > 0:
                for linear in linears:
                    linear.weight.div_(max(gains))
    return model


def _entropy_share(patient: Patient) -> float:
    """Return the least entropy of any head as a share of the largest possible, at initialisation on real data."""
    statistics = head_statistics(attention_maps(patient.model, patient.few.inputs())).values()
    shares = [share for heads in statistics for share in heads["entropy_share"] if share == share]
    return min(1.0, *shares)
