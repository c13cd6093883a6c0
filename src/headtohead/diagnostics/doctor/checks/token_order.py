"""Check whether the order of tokens matters: without positions, a bidirectional model reads a bag of them.

A causal one can still count (Haviv et al. 2022, https://arxiv.org/abs/2203.16634), once it has two layers.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.vision_transformer import VisionTransformer
from headtohead.components.stack import Stack
from headtohead.diagnostics.doctor.part_calls import SAME, tiny
from headtohead.diagnostics.doctor.patient import Finding, Patient
from headtohead.diagnostics.laws.law_subject import difference

_ADVICE = "choose model/position=learned, sinusoidal or rotary"


def order(patient: Patient) -> Finding:
    """Check the order; what can be permuted depends on the input."""
    if "images" in patient.example:
        return _verdict(_patches(patient), "patches")
    if patient.causal_field is None:
        return _verdict(_both_ways(patient, patient.exact), "tokens")
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


def _both_ways(patient: Patient, model: Architecture) -> float:
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
