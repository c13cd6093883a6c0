"""Log training every so many steps; the steps between cost only a few additions."""

from __future__ import annotations

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from typing_extensions import override

from headtohead.records.record import Progress
from headtohead.training.callbacks.progress import ProgressLine
from headtohead.training.loop.data_module import StepBatch
from headtohead.training.loop.run_state import joules_now
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.loop.training_module import TrainingModule, as_training_module
from headtohead.training.memory import PeakMemory
from headtohead.training.parallel.process_group import largest
from headtohead.training.run_recorder import RunRecorder


class StepLogger(Callback):
    """Feeds the meter, the logger and the display."""

    def __init__(
        self, session: RunRecorder, meter: ThroughputMeter, memory: PeakMemory, *, peak_flops: float | None
    ) -> None:
        self._logger, self._name = session.logger, session.record.name
        self._meter, self._memory, self._peak_flops = meter, memory, peak_flops
        self._peak_memory = 0
        self._display: ProgressLine | None = None

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = as_training_module(pl_module)
        shows_bar = module.settings.progress_bar and trainer.is_global_zero
        self._display = ProgressLine(
            self._name, start=module.state.step, total=module.settings.max_steps, enabled=shows_bar
        )
        self._meter.start()

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: StepBatch, batch_idx: int
    ) -> None:
        module = as_training_module(pl_module)
        work, step = module.work, module.state.step
        self._meter.add(
            samples=work.samples, tokens=work.tokens, flops=work.flops, padding=work.padding, waited=batch.waited
        )
        if module.settings.logs_at(step):
            self._report(trainer, module)
        elif self._meter.ends_warm_up:
            _wait_for(module.device)
            self._meter.read()
        if self._display is not None and self._display.step(step):
            self._logger.check_lease()

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close(as_training_module(pl_module))

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close(as_training_module(pl_module))

    def _close(self, module: TrainingModule) -> None:
        self._meter.stop()
        if self._display is not None:
            self._display.close(module.state.step)
            self._display = None

    def finish(self, trainer: Trainer, module: TrainingModule) -> None:
        """Log the steps since the last logged one, where a run ends before trainer.max_steps."""
        if module.read_losses():
            module.gradient_norms, module.update_norms = {}, {}  # of a step that was logged
            self._report(trainer, module)

    def throughput(self) -> dict[str, float | None]:
        """Return the throughput of all steps of this start, for the record."""
        rates = self._meter.measured.rates(peak_flops=self._peak_flops)
        return {**rates, "peak_memory_bytes": float(self._peak_memory)}

    def _report(self, trainer: Trainer, module: TrainingModule) -> None:
        losses = module.read_losses()  # and waits for the device, before the clock is read
        rates = self._meter.read().rates(peak_flops=self._peak_flops)
        self._peak_memory = int(largest([self._memory.read()], module.device)[0])
        values = {"train/loss": sum(losses) / len(losses), "train/learning_rate": _learning_rate(trainer)}
        if module.scaler is not None:
            values["train/loss_scale"] = module.scaler.get_scale()
        values |= {f"gradient_norm/{layer}": norm for layer, norm in module.gradient_norms.items()}
        values |= {f"update_norm/{layer}": norm for layer, norm in module.update_norms.items()}
        for name, part in module.with_losses.items():
            values |= {f"experts/{name}/{figure}": value for figure, value in part.take_figures().items()}
        values |= {f"throughput/{name}": rate for name, rate in rates.items() if rate is not None}
        values |= joules_now(module.state, self._meter)
        values["throughput/peak_memory_bytes"] = float(self._peak_memory)
        module.window.clear()
        self._logger.write(self._progress(module), values)
        unit = "tokens" if rates.get("tokens_per_second") else "samples"
        if self._display is not None:
            self._display.update_text(loss=values["train/loss"], rate=rates.get(f"{unit}_per_second"), unit=unit)

    def _progress(self, module: TrainingModule) -> Progress:
        return module.state.progress(self._meter.seconds)


def _learning_rate(trainer: Trainer) -> float:
    """Return the largest, where groups of parameters have rates of their own."""
    return max(float(group["lr"]) for group in trainer.optimizers[0].param_groups)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
