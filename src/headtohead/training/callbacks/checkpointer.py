"""Act around a validation: judge the weights, save checkpoints, and decide whether to continue."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.trainer.states import TrainerFn
from typing_extensions import override

from headtohead.records.record import Progress
from headtohead.training.callbacks.attention_logger import AttentionLogger
from headtohead.training.callbacks.step_logger import StepLogger
from headtohead.training.checkpoints import BEST, LAST, load, save_weights
from headtohead.training.loop.run_state import joules_now
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.loop.training_module import TrainingModule, as_training_module
from headtohead.training.parallel.sharding import load_whole, whole_state
from headtohead.training.run_outcome import Diverged, Interrupted, StopRequest
from headtohead.training.run_recorder import RunRecorder

_log = logging.getLogger(__name__)


class Checkpointer(Callback):
    """Selects on validation; a step is done when its validation is, so that a resumed run repeats or skips none."""

    def __init__(
        self,
        session: RunRecorder,
        meter: ThroughputMeter,
        stop: StopRequest,
        reporter: StepLogger,
        attention_loggers: Sequence[AttentionLogger],
    ) -> None:
        self._session, self._meter, self._stop = session, meter, stop
        self._reporter, self._attention_loggers = reporter, attention_loggers

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop.listen()

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        module = as_training_module(pl_module)
        if module.work.stop and not module.settings.validates_at(module.state.step):
            self._end_early(trainer, module)

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = as_training_module(pl_module)
        module.read_losses()
        self._meter.stop()
        if module.average is not None:
            module.average.swap()

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = as_training_module(pl_module)
        state, task, settings = module.state, module.task, module.settings
        results = module.results
        self._session.logger.write(
            self._progress(module),
            {f"validation/{name}": value for name, value in results.items()} | joules_now(state, self._meter),
        )
        if not math.isfinite(results["loss"]):
            raise Diverged("validation/loss", results["loss"], state.step)
        if state.judge(results[task.monitor], task.direction, settings.min_delta):
            state.best_metrics = dict(results)
            weights = whole_state(module.model)
            if trainer.is_global_zero:
                save_weights(
                    weights,
                    self._session.checkpoints / BEST,
                    step=state.step,
                    metrics=results,
                    head=type(module.model.head).__name__,
                    class_names=module.class_names,
                )
        if module.average is not None:
            module.average.swap()
        if trainer.state.fn is TrainerFn.FITTING and state.is_done(settings):
            self._reporter.finish(trainer, module)
            for attention_logger in self._attention_loggers:
                attention_logger.at_end(trainer, module)
        self._save_last(trainer, module)
        self._session.take_throughput(self._reporter.throughput())
        self._session.note(state, self._meter.seconds)
        self._report(module)
        self._decide(trainer, module)
        self._meter.start()

    @override
    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Load the weights that validation selected, which are then tested."""
        best = trainer.strategy.broadcast(str(self._session.checkpoints / BEST))
        load_whole(as_training_module(pl_module).model, load(Path(best))["model"])

    def _decide(self, trainer: Trainer, module: TrainingModule) -> None:
        state, settings = module.state, module.settings
        if state.is_done(settings):
            trainer.should_stop = True
            if state.step < settings.max_steps:
                _log.info("no improvement in %d validations: stopping at step %d", settings.patience, state.step)
        elif module.work.stop:
            raise Interrupted(self._stop.reason)

    def _end_early(self, trainer: Trainer, module: TrainingModule) -> None:
        module.read_losses()
        self._meter.stop()
        self._save_last(trainer, module)
        raise Interrupted(self._stop.reason)

    def _save_last(self, trainer: Trainer, module: TrainingModule) -> None:
        state, module.state = module.state, module.state.with_spent(self._meter)
        trainer.save_checkpoint(self._session.checkpoints / LAST)
        module.state = state

    def _progress(self, module: TrainingModule) -> Progress:
        return module.state.progress(self._meter.seconds)

    def _report(self, module: TrainingModule) -> None:
        state, monitor = module.state, module.task.monitor
        mark = "  best so far" if state.best_step == state.step else ""
        _log.info(
            "step %d of %d: validation/%s %.4f%s",
            state.step,
            module.settings.max_steps,
            monitor,
            module.results[monitor],
            mark,
        )
