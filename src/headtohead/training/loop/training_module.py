"""One optimizer step, one evaluation batch: all that Lightning asks of us."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, cast

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.plugins import MixedPrecision
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torchmetrics import Metric

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.ledger import RowFlops
from headtohead.components.precision import without_autocast
from headtohead.components.stack import Stack
from headtohead.components.training_hooks import parts_with_losses, parts_with_steps
from headtohead.errors import UsageError
from headtohead.records.metrics_file import TEST
from headtohead.training.checks import check_optimizer
from headtohead.training.loop.compiled_model import compile_features
from headtohead.training.loop.data_module import StepBatch
from headtohead.training.loop.run_state import RunState
from headtohead.training.loop.seeds import begin_step, seed_step
from headtohead.training.loop.step_statistics import LayerNorms, LossWindow
from headtohead.training.optim.elementwise_optimizers import Group
from headtohead.training.optim.optimizers import checked_optimizer
from headtohead.training.optim.schedule_free import ScheduleFree, ScheduleFreeWeights
from headtohead.training.optim.schedules import schedule_of
from headtohead.training.optim.weight_updates import EvaluatedWeights, UnitWeights, WeightAverage
from headtohead.training.parallel.process_group import Replicas, replicas_of
from headtohead.training.parallel.sharding import clip_gradients, is_sharded, parallelise
from headtohead.training.run_components import RunComponents
from headtohead.training.run_outcome import Diverged

_KERNELS = {"fused", "foreach"}
_FUSED_ON_SHARDS = (torch.optim.Adam, torch.optim.AdamW)
"""The optimizers whose fused kernels torch knows how to run on shards."""


@dataclass(frozen=True)
class StepWork:
    """Step work is what one step processed, summed over all devices."""

    counted: int = 1
    """The number over which the loss is a mean."""
    samples: int = 0
    tokens: int = 0
    flops: float = 0.0
    padding: float = 0.0
    """FLOPs spent on padding, which are not among these."""
    stop: bool = False
    """Whether any process was told to stop."""


class TrainingModule(LightningModule):
    """A model with its task, its optimizer and how far both have come.

    A step's loss is the sum over all that is scored in the whole batch, on all devices and in all parts, over its
    number: how the batch is split changes nothing but rounding. That number must be known before the first backward
    pass, and one Lightning batch is a whole step, so optimization is manual in Lightning's sense. It is spelled out
    here, since Lightning's own way through a dozen hooks takes 0.2 ms a step.
    """

    def __init__(self, parts: RunComponents, model: Architecture, *, dropout_seed: int) -> None:
        super().__init__()
        self.automatic_optimization = False
        for module in model.modules():
            if isinstance(module, Stack):
                module.checkpointing = parts.checkpointing
        if parts.settings.compile:
            compile_features(model)
        self.model = model
        self.task = parts.task
        self.settings = parts.settings
        self.state = RunState()
        self.work = StepWork()
        """The work of the step just taken."""
        self.stop_requested = False
        self.window = LossWindow()
        self.average: EvaluatedWeights | None = None
        self.scaler: torch.amp.GradScaler | None = None
        """Keeps the gradients of 16-mixed from vanishing."""
        self.replicas = Replicas()
        self.layer_norms = LayerNorms(model)
        self.unit_weights = UnitWeights(model)
        self.gradient_norms: dict[str, float] = {}
        self.update_norms: dict[str, float] = {}
        self.results: dict[str, float] = {}
        """The results of the last evaluation."""
        self.test_stage = TEST
        """The stage under which the test in progress is recorded."""
        self.with_losses = dict(parts_with_losses(model))
        self._with_steps = list(parts_with_steps(model))
        """Parts that ask for a loss besides the task's, which is not in the loss that is logged."""
        self.class_names = parts.data.spec().class_names
        """The classes that the head's rows stand for."""
        self._make_optimizer, self._make_shapes = parts.optimizer, parts.make_shapes
        self._parametrisation, self._finetuning = parts.parametrisation, parts.finetuning
        self._kernels: list[Group] = []
        self._factor = schedule_of(parts.schedule, parts.settings.max_steps)
        self._dropout_seed = dropout_seed
        self._loaded_average: list[Tensor] | None = None
        self._count_is_checked = self._is_made = False
        self._flops = RowFlops(model)

    def __setattr__(self, name: str, value: Any) -> None:
        """Lightning notes the hook it is in 30 times a step, and Module's own way looks for parameters each time."""
        if name == "_current_fx_name":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def setup(self, stage: str) -> None:
        """The processes have met; the metrics of devices that divide one model count once."""
        del stage
        self.replicas = replicas_of(self.trainer)
        for part in self.with_losses.values():
            part.devices = self.replicas
        for metric in self.task.modules():
            if isinstance(metric, Metric):
                metric.process_group = self.replicas.group

    def configure_model(self) -> None:
        """Asked for before training and before the test."""
        if self.settings.strategy == "model_parallel" and not is_sharded(self.model):
            assert self.device_mesh is not None
            settings = self.settings
            parallelise(self.model, self.device_mesh, shard_among=settings.shard_among, reshard=settings.reshard)
            self.layer_norms, self.unit_weights = LayerNorms(self.model), UnitWeights(self.model)
            if self._make_shapes is not None:  # a module of the user's is run to be counted, which shards cannot be
                self._flops = RowFlops(self._make_shapes())
        if not self._is_made:  # once: dividing trained weights again would change their last digits
            self.unit_weights.normalise()
            self._is_made = True

    def configure_optimizers(self) -> Optimizer:
        optimizer = checked_optimizer(self._make_optimizer(self.model))
        check_optimizer(optimizer, self.settings, has_unit_weights=bool(self.unit_weights.weights))
        self._parametrisation.scale_rates(optimizer, self.model)
        self._finetuning.scale_rates(optimizer, self.model)
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
            if self.settings.tensor_parallel > 1:  # kernels for many tensors take plain ones or divided ones, not both
                group.update(dict.fromkeys(_KERNELS & group.keys(), False))
            elif self.settings.strategy == "model_parallel" and not isinstance(optimizer, _FUSED_ON_SHARDS):
                group.update(dict.fromkeys({"fused"} & group.keys(), False))
        self._kernels = [{name: group[name] for name in _KERNELS & group.keys()} for group in optimizer.param_groups]
        return optimizer

    def on_train_start(self) -> None:
        plugin = self.trainer.precision_plugin
        self.begin(self.trainer.strategy.optimizers[0], plugin.scaler if isinstance(plugin, MixedPrecision) else None)

    def begin(self, optimizer: Optimizer, scaler: torch.amp.GradScaler | None) -> None:
        """Make ready for the first step with this optimizer, and with what keeps gradients from vanishing."""
        for group, kernels in zip(optimizer.param_groups, self._kernels, strict=True):
            group.update(kernels)  # not those of the devices that a checkpoint was made on
        self.scaler = scaler
        if self.settings.weight_averaging is not None:
            self.average = WeightAverage(self.model, self.settings.weight_averaging)
        elif isinstance(optimizer, ScheduleFree):
            self.average = ScheduleFreeWeights(optimizer)
        if self.average is not None and self._loaded_average is not None:
            self.average.load(self._loaded_average)

    def begin_alone(self, scaler: torch.amp.GradScaler | None) -> None:
        """Make ready for steps that nobody logs, validates or saves, without Lightning but in its order."""
        self.configure_model()
        optimizer = self.configure_optimizers()
        strategy = SimpleNamespace(optimizers=[optimizer], model=self.model, pre_backward=lambda _: None)
        self.trainer = cast(Trainer, SimpleNamespace(strategy=strategy))
        self.begin(optimizer, scaler)

    def ask_to_stop(self) -> None:
        """End the run after this step; the devices agree on it when they meet."""
        self.stop_requested = True

    def training_step(self, batch: StepBatch, batch_idx: int) -> None:
        del batch_idx
        state = self.state
        begin_step(self._with_steps, self._dropout_seed, state.step)
        seed_step(self._dropout_seed, state.step, self.replicas.rank, self.device)
        self.work = self._summed_over_devices(batch)
        self.window.add(self._backward(batch))
        self._update(self.trainer.strategy.optimizers[0])
        state.step += 1
        state.epoch = batch.epoch
        state.samples += self.work.samples
        state.tokens += self.work.tokens
        state.flops += self.work.flops
        if self.average is not None:
            self.average.update(state.step)

    def read_losses(self) -> list[float]:
        """Return the losses since the last logged step, waited for; the first that is not a number ends the run."""
        losses = self.window.read(self.replicas.summed)
        ago = self.window.first_bad()
        if ago is not None:
            raise Diverged("train/loss", losses[-1 - ago], self.state.step - ago)
        return losses

    def _backward(self, batch: StepBatch) -> Tensor:
        """Gradients of the whole batch; returns this device's share of the loss."""
        shares, counts = [], []
        for index, part in enumerate(batch.parts, start=1):
            loss = self.task.loss(self.model, part)
            counts.append(loss.count)
            share = loss.total / max(1, self.work.counted)
            total_loss = share + self._auxiliary(loss.count / max(1, self.work.counted))
            self._differentiate(total_loss * self.replicas.size, last=index == len(batch.parts))
            shares.append(share.detach())
        if not self._count_is_checked:
            self._check_count(int(sum(counts)), batch)
        return shares[0] if len(shares) == 1 else torch.stack(shares).sum()

    def _auxiliary(self, share: Tensor) -> Tensor | float:
        """Return the losses that parts of the model request besides the task's, for the pass just made, which holds
        this share of all scored targets."""
        taken = [(part, part.take_loss()) for part in self.with_losses.values()]
        weighted = [loss if part.balance == "batch" else loss * share for part, loss in taken if loss is not None]
        return sum(weighted, start=0.0)

    def _check_count(self, counted: int, batch: StepBatch) -> None:
        """Once: what the task's loss is a sum over must be what the task promised."""
        self._count_is_checked = True
        if counted != batch.counted:
            raise UsageError(
                f"{type(self.task).__name__}.loss counts {counted} in a batch of which {type(self.task).__name__}."
                f"counted promises {batch.counted}, by itself the number of targets other than IGNORED: both must agree"
            )

    def _differentiate(self, loss: Tensor, *, last: bool) -> None:
        """Copies exchange gradients once per step, after its last part, and then have their mean; where weights are
        sharded, after every part, so that none holds the gradients of all."""
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        strategy = self.trainer.strategy
        wrapped = strategy.model
        with wrapped.no_sync() if isinstance(wrapped, DistributedDataParallel) and not last else nullcontext():
            strategy.pre_backward(loss)
            loss.backward()

    def _update(self, optimizer: Optimizer) -> None:
        """Take one optimizer step in the weights' own format: autocast is for the model's products."""
        with without_autocast(next(self.parameters())):
            self._step(optimizer)

    def _step(self, optimizer: Optimizer) -> None:
        """Step and log; a logged gradient norm is that before clipping."""
        is_logged = self.settings.logs_at(self.state.step + 1)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self._factor(self.state.step)
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        if is_logged:
            self.gradient_norms = self.layer_norms.gradients()
            before = self.layer_norms.snapshot()
        if self.settings.gradient_clip is not None:
            clip_gradients(self.layer_norms.parameters, self.settings.gradient_clip)
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
        self.unit_weights.normalise()
        optimizer.zero_grad()
        if is_logged:
            self.update_norms = self.layer_norms.updates(before)

    def _summed_over_devices(self, batch: StepBatch) -> StepWork:
        parts = zip(batch.rows_by_part, batch.scored_by_part, strict=True)
        by_part = [self._flops.of(rows, scored=scored) for rows, scored in parts]
        flops = [sum(kind) for kind in zip(*by_part, strict=True)]
        own = (batch.counted, batch.samples, batch.tokens, *flops, float(self.stop_requested))
        counted, samples, tokens, on_rows, on_padding, stop = self.replicas.sums(own, self.device)
        return StepWork(int(counted), int(samples), int(tokens), on_rows, on_padding, stop > 0)

    def validation_step(self, batch: StepBatch, batch_idx: int) -> None:
        del batch_idx
        for part in batch.parts:
            self.task.measure("validation", self.model, part)

    def on_validation_epoch_end(self) -> None:
        self.results = self._results("validation")

    def test_step(self, batch: StepBatch, batch_idx: int) -> None:
        del batch_idx
        for part in batch.parts:
            self.task.measure("test", self.model, part)

    def on_test_epoch_end(self) -> None:
        self.results = self._results("test")

    def _results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the task's results, each of which is a metric that the task names: the record describes its scale."""
        results = self.task.results(stage)
        if unnamed := results.keys() - {metric.name for metric in self.task.metrics}:
            raise UsageError(
                f"{type(self.task).__name__}.results holds {', '.join(sorted(unnamed))}, which its metrics do not "
                "name: add a Metric for each (headtohead/metrics/)"
            )
        return results

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        del checkpoint["loops"]  # one of Lightning's epochs is a stretch between validations: our own step says where
        self.state.window = self.window.losses
        checkpoint["run"] = self.state.to_dict()
        checkpoint["average"] = None if self.average is None else self.average.state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.state = RunState.saved(checkpoint["run"])
        self.window.losses = list(self.state.window)
        self._loaded_average = checkpoint["average"]


def as_training_module(module: LightningModule) -> TrainingModule:
    """Return the module of a callback's hook, as what it is."""
    assert isinstance(module, TrainingModule)
    return module
