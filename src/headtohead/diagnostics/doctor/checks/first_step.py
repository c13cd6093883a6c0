"""Check whether a forward pass works and gives numbers, whether the loss at the start is that of a uniform guess, and
whether gradients keep their size from the last layer to the first, on a real batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.components.block import Block
from headtohead.diagnostics.doctor.part_calls import SAME, culprits, nonfinite_parts
from headtohead.diagnostics.doctor.patient import Finding, Patient, not_applicable
from headtohead.diagnostics.doctor.training_steps import LossAndGradients, as_started
from headtohead.diagnostics.laws.law_subject import difference
from headtohead.training.loop.step_statistics import LayerNorms, layer_of

_ADVICE = "look there for a logarithm, a root or a division near zero, or take precision=32-true"


def forward(patient: Patient) -> Finding:
    """Check a real batch in training and in evaluation, in the precision of the run, and random inputs in double."""
    trial = LossAndGradients(patient, patient.few, as_started(patient))
    losses = {"training": trial.differentiate(), "evaluation": trial.loss()}
    measured = {f"loss_in_{mode}": loss for mode, loss in losses.items()}
    for mode, loss in losses.items():
        if not math.isfinite(loss):
            trial.model.train(mode == "training")
            names = list(nonfinite_parts(trial.model, trial.batch.inputs()))
            return Finding("fault", f"in {mode} the loss is {loss}, because of {culprits(names)}", _ADVICE, measured)
    if not patient.features(patient.exact, patient.example).isfinite().all():
        names = list(nonfinite_parts(patient.exact, patient.example))
        message = f"with weights of usual size outputs are not finite, because of {culprits(names)}"
        return Finding("fault", message, _ADVICE, measured)
    return Finding("ok", "losses and outputs are finite, in training and in evaluation", measured=measured)


def modes(patient: Patient) -> Finding:
    """Check the passes with dropout as configured, and without."""
    chance = _difference(patient, patient.model_with_dropout, (False, 0), (False, 1))
    dropout = _difference(patient, patient.model_with_dropout, (True, 0), (True, 1))
    mode = difference(
        patient.features(patient.exact, patient.example, training=True),
        patient.features(patient.exact, patient.example),
    )
    measured = {"chance_in_evaluation": chance, "chance_in_training": dropout, "training_against_evaluation": mode}
    if chance > 0:
        message = f"two evaluations of the same input differ by {chance:.0%}: something random ignores evaluation mode"
        return Finding("fault", message, "give functional dropout training=self.training, or use nn.Dropout", measured)
    if mode > SAME and not patient.has_batch_statistics:
        message = f"without dropout, training still differs from evaluation, by {mode:.0%}"
        return Finding(
            "warning", message, "look for a part that reads self.training, or draws random numbers", measured
        )
    kind = "evaluation is exact"
    if mode > SAME:
        return Finding("ok", f"{kind}; batch_norm makes training differ by {mode:.0%}, as it should", "", measured)
    message = f"{kind}; dropout moves training by {dropout:.0%}" if dropout > 0 else f"{kind}, and training equals it"
    return Finding("ok", message, "", measured)


def _difference(patient: Patient, model: Architecture, one: tuple[bool, int], two: tuple[bool, int]) -> float:
    """Return the difference between two passes of the example, each in a mode and with a seed."""
    inputs = {name: x.float() if x.is_floating_point() else x for name, x in patient.example.items()}
    outputs = []
    for training, seed in (one, two):
        model.train(training)
        torch.manual_seed(seed)
        with torch.no_grad():
            outputs.append(model.features(**inputs))
    return difference(outputs[1], outputs[0])


_ABOVE = 2.5
"""Nats, or ln(classes) where that is less. Logits that deviate by s cost about s^2 / 2, so this is s = 2.2, won back
within some steps; a head tied to its embedding, which starts by guessing the token it reads, costs 1 to 2.4."""
_LOST = 3.0
"""So many times ln(V) above it are not won back soon."""
_SHARE_BELOW = 0.25


def initial_loss(patient: Patient) -> Finding:
    """Compare with logits that are all equal: ln(V), or ln(classes)."""
    if patient.parts.identity.init_from is not None:
        return not_applicable(f"it starts from trained weights: init_from={patient.parts.identity.init_from}")
    batch = patient.batch()
    trial = LossAndGradients(patient, batch, as_started(patient))
    # In training: batch norm has no statistics to evaluate with yet.
    loss, expected = trial.loss(training=True), _of_equal_logits(patient, trial)
    measured = {"loss": loss, "loss_of_equal_logits": expected}
    is_score = batch.targets is not None and batch.targets.is_floating_point()
    size = "the error of the mean score" if is_score else f"ln({math.exp(expected):.0f})"
    excess = loss - expected
    if excess > min(_ABOVE, expected):
        message = (
            f"the loss starts at {loss:.2f}, {excess:.2f} above {size} = {expected:.2f}, as if logits deviated by "
            f"{math.sqrt(2 * excess):.1f}"
        )
        advice = (
            "start the head smaller: model/initialisation=gpt2, or model.tie_weights=false; look for a lost final norm"
        )
        return Finding("warning" if excess < _LOST * expected else "fault", message, advice, measured)
    if -excess > _SHARE_BELOW * expected:
        message = (
            f"the loss starts at {loss:.2f}, {-excess:.2f} below {size} = {expected:.2f}: something reveals the answers"
        )
        return Finding(
            "warning", message, "check that no input contains its own target, and that targets are shifted", measured
        )
    return Finding("ok", f"the loss starts at {loss:.3f}, and {size} = {expected:.3f}", "", measured)


def _of_equal_logits(patient: Patient, trial: LossAndGradients) -> float:
    """Return the loss of the same batch under a model whose every parameter is zero."""
    blank = LossAndGradients(patient, trial.batch, deepcopy(trial.model))
    with torch.no_grad():
        for parameter in blank.model.parameters():
            parameter.zero_()
    return blank.loss()


_UNEVEN, _GRADIENT_LOST = 1e2, 1e4
"""The factors by which the gradient may differ between two layers of a stack: Adam makes up for much, rounding for
nothing."""


def gradients(patient: Patient) -> Finding:
    """Check the gradients of the stream as it leaves each block; name layers whose parameters get non-finite ones."""
    trial = LossAndGradients(patient, patient.few, as_started(patient))
    with _watched(trial.model) as streams:
        trial.differentiate()
    norms = LayerNorms(trial.model).gradients()
    total = math.sqrt(sum(norm**2 for norm in norms.values()))
    measured = {"gradient_norm": total}
    if bad := [layer for layer, norm in norms.items() if not math.isfinite(norm)]:
        message = f"gradients of {bad[0]} are not finite" + (
            f", nor those of {len(bad) - 1} other layers" if bad[1:] else ""
        )
        return Finding(
            "fault", message, "take precision=32-true, and look for a log, sqrt or division near zero", measured
        )
    sizes = {name: _size(stream) for name, stream in streams}
    stacks = {_stack(name): [other for other in sizes if _stack(other) == _stack(name)] for name in sizes}
    # A stack that is read through gains of 0 has no gradient yet, as it should (ReZero).
    stacks = {stack: names for stack, names in stacks.items() if any(sizes[name] for name in names)}
    if not stacks:
        return not_applicable("no stack of blocks has a gradient yet")
    ratios = {stack: _ratio([sizes[name] for name in names]) for stack, names in stacks.items()}
    worst = max(ratios, key=lambda stack: ratios[stack])
    ratio, deepest = ratios[worst], stacks[worst]
    measured["largest_ratio_over_depth"] = ratio
    first, last = sizes[deepest[0]], sizes[deepest[-1]]
    if ratio > _UNEVEN:
        way = "vanishes" if first < last else "explodes"
        message = f"the gradient {way} on its way down: {last:.0e} after {deepest[-1]}, {first:.0e} after {deepest[0]}"
        advice = "choose model/residual=pre or deepnorm, a norm, or a smaller initialisation"
        return Finding("fault" if ratio > _GRADIENT_LOST else "warning", message, advice, measured)
    message = f"between layers they differ {ratio:.1f} times at most; their norm over all weights is {total:.2g}"
    return Finding("ok", message, "", measured)


@contextmanager
def _watched(model: Architecture) -> Iterator[list[tuple[str, Tensor]]]:
    """Collect what leaves each block, by the block's name, and retain its gradient."""
    outputs: list[tuple[str, Tensor]] = []

    def recorder(name: str) -> Any:
        def record(part: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            del part, inputs
            if output.requires_grad:
                output.retain_grad()
                outputs.append((name, output))

        return record

    handles = [part.register_forward_hook(recorder(n)) for n, part in model.named_modules() if isinstance(part, Block)]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def _size(stream: Tensor) -> float:
    return 0.0 if stream.grad is None else float(stream.grad.double().norm())


def _ratio(sizes: list[float]) -> float:
    return max(sizes) / min(sizes) if min(sizes) > 0 else math.inf


def _stack(name: str) -> str:
    """stack.blocks.3 lies in stack.blocks."""
    return name.rpartition(".")[0]


_SHOWN = 3


def parameters(patient: Patient) -> Finding:
    """Gradients are of one batch, with every parameter off its neutral start: a gain of 0 hides what is behind it."""
    named = dict(patient.model.named_parameters())
    frozen = [name for name, parameter in patient.unfrozen.named_parameters() if not parameter.requires_grad]
    frozen_by_model = [name for name, parameter in named.items() if not parameter.requires_grad and name not in frozen]
    dead = _without_gradient(patient, [name for name in named if name not in frozen and name not in frozen_by_model])
    total = sum(parameter.numel() for parameter in named.values())
    sizes = [sum(named[name].numel() for name in names) / total for names in (frozen, dead, frozen_by_model)]
    measured = dict(zip(("frozen_share", "without_gradient_share", "frozen_as_asked_share"), sizes, strict=True))
    if frozen:
        message = f"{sizes[0]:.0%} of the weights are frozen (requires_grad=False): {_shown(frozen)}"
        return Finding("fault", message, "let them train, or freeze by finetuning.freeze, which is recorded", measured)
    if dead:
        message = f"no gradient reaches {sizes[1]:.0%} of the weights: {_shown(dead)}"
        advice = "look for detach(), torch.no_grad(), .item(), argmax or an unused output on the way to the loss"
        return Finding("fault", message, advice, measured)
    learning = len(named) - len(frozen_by_model)
    message = f"a gradient reaches all {learning} parameters"
    if frozen_by_model:
        message += f"; {sizes[2]:.0%} of the weights are frozen, as finetuning.freeze says"
    return Finding("ok", message, "", measured)


def _without_gradient(patient: Patient, names: Sequence[str]) -> list[str]:
    trial = LossAndGradients(patient, patient.few, deepcopy(patient.exact))
    trial.differentiate()
    named: dict[str, nn.Parameter] = dict(trial.model.named_parameters())
    gradients = {name: named[name].grad for name in names}
    return [name for name, gradient in gradients.items() if gradient is None or not gradient.any()]


def _shown(names: Sequence[str]) -> str:
    """List the names, grouped by layer if there are many."""
    listed = list(names) if len(names) <= _SHOWN else list(dict.fromkeys(map(layer_of, names)))
    rest = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + rest
