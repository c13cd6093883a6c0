"""What happens around a validation: judge the weights, keep checkpoints, decide whether to go on."""

from __future__ import annotations

import logging
import math
from pathlib import Path

from pytorch_lightning import Callback, LightningModule, Trainer
from typing_extensions import override

from headtohead.tracking.record import Progress
from headtohead.training.checkpoints import BEST, LAST, load, save_weights
from headtohead.training.meter import Meter
from headtohead.training.module import TrainingModule, own
from headtohead.training.outcomes import Diverged, Interrupted
from headtohead.training.session import Session
from headtohead.training.sharding import load_whole, whole_state
from headtohead.training.signals import StopRequest

_log = logging.getLogger(__name__)


class Keeper(Callback):
    """Selects on validation; a step is done when its validation is, so that a resumed run repeats or skips none."""

    def __init__(self, session: Session, meter: Meter, stop: StopRequest) -> None:
        self._session, self._meter, self._stop = session, meter, stop

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop.listen()

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        module = own(pl_module)
        if module.work.stop and not module.settings.validates_at(module.state.step):
            self._end_early(trainer, module)

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = own(pl_module)
        module.read_losses()
        self._meter.stop()
        if module.average is not None:
            module.average.swap()

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = own(pl_module)
        state, task, settings = module.state, module.task, module.settings
        results = module.results
        self._session.logger.write(
            self._progress(module), {f"validation/{name}": value for name, value in results.items()}
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
        self._save_last(trainer, module)
        self._session.note(state, self._meter.seconds)
        self._say(module)
        self._decide(trainer, module)
        self._meter.start()

    @override
    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What is tested is what validation selected."""
        best = trainer.strategy.broadcast(str(self._session.checkpoints / BEST))
        load_whole(own(pl_module).model, load(Path(best))["model"])

    def _decide(self, trainer: Trainer, module: TrainingModule) -> None:
        state, settings = module.state, module.settings
        if state.step >= settings.max_steps:
            trainer.should_stop = True
        elif settings.patience is not None and state.validations_without_gain >= settings.patience:
            _log.info("no better validation for %d in a row: stopping at step %d", settings.patience, state.step)
            trainer.should_stop = True
        elif module.work.stop:
            raise Interrupted(self._stop.reason)

    def _end_early(self, trainer: Trainer, module: TrainingModule) -> None:
        module.read_losses()
        self._meter.stop()
        self._save_last(trainer, module)
        raise Interrupted(self._stop.reason)

    def _save_last(self, trainer: Trainer, module: TrainingModule) -> None:
        before, module.state.seconds = module.state.seconds, module.state.seconds + self._meter.seconds
        trainer.save_checkpoint(self._session.checkpoints / LAST)
        module.state.seconds = before

    def _progress(self, module: TrainingModule) -> Progress:
        return module.state.progress(self._meter.seconds)

    def _say(self, module: TrainingModule) -> None:
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
