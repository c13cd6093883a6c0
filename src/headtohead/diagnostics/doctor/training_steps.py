"""Losses, gradients and training steps as a run has them, without Lightning: the task's loss, precision, clipping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import Batch
from headtohead.diagnostics.doctor.patient import Patient
from headtohead.training.loop.seeds import seed_step, seeds_of


def as_started(patient: Patient) -> Architecture:
    """Return a copy of the model at its first step, in the number format that its weights are trained in."""
    return deepcopy(patient.model).to(patient.parts.precision.on(patient.device.type).of_weights)


class LossAndGradients:
    """A model, which this may change, on one batch, under the run's autocast."""

    def __init__(self, patient: Patient, batch: Batch, model: Architecture) -> None:
        self._patient, self.model = patient, model
        dtype = next(model.parameters()).dtype
        self.batch = batch.map(lambda x: x.to(dtype) if x.is_floating_point() else x)
        precision = patient.parts.precision.on(patient.device.type)
        self._format = precision.dtype if precision.name.endswith("mixed") else None

    def loss(self, *, training: bool = False) -> float:
        """Return the loss without gradients; in evaluation labels are not smoothed."""
        self.model.train(training)
        with torch.no_grad():
            return float(self._mean())

    def differentiate(self) -> float:
        """Leaves the gradients of the loss, in training, with the parameters; returns the loss."""
        self.model.train()
        loss = self._mean()
        if loss.requires_grad:
            self._backward(loss)
        return float(loss.detach())

    def _mean(self) -> Tensor:
        with self._casting():
            return self._patient.parts.task.loss(self.model, self.batch).mean

    def _backward(self, loss: Tensor) -> None:
        loss.backward()

    def _casting(self) -> AbstractContextManager[object]:
        return nullcontext() if self._format is None else torch.autocast(self._patient.device.type, self._format)


class ShortTraining(LossAndGradients):
    """The model as it starts, trained on one batch; learning rates are factors on the configured one."""

    def __init__(self, patient: Patient, batch: Batch) -> None:
        super().__init__(patient, batch, as_started(patient))
        self._optimizer = patient.parts.optimizer(self.model)
        self.rate = float(self._optimizer.param_groups[0]["lr"])
        """The configured one."""
        patient.parts.parametrisation.scale_rates(self._optimizer, self.model)
        patient.parts.finetuning.scale_rates(self._optimizer, self.model)
        self._peaks = [group["lr"] for group in self._optimizer.param_groups]
        self._trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self._scaler = torch.amp.GradScaler(patient.device.type, enabled=self._format is torch.float16)

    def losses(self, num_steps: int, factor: Callable[[int], float]) -> Iterator[float]:
        """Yield the loss before each step."""
        seed = seeds_of(self._patient.parts.identity.seed).dropout
        for step in range(num_steps):
            seed_step(seed, step, 0, self._patient.device)
            yield self._step(factor(step))

    def _step(self, factor: float) -> float:
        for group, peak in zip(self._optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak * factor
        loss = self.differentiate()
        self._scaler.unscale_(self._optimizer)
        clip = self._patient.parts.settings.gradient_clip
        if clip is not None:
            clip_grad_norm_(self._trained, clip)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad()
        return loss

    def _backward(self, loss: Tensor) -> None:
        self._scaler.scale(loss).backward()
