"""Check whether an output that must not see later tokens sees them, by changing one token at a time; and whether the
order of tokens matters: without positions, a bidirectional model reads a bag of them.

A causal one can still count (Haviv et al. 2022, https://arxiv.org/abs/2203.16634), once it has two layers.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.vision_transformer import VisionTransformer
from headtohead.components.stack import Stack
from headtohead.config.run_config import RunConfig
from headtohead.diagnostics.doctor.part_calls import SAME, culprits, looking_ahead, part_calls, tiny
from headtohead.diagnostics.doctor.patient import Finding, Patient, not_applicable
from headtohead.diagnostics.laws.law_subject import difference

MODES = ("evaluation", "training")


def causality(patient: Patient) -> Finding:
    """Check training and evaluation, since a mask may be forgotten in one of them."""
    field = patient.causal_field
    if field is None:
        return _both_ways(patient) if "tokens" in patient.example else not_applicable("images are seen all at once")
    positions = _tested_positions(patient.example[field].shape[1])
    leaks = {mode: max(_change(patient, field, t, training=mode == "training") for t in positions) for mode in MODES}
    measured = {f"largest_change_in_{mode}": leak for mode, leak in leaks.items()}
    worst = max(leaks, key=lambda mode: leaks[mode])
    if not leaks[worst] > SAME:
        return Finding(
            "ok", f"no output before a changed token moves (largest change {tiny(leaks[worst])})", "", measured
        )
    patient.exact.train(worst == "training")
    below = "decoder." if field == "decoder_tokens" else ""
    names = list(looking_ahead(patient.exact, patient.example, positions[0], below))
    message = f"in {worst} a changed token moves outputs before it by {leaks[worst]:.0%}: {culprits(names)} looks ahead"
    if worst == "training" and not leaks["evaluation"] > SAME and patient.has_batch_statistics:
        advice = "batch_norm mixes tokens in training, later ones too: take model/norm=layer_norm or rms_norm"
        return Finding("warning", message, advice, measured)
    advice = "mask what comes later with minus infinity before the softmax, or use model/mixer=softmax_attention"
    return Finding("fault", message, advice, measured)


def _tested_positions(length: int) -> list[int]:
    """Early, in the middle and last."""
    return sorted({t for t in (1, length // 4, length // 2, length - 1) if 0 < t < length})


def _changed(patient: Patient, field: str, position: int) -> dict[str, Tensor]:
    """Return the example with other tokens at one place."""
    tokens = patient.example[field].clone()
    vocab_size = RunConfig(patient.config).vocab_size
    tokens[:, position] = (tokens[:, position] + 1 + torch.arange(len(tokens), device=tokens.device)) % vocab_size
    return {**patient.example, field: tokens}


def _change(patient: Patient, field: str, position: int, *, training: bool) -> float:
    """Return the change of the outputs before a changed token, relative to the largest of them."""
    before, after = (
        patient.features(patient.exact, inputs, training=training)[:, :position]
        for inputs in (patient.example, _changed(patient, field, position))
    )
    return difference(after, before)


def _both_ways(patient: Patient) -> Finding:
    """An encoder should look ahead."""
    if patient.features(patient.exact, patient.example).shape[:2] != patient.example["tokens"].shape:
        return not_applicable("one output for the whole text, which is seen all at once")
    positions = _tested_positions(patient.example["tokens"].shape[1])
    change = max(_change(patient, "tokens", t, training=False) for t in positions)
    measured = {"largest_change_in_evaluation": change}
    if change > SAME:
        return Finding("ok", f"reads both ways: a changed token moves outputs before it by {change:.0%}", "", measured)
    message = f"an encoder that never looks ahead: a changed token moves no output before it ({tiny(change)})"
    return Finding("warning", message, "build its mixer with causal=false, as the stack asks for", measured)


def memory(patient: Patient) -> Finding:
    """Every row is given the source of another."""
    if "decoder_tokens" not in patient.example:
        return not_applicable("no second sequence is read")
    inputs = patient.example
    swapped = {**inputs, "tokens": inputs["tokens"].roll(1, dims=0)}
    change = difference(patient.features(patient.exact, swapped), patient.features(patient.exact, inputs))
    measured = {"change": change}
    if change > SAME:
        return Finding("ok", f"another source moves the decoder's outputs by {change:.0%}", "", measured)
    message = f"the decoder never reads its source: another one moves no output (largest change {tiny(change)})"
    return Finding("fault", message, "let the cross mixer take keys and values from context.memory", measured)


def rows(patient: Patient) -> Finding:
    """All rows but the first are changed; batch norm is known to mix them in training."""
    inputs, other = patient.example, _with_others(patient)
    changes = {}
    for mode in ("evaluation", "training"):
        one, two = (patient.features(patient.exact, batch, training=mode == "training") for batch in (inputs, other))
        changes[mode] = difference(two[0], one[0])
    measured = {f"change_in_{mode}": change for mode, change in changes.items()}
    if changes["evaluation"] > SAME or (changes["training"] > SAME and not patient.has_batch_statistics):
        mode = "evaluation" if changes["evaluation"] > SAME else "training"
        patient.exact.train(mode == "training")
        names = [call.name for call in part_calls(patient.exact, inputs) if _mixes(call.x, call.again)]
        change = f"in {mode} other rows of the batch move a row's outputs by {changes[mode]:.0%}"
        message = f"{change}: {culprits(names)} mixes rows"
        advice = (
            "look for a view or reshape that merges heads or tokens into the batch in one order and splits them in "
            "another"
        )
        return Finding("fault", message, advice, measured)
    if changes["training"] > SAME:
        message = f"apart in evaluation; in training batch_norm mixes them by design ({changes['training']:.0%})"
        return Finding("ok", message, "", measured)
    return Finding("ok", f"no row moves another's outputs (largest change {tiny(max(changes.values()))})", "", measured)


def _with_others(patient: Patient) -> dict[str, Tensor]:
    """Return the example with every input of all rows but the first replaced by that of the row after it."""
    inputs = {}
    for name, tensor in patient.example.items():
        changed = tensor.clone()
        changed[1:] = tensor[1:].roll(1, dims=1)
        inputs[name] = changed
    return inputs


def _mixes(x: Tensor, again: object) -> bool:
    assert callable(again)
    other = x.clone()
    other[1:] += 1.0
    other[1:, ::2] -= 3.0
    return difference(again(other)[0], again(x)[0]) > SAME


_ADVICE = "choose model/position=learned, sinusoidal or rotary"


def order(patient: Patient) -> Finding:
    """Check the order; what can be permuted depends on the input."""
    if "images" in patient.example:
        return _verdict(_patches(patient), "patches")
    if patient.causal_field is None:
        return _verdict(_order_both_ways(patient, patient.exact), "tokens")
    if patient.causal_field == "decoder_tokens":
        source = _source(patient)
        if not source > SAME:
            return _verdict(source, "source tokens")
    return _causal(patient)


def _verdict(change: float, what: str) -> Finding:
    measured = {"change": change}
    if change > SAME:
        return Finding("ok", f"permuted {what} move the outputs by {change:.0%}", "", measured)
    message = f"blind to order: permuted {what} only permute the outputs (largest change {tiny(change)})"
    return Finding("fault", message, _ADVICE, measured)


def _permutation(length: int, *, num_fixed: int) -> Tensor:
    """Random, with the first tokens left where they are."""
    shuffled = torch.randperm(length - num_fixed, generator=torch.Generator().manual_seed(2)) + num_fixed
    return torch.cat((torch.arange(num_fixed), shuffled))


def _order_both_ways(patient: Patient, model: Architecture) -> float:
    """Return how far the outputs for permuted tokens are from permuted outputs; or, if a text has a single output, from
    that."""
    tokens = patient.example["tokens"]
    moved = _permutation(tokens.shape[1], num_fixed=0).to(tokens.device)
    outputs = patient.features(model, {**patient.example, "tokens": tokens[:, moved]})
    as_they_stood = patient.features(model, patient.example)
    by_token = as_they_stood.shape[:2] == tokens.shape
    return difference(outputs, as_they_stood[:, moved] if by_token else as_they_stood)


def _source(patient: Patient) -> float:
    """Return how far a permuted source moves the decoder's outputs."""
    tokens = patient.example["tokens"]
    moved = {**patient.example, "tokens": tokens[:, _permutation(tokens.shape[1], num_fixed=0).to(tokens.device)]}
    return difference(patient.features(patient.exact, moved), patient.features(patient.exact, patient.example))


def _patches(patient: Patient) -> float:
    """Return how far permuted patches move the image's outputs; pixels if there are no patches."""
    model, images = patient.exact, patient.example["images"]
    size = model.patches.patch_size if isinstance(model, VisionTransformer) else 1
    rows, columns = images.shape[2] // size, images.shape[3] // size
    patches = images.unflatten(3, (columns, size)).unflatten(2, (rows, size)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    moved = patches[:, _permutation(rows * columns, num_fixed=0).to(images.device)]
    permuted = moved.unflatten(1, (rows, columns)).permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
    return difference(patient.logits(model, {"images": permuted}), patient.logits(model, {"images": images}))


def _causal(patient: Patient) -> Finding:
    """The past of the last output is permuted: for the whole model, and for its first layer alone."""
    whole, first = _past(patient, patient.exact), _past(patient, _first_layer(patient.exact))
    measured = {"change": whole, "change_of_first_layer": first}
    if first > SAME:
        return Finding("ok", f"a permuted past moves the last output by {whole:.0%}", "", measured)
    if whole > SAME:
        message = f"a layer reads its past as a bag of tokens: permuted, it moves only later layers (by {whole:.0%})"
        advice = f"{_ADVICE}; without, causal layers learn order only through how many tokens each one sees"
        return Finding("warning", message, advice, measured)
    message = f"blind to order: a permuted past does not move the last output (largest change {tiny(whole)})"
    return Finding("fault", message, f"{_ADVICE}, or a second layer", measured)


def _past(patient: Patient, model: Architecture) -> float:
    field = patient.causal_field
    assert field is not None
    tokens = patient.example[field]
    moved = torch.cat((_permutation(tokens.shape[1] - 1, num_fixed=0), torch.tensor([tokens.shape[1] - 1])))
    permuted = {**patient.example, field: tokens[:, moved.to(tokens.device)]}
    return difference(patient.features(model, permuted)[:, -1], patient.features(model, patient.example)[:, -1])


def _first_layer(model: Architecture) -> Architecture:
    """A copy whose causal stacks end after one block."""
    short = deepcopy(model)
    for stack in short.modules():
        if isinstance(stack, Stack) and stack.causal:
            stack.blocks = nn.ModuleList(list(stack.blocks)[:1])
    return short
