"""All that a run is made of, built by `building` and handed to `train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from torch import nn
from torch.optim import Optimizer

from headtohead.architectures.architecture import Architecture
from headtohead.components.checkpointing import Checkpointing
from headtohead.data.augmentation.augmentation import NO_AUGMENTATION, Augmentations
from headtohead.data.data_source import DataSource
from headtohead.ranges import (
    Amount,
    BatchSize,
    Count,
    Devices,
    Every,
    Length,
    NotNegative,
    Positive,
    Range,
    Rows,
    ShareLeavingSome,
    Threads,
)
from headtohead.records.record import StudyPosition
from headtohead.tasks.task import Task
from headtohead.training.loop.precision import Precision
from headtohead.training.optim.finetuning import Finetuning
from headtohead.training.optim.parametrisation import Parametrisation, Standard
from headtohead.training.optim.schedules import Schedule
from headtohead.wandb_client.connection import TrackingSettings


@dataclass(frozen=True)
class TrainerSettings:
    """Trainer settings are the fields of conf/trainer; steps are optimizer steps."""

    max_steps: Annotated[int, Range(0, 1_000_000_000)] = 1000
    max_epochs: Every | None = None
    """The times through the train split, in a configuration in place of `max_steps`. Composing turns them into
    steps."""
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: Devices = 1
    num_nodes: Devices = 1
    strategy: Literal["single", "ddp", "model_parallel"] = "single"
    tensor_parallel: Devices = 1
    """The number of devices among which each layer is divided, under model_parallel; over what is left, weights are
    sharded."""
    shard_among: Devices | None = None
    """The number of devices among which weights are sharded, under model_parallel; groups of so many hold copies of
    each other. None means all."""
    reshard: bool = True
    """Whether gathered weights are given back between the forward and the backward pass, under model_parallel: false
    takes more memory and a third fewer messages."""
    accumulate: BatchSize = 1
    """The number of parts into which a device's share of a batch is split, to fit its memory; the result stays the
    same."""
    batch_tokens: Annotated[int, Range(1, 1_000_000_000_000)] | None = None
    """The tokens of an optimizer step, in a configuration in place of data.batch_size and `accumulate`. Composing
    solves both."""
    gradient_clip: Positive | None = 1.0
    """Largest norm of all gradients together."""
    weight_averaging: ShareLeavingSome | None = None
    """Decay of an exponential moving average of the weights, which is then what is evaluated and kept."""
    train_rows: Rows | None = None
    """Only so many rows of the train split, drawn by the run's seed; None means all. Tokens and classes are learned
    from all of it."""
    log_every: Every = 50
    validate_every: Every = 200
    validation_batches: BatchSize | None = None
    """The number of batches that a validation takes, their rows drawn from the whole split, the same in every run; None
    means all."""
    patience: Every | None = None
    """Stop after this many validations without a better one; None means never."""
    min_delta: NotNegative = 0.0
    """The smallest change that counts as better, for patience."""
    threads: Threads | None = None
    """Threads of the processor for each process; None means as torch chooses. Threads that wait for each other lose
    most of their time where other programs want the same processors: small models are steadier with one."""
    num_workers: Annotated[int, Range(0, 256)] = 0
    """Processes that make batches; 0 means the training process itself."""
    compile: bool = False
    deterministic: bool = False
    """Let torch refuse operations that can differ between two equal runs on a GPU."""
    progress_bar: bool = True
    num_samples: Amount = 8
    """Rows of which a run shows what the model makes of them, some ten times and at the end."""
    keep_checkpoints: Literal["all", "best", "last", "none"] = "all"
    """The checkpoints that stay on disk of a finished run."""

    @property
    def num_replicas(self) -> int:
        """Devices, or groups of them, that take a share of each batch."""
        return self.devices * self.num_nodes // self.tensor_parallel

    def logs_at(self, step: int) -> bool:
        """Return whether this step is logged; the first one is, since its loss shows whether the model starts as it
        should."""
        return step % self.log_every == 0 or step in (1, self.max_steps)

    def validates_at(self, step: int) -> bool:
        return step % self.validate_every == 0 or step == self.max_steps


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation settings say what is measured of the selected weights beside the plain test split: conf/evaluation."""

    lengths: tuple[Length, ...] = ()
    """Test rows so many times as long as those of training, too, where data and model have them; 1 is the test."""


@dataclass(frozen=True)
class ProbeSettings:
    """Attention maps of a few samples while a run trains: conf/probe."""

    at_end: bool = True
    """Whether the last weights are probed at the end."""
    every: Every | None = None
    """Steps; None means only at the end."""
    samples: Count = 2
    """The first rows of the validation split, the same in every run."""
    max_length: Length = 32
    """The number of tokens of a sample that are looked at."""
    labels: bool = True
    """Tokens along the axes of the pictures, where there are not too many."""
    raw: bool = True
    """The maps themselves too, as .npz files."""
    without_mask: bool = False
    """Draw causal maps a second time with their mask taken off."""
    receptive_fields: Literal["never", "where_needed", "always"] = "where_needed"
    """The receptive fields by gradients: where_needed, of what has no attention to show; always, of the whole model
    too."""

    @property
    def is_on(self) -> bool:
        return self.at_end or self.every is not None


@dataclass(frozen=True)
class RunInfo:
    """Run info identifies the run."""

    seed: int = 0
    name: str = "run"
    group: str = "default"
    job_type: str = "train"
    tags: tuple[str, ...] = ()
    notes: str | None = None
    content_hash: str | None = None
    """The hash of what decides the result."""
    output_dir: Path = Path("outputs")
    folder: Path | None = None
    """The exact folder of the run, whose name is the run's id; None means a new id below output_dir and group."""
    init_from: Path | str | None = None
    """The folder of another run, whose best weights this one starts from, or a published checkpoint, hf:NAME."""
    resume_from: Path | None = None
    """The folder of an interrupted run, which this one continues."""
    take_over: bool = False
    """Whether it is continued although another process may still write it; that one ends at its next write."""
    place: StudyPosition = field(default_factory=StudyPosition)
    """The position in a study to which it belongs."""


@dataclass(frozen=True)
class RunComponents:
    """One run, ready to be trained."""

    make_model: Callable[[], Architecture]
    """Draws from the global generator, which the caller seeds; what is not to be trained is frozen in it."""
    task: Task
    """The task: the loss, and the metrics that judge the model."""
    data: DataSource
    """The source of rows, split by split."""
    optimizer: Callable[[nn.Module], Optimizer]
    """A function from the model to its optimizer."""
    schedule: Callable[[int], Schedule]
    """A function from the number of steps of the run to its schedule."""
    make_shapes: Callable[[], Architecture] | None = None
    """Makes the same model without memory, for what its shapes tell before there is a run."""
    augmentation: Augmentations = NO_AUGMENTATION
    """The augmentation of training batches, and of no others; bound to the data."""
    precision: Precision = field(default_factory=Precision)
    """The number format in which the model computes."""
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    """The activations that the backward pass computes again instead of storing them."""
    parametrisation: Parametrisation = field(default_factory=Standard)
    """The rule by which initial weights and learning rates follow the width."""
    finetuning: Finetuning = field(default_factory=Finetuning)
    """The weights that are trained, and their rates by depth."""
    settings: TrainerSettings = field(default_factory=TrainerSettings)
    """The steps, batches, validations and checkpoints of the training."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    """The measurements of the selected weights beside the plain test split."""
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    """The samples and steps whose attention maps are written."""
    identity: RunInfo = field(default_factory=RunInfo)
    """The name, group and seed of the run, and what it starts from."""
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    """The W&B project that the run is logged to, and in which mode."""
    costs: Mapping[str, object] = field(default_factory=dict)
    """The ledger as plain numbers, for the record."""
    budget: Mapping[str, object] = field(default_factory=dict)
    """The quantity that a study holds equal between its arms, for the record."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved configuration, plain, as it can be run again."""
