"""Whether every parameter can learn: some are frozen, and some get no gradient."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from torch import nn

from headtohead.examining.doctor.contracts import Finding
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Trial
from headtohead.training.layers import layer_of

_SHOWN = 3


def parameters(patient: Patient) -> Finding:
    """Gradients are of one batch, with every parameter off its neutral start: a gain of 0 hides what is behind it."""
    named = dict(patient.model.named_parameters())
    frozen = [name for name, parameter in patient.unfrozen.named_parameters() if not parameter.requires_grad]
    asked = [name for name, parameter in named.items() if not parameter.requires_grad and name not in frozen]
    dead = _without_gradient(patient, [name for name in named if name not in frozen and name not in asked])
    total = sum(parameter.numel() for parameter in named.values())
    sizes = [sum(named[name].numel() for name in names) / total for names in (frozen, dead, asked)]
    measured = dict(zip(("frozen_share", "without_gradient_share", "frozen_as_asked_share"), sizes, strict=True))
    if frozen:
        says = f"{sizes[0]:.0%} of the weights are frozen (requires_grad=False): {_shown(frozen)}"
        return Finding(
            "fault", says, "let them train, or freeze by finetuning.freeze, which the record tells", measured
        )
    if dead:
        says = f"no gradient reaches {sizes[1]:.0%} of the weights: {_shown(dead)}"
        advice = "look for detach(), torch.no_grad(), .item(), argmax or an unused output on the way to the loss"
        return Finding("fault", says, advice, measured)
    learning = len(named) - len(asked)
    says = f"a gradient reaches all {learning} parameters"
    if asked:
        says += f"; {sizes[2]:.0%} of the weights are frozen, as finetuning.freeze asks"
    return Finding("ok", says, "", measured)


def _without_gradient(patient: Patient, names: Sequence[str]) -> list[str]:
    trial = Trial(patient, patient.few, deepcopy(patient.exact))
    trial.differentiate()
    held: dict[str, nn.Parameter] = dict(trial.model.named_parameters())
    gradients = {name: held[name].grad for name in names}
    return [name for name, gradient in gradients.items() if gradient is None or not gradient.any()]


def _shown(names: Sequence[str]) -> str:
    """By layer, where there are many."""
    shown = list(names) if len(names) <= _SHOWN else list(dict.fromkeys(map(layer_of, names)))
    rest = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + rest
