"""Training steps as a run takes them, without Lightning: the task's loss, the optimizer, clipping and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy

import torch
from torch.nn.utils import clip_grad_norm_

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import Batch
from headtohead.examining.doctor.patient import Patient
from headtohead.training.seeds import seed_step, seeds_of

_FORMATS = {"bf16": torch.bfloat16, "16": torch.float16, "64": torch.float64, "32": torch.float32}


class Course:
    """A copy of the model at its start, or another model, on one batch; learning rates are factors on its own."""

    def __init__(self, patient: Patient, batch: Batch, *, model: Architecture | None = None) -> None:
        self._patient = patient
        precision = patient.parts.precision.on(patient.device.type)
        bits, _, kind = precision.name.partition("-")
        self._format = _FORMATS[bits] if kind == "mixed" and model is None else None
        self.model: Architecture = deepcopy(patient.model) if model is None else model
        if kind == "true" and model is None:
            self.model.to(_FORMATS[bits])
        like = next(self.model.parameters())
        self.batch = batch.map(lambda x: x.to(like.dtype) if x.is_floating_point() else x)
        self._optimizer = patient.parts.optimizer(self.model)
        self._peaks = [group["lr"] for group in self._optimizer.param_groups]
        self._scaler = torch.amp.GradScaler(patient.device.type, enabled=self._format is torch.float16)
        self._trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @property
    def rate(self) -> float:
        """The configured learning rate."""
        return float(self._peaks[0])

    def losses(self, num_steps: int, factor: Callable[[int], float]) -> Iterator[float]:
        """The loss before each step."""
        seed = seeds_of(self._patient.parts.identity.seed).dropout
        for step in range(num_steps):
            seed_step(seed, step, 0, self._patient.device)
            yield self._step(factor(step))

    def loss(self, *, training: bool = False) -> float:
        """Without gradients; in evaluation labels are not smoothed."""
        self.model.train(training)
        with torch.no_grad(), self._casting():
            return float(self._patient.parts.task.loss(self.model, self.batch).mean)

    def differentiate(self) -> float:
        """Gradients of the loss; returns the loss."""
        self.model.train()
        with self._casting():
            loss = self._patient.parts.task.loss(self.model, self.batch).mean
        if loss.requires_grad:
            self._scaler.scale(loss).backward()
        return float(loss.detach())

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

    def _casting(self) -> AbstractContextManager[object]:
        return nullcontext() if self._format is None else torch.autocast(self._patient.device.type, self._format)
