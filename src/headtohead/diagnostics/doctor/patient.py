"""A run under examination: its model as training would start it, its data as training would see it.

Checks share what is made here and change nothing of it: what they train or bend is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.components.norms import BatchNorm
from headtohead.components.stack import Stack
from headtohead.config.build import make_model
from headtohead.config.run_config import RunConfig
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import order_of
from headtohead.training.initial_weights import start_from
from headtohead.training.loop.data_module import training_rows
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.run_components import RunComponents
from headtohead.training.trainer import device_of

NUM_ROWS = 4
LENGTH = 24
"""The length of the random inputs that structure is examined on, where the model takes as much."""
NUM_MEMORISED_ROWS, NUM_MEMORISED_TOKENS = 16, 256
"""The size of the batch that is memorised."""


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True, eq=False)
class Patient:
    """The run under examination: model, data and batches, each built from its seed when first used."""

    parts: RunComponents
    note: Callable[[str], None] = field(default=_silent)
    """Told how far a long check has come."""

    @property
    def config(self) -> Mapping[str, Any]:
        return self.parts.config

    @cached_property
    def device(self) -> torch.device:
        return device_of(self.parts.settings)

    @cached_property
    def model(self) -> Architecture:
        """Return the model at its first step, in training mode, but without dropout, which would hide what is
        measured."""
        settings = RunConfig(self.config).model
        undropped = {name: 0.0 for name in ("dropout", "drop_path") if name in settings}
        return self._start({**self.config, "model": {**settings, **undropped}})

    @cached_property
    def model_with_dropout(self) -> Architecture:
        return self._start(self.config)

    @cached_property
    def unfrozen(self) -> Architecture:
        """Return the model without what finetuning.freeze takes out of training."""
        return self._start({**self.config, "finetuning": {**RunConfig(self.config).finetuning, "freeze": "nothing"}})

    @cached_property
    def exact(self) -> Architecture:
        """Return the model in double precision, every parameter moved off a neutral value that would hide a mistake,
        such as a gain of 0."""
        model = deepcopy(self.model).double()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                # A matrix keeps the size of what it maps; gains and biases move by a fifth.
                noise *= parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.2
                parameter.add_(noise.to(parameter.device))
        self._prepare_statistics(model)
        return model

    @cached_property
    def example(self) -> dict[str, Tensor]:
        """Random inputs without padding, in double precision where they are not numbers of tokens."""
        settings = RunConfig(self.config).model
        length = min(LENGTH, settings.get("max_length") or LENGTH)
        target = min(LENGTH, settings.get("max_target_length") or LENGTH)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            cpu = torch.device("cpu")
            inputs = self.model.example_inputs(InputSize(length, target), NUM_ROWS, cpu)
        return {name: self._moved(tensor) for name, tensor in inputs.items()}

    @cached_property
    def causal_field(self) -> Literal["tokens", "decoder_tokens"] | None:
        """The input of which an output may see nothing later; None where all is seen."""
        if "decoder_tokens" in self.example:
            return "decoder_tokens"
        stacks = [module for module in self.model.modules() if isinstance(module, Stack)]
        one_way = any(stack.causal for stack in stacks) or self.parts.task.head == "language_model"
        return "tokens" if one_way and "tokens" in self.example else None

    @cached_property
    def has_batch_statistics(self) -> bool:
        return any(isinstance(module, BatchNorm) for module in self.model.modules())

    def batch(self, step: int = 0) -> Batch:
        """Return what training reads at a step, as the task shows it."""
        seed = seeds_of(self.parts.identity.seed).data_order
        split = training_rows(self.parts.data, self.parts.settings, seed)
        order = order_of(split, batch_size=self.parts.data.batch_size, seed=seed)
        epoch, rows = order.step(step)
        seen = self.parts.task.training_view(split.batch(rows), seed=seed, epoch=order.drawn_in(epoch))
        return seen.to(self.device)

    @cached_property
    def few(self) -> Batch:
        """Return the first rows of the first batch, few enough to be memorised in seconds."""
        batch = self.batch()
        per_row = max(1, sum(x.shape[1] for x in (batch.tokens, batch.decoder_tokens) if x is not None))
        num_rows = max(2, min(NUM_MEMORISED_ROWS, NUM_MEMORISED_TOKENS // per_row))
        return batch.chosen(torch.arange(min(num_rows, batch.num_samples), device=batch.rows.device))

    def features(self, model: Architecture, inputs: Mapping[str, Tensor], *, training: bool = False) -> Tensor:
        """Return the features without gradients; whatever is random in training is the same in every call."""
        model.train(training)
        torch.manual_seed(0)
        with torch.no_grad():
            return model.features(**inputs)

    def logits(self, model: Architecture, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the logits in evaluation mode."""
        model.eval()
        with torch.no_grad():
            outputs: Tensor = model(**inputs)
        return outputs

    def _start(self, config: Mapping[str, object]) -> Architecture:
        identity = self.parts.identity
        torch.manual_seed(seeds_of(identity.seed).initialisation)
        model = make_model(config)
        if identity.init_from is not None:
            start_from(model, identity.init_from, class_names=self.parts.data.spec().class_names)
        return model.to(self.device)

    def _prepare_statistics(self, model: Architecture) -> None:
        """Running statistics as training leaves them: arbitrary ones let numbers grow from layer to layer."""
        norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
        if not norms:
            return
        usual = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0
        self.features(model, self.example, training=True)
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, torch.float64 if tensor.is_floating_point() else None)


Verdict = Literal["ok", "warning", "fault", "not applicable"]


@dataclass(frozen=True)
class Finding:
    """A verdict, one sentence with the numbers behind it, and one with what to do where something is wrong."""

    verdict: Verdict
    message: str
    advice: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A question about a run, and how it is answered."""

    name: str
    question: str
    answer: Callable[[Patient], Finding]
    needs: tuple[str, ...] = ()
    """Checks whose faults would reach this one too, so that it could not tell its own."""


def not_applicable(why: str) -> Finding:
    return Finding("not applicable", why)
