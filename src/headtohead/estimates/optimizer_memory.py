"""Memory of an optimizer beyond the numbers that it has of every weight: it goes by shapes, and by which are hidden
matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from torch import Tensor, nn

from headtohead.estimates.fake_tensors import byte_size
from headtohead.training.memory import basis_numbers
from headtohead.training.optim.optimizers import hidden_matrices

_ONE_WEIGHT = 5
"""Tensors as large as a weight that SOAP has while it updates one after the other."""
_TOGETHER, _GRAMS = 3, 2
"""Tensors as large as all matrices of one shape, and as their products with themselves, that Muon has while it
orthogonalises them together."""


class OptimizerMemory:
    """The bytes that one optimizer takes for the weights of a model."""

    def __init__(self, model: nn.Module, optimizer: Mapping[str, object]) -> None:
        """`optimizer` is its part of the configuration."""
        name = str(optimizer["_target_"]).rpartition(".")[2].lower()
        self._model, self._optimizer, self._is_soap = model, optimizer, name == "soap"
        self._is_muon = name == "muon"
        self._matrices = hidden_matrices(model) if self._is_muon else []
        self._hidden = set(map(id, self._matrices))

    def more(self, weight: Tensor) -> int:
        """Return the bytes that it keeps of a weight beyond those of every weight: bases of its dimensions, or what
        Muon, which keeps one number of a hidden matrix, leaves to AdamW."""
        is_left = self._is_muon and id(weight) not in self._hidden
        numbers = weight.numel() if is_left else basis_numbers(self._optimizer, weight.shape)
        return numbers * weight.element_size() * weight.requires_grad

    def updating(self) -> float:
        """Return the bytes that exist for a moment more, beyond numbers of every weight."""
        if self._is_soap:
            return _ONE_WEIGHT * max(byte_size(weight) * weight.requires_grad for weight in self._model.parameters())
        by_shape: dict[object, list[Tensor]] = defaultdict(list)
        for matrix in self._matrices:
            by_shape[matrix.shape].append(matrix)
        most = done = 0
        for alike in by_shape.values():
            one, num_bytes = alike[0], sum(map(byte_size, alike))
            shorter = min(one.shape[0], one[0].numel())
            grams = len(alike) * shorter**2 * one.element_size()
            most = max(most, done + _TOGETHER * num_bytes + _GRAMS * grams)
            done += num_bytes
        return float(done + most)
