"""One run, from its parts to its record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from pytorch_lightning import Trainer

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.bag_of_words import BagOfWords
from headtohead.components.fast_kernels import kernels_in_use
from headtohead.files.atomic_write import write_each
from headtohead.files.disk_operations import OutOfDisk
from headtohead.files.leases import LeaseLostError
from headtohead.records.leaks import leak_sentence
from headtohead.records.left_out import left_out_sentence
from headtohead.records.metrics_file import TEST
from headtohead.records.record import RunRecord, Status
from headtohead.records.row_sums import write_rows
from headtohead.training.callbacks.attention_logger import AttentionLogger
from headtohead.training.callbacks.checkpointer import Checkpointer
from headtohead.training.callbacks.longer_tests import LongerTests, as_longer_stage
from headtohead.training.callbacks.sample_logger import SampleLogger
from headtohead.training.callbacks.step_logger import StepLogger
from headtohead.training.checkpoints import BEST, LAST, drop, is_complete, load
from headtohead.training.checks import check_model, check_settings, check_start
from headtohead.training.energy_counters import EnergyCounter, NoCounter, counter_of
from headtohead.training.initial_weights import start_from
from headtohead.training.loop.compiled_model import CompilingReport
from headtohead.training.loop.data_module import RunData, training_rows, validation_rows
from headtohead.training.loop.precision import Precision
from headtohead.training.loop.run_state import RunState
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.loop.training_module import TrainingModule
from headtohead.training.memory import PeakMemory
from headtohead.training.parallel.device_sheets import peak_flops
from headtohead.training.parallel.devices import device_name, number_format, threads
from headtohead.training.parallel.process_group import (
    is_main_process,
    join_process_group,
    lost_process,
    own_process_group,
)
from headtohead.training.run_components import RunComponents
from headtohead.training.run_outcome import StopRequest, outcome_of
from headtohead.training.run_recorder import RunRecorder, folder_of
from headtohead.training.sklearn_fit import fit_with_sklearn
from headtohead.training.trainer import device_of, make_trainer, quiet_lightning

WARM_UP_STEPS = 10
"""The first steps fill caches and compile kernels: throughput is measured after them."""
PREDICTIONS = "predictions"
"""The folder of a run for its answers to each sample of the test."""
_log = logging.getLogger(__name__)


def train(parts: RunComponents) -> RunRecord:
    """Train, select on validation, test once; returns the record, which is on disk too.

    A run that diverges, runs out of memory or is stopped returns as well: its record's status says so. Any other error
    is recorded as `failed` and raised again.
    """
    check_settings(parts)
    join_process_group(parts.settings)
    parts.data.prepare()
    parts.augmentation.prepare()
    check_start(parts)
    if is_main_process() and (leak := leak_sentence(parts.data.leaks())):
        _log.warning("data: %s", leak)
    if is_main_process() and (left_out := left_out_sentence(parts.data.left_out())):
        _log.warning("data: %s", left_out)
    stop = StopRequest()
    with quiet_lightning(), own_process_group(), stop.listening(), threads(parts.settings.threads):
        run = Run(parts, stop)
        try:
            run.fit()
            run.test()
        except LeaseLostError:
            raise  # the record is another process's to write
        except BaseException as error:
            status, reason = outcome_of(error, parts)
            run.close(status, reason)
            if status == "failed" or isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            if is_main_process() or lost_process(error):
                _log.error("%s: %s", status, reason)
        else:
            run.close("finished", None)
        finally:
            run.session.release()
    return run.session.record


class Run:
    """The steps of `train`, and what they hand on to each other."""

    def __init__(self, parts: RunComponents, stop: StopRequest) -> None:
        self.parts, self._stop = parts, stop
        self._device = device_of(parts.settings)
        self._precision = _possible(parts.precision, self._device)
        self.session = session = RunRecorder.open(parts, self._device, self._precision.name)
        self._meter = ThroughputMeter(warm_up=WARM_UP_STEPS, counter=self._energy_counter())
        self._reporter = StepLogger(session, self._meter, PeakMemory(self._device), peak_flops=self._peak_flops())
        self._module: TrainingModule | None = None
        self._data: RunData | None = None
        self._trainer: Trainer | None = None

    def fit(self) -> None:
        """Train to the last step, from the first or from where the run was interrupted; of no steps at all, the weights
        are judged as they start."""
        parts = self.parts
        checkpoint = self._checkpoint_to_resume()
        self._module = module = self._make_module(starts=checkpoint is None)
        if checkpoint is not None:
            module.state = self._state_in(checkpoint)
        self._meter.expect(parts.settings.max_steps - module.state.step)
        attention_loggers = self._attention_loggers()
        self._data = data = RunData(
            parts.data,
            parts.task,
            parts.settings,
            seed=self.session.record.seeds.data_order,
            current_step=lambda: module.state.step,
            augmentation=parts.augmentation,
        )
        self._trainer = trainer = make_trainer(
            parts.settings,
            self._precision,
            logger=self.session.logger,
            callbacks=[
                self._reporter,
                *([CompilingReport()] if parts.settings.compile else []),
                *attention_loggers,
                SampleLogger(self.session, self._meter, parts.data),  # before the keeper takes averaged weights back
                Checkpointer(self.session, self._meter, self._stop, self._reporter, attention_loggers),
            ],
            folder=self.session.folder,
        )
        if not module.model.trained_by_steps:
            self._solve(module)
        if parts.settings.max_steps == 0 or not module.model.trained_by_steps:
            trainer.validate(module, datamodule=data, verbose=False)
        elif not module.state.is_done(parts.settings):
            with self._stop.gentle(module.ask_to_stop):
                trainer.fit(module, datamodule=data, ckpt_path=checkpoint)

    def _solve(self, module: TrainingModule) -> None:
        """All rows are read once, whatever trainer.max_steps says; the strength is chosen by the rows of validation by
        which networks are selected."""
        task = self.parts.task
        self._meter.start()
        rows = training_rows(self.parts.data, self.parts.settings, self.session.record.seeds.data_order)
        checked = validation_rows(self.parts.data, self.parts.settings)
        assert isinstance(module.model, BagOfWords), "of the models that take no steps this one can be solved"
        solved = fit_with_sklearn(module.model, rows, checked, monitor=task.monitor, direction=task.direction)
        module.state.samples, module.state.tokens = solved.samples, solved.tokens
        self._meter.stop()

    def _attention_loggers(self) -> list[AttentionLogger]:
        """Return one, or none where none is requested."""
        parts = self.parts
        is_on = parts.probe.is_on
        return [AttentionLogger(self.session, self._meter, parts.probe, parts.data, parts.task)] if is_on else []

    def test(self) -> None:
        """Once, with the weights that validation selected."""
        assert self._trainer is not None and self._module is not None
        baselines = self.session.record.baselines
        baselines |= as_longer_stage("validation", self.parts.task.measured_baseline("validation"))
        self.parts.task.use_selected(self._module.state.best_metrics)
        with self.parts.task.rows.collecting() as rows:
            self._trainer.test(self._module, datamodule=self._data, verbose=False)
            columns = rows.columns()
        results = self._module.results
        self.session.record.metrics["test"] = dict(results)
        baselines |= self.parts.task.measured_baseline("test")
        self._log({"test": results})
        if is_main_process():
            write_each(self.parts.task.files("test"), self.session.folder / PREDICTIONS)
            write_rows(self.session.folder, TEST, columns, self.parts.task.row_ratios)
        tests = LongerTests(self.parts, self._trainer, self._module, self.session.folder)
        longer, cannot = tests.measure()
        baselines |= tests.baselines
        self.session.record.metrics |= longer
        self.session.record.cannot |= cannot
        self._log(longer)

    def _log(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Log the results by stage."""
        assert self._module is not None
        progress = self._module.state.progress(self._meter.seconds)
        values = {f"{stage}/{name}": value for stage, metrics in results.items() for name, value in metrics.items()}
        if values:
            self.session.logger.write(progress, values)

    def close(self, status: Status, reason: str | None) -> None:
        """Complete the record, whatever happened."""
        session = self.session
        session.take_throughput(self._reporter.throughput())
        if self._module is not None:
            session.take(self._module.state, self._meter.seconds)
            session.take_energy(self._module.state.energy(self._meter))
        try:
            session.end(status, reason)
        except OutOfDisk as full:
            _log.error("%s; the record of this run still says that it is running", full.sentence("resume the run"))
            session.record.status, session.record.reason = outcome_of(full, self.parts)
        if session.record.status == "finished":
            drop(session.checkpoints, keep=self.parts.settings.keep_checkpoints)
        session.detach()

    def _make_module(self, *, starts: bool) -> TrainingModule:
        """Build the module with the weights it starts from; a resumed run gets its weights with its checkpoint."""
        parts, seeds = self.parts, seeds_of(self.parts.identity.seed)
        torch.manual_seed(seeds.initialisation)
        model = parts.make_model().to(dtype=self._precision.of_weights)  # before any weights are loaded into it
        check_model(model, parts.settings, self._precision)
        self.session.record.environment.device["kernels"] = kernels_in_use(model, self._device, self._precision.dtype)
        if starts and (run := parts.identity.init_from) is not None:
            start = start_from(model, run, class_names=parts.data.spec().class_names)
            if is_main_process():
                _log.info("init_from=%s: %s", run, start)
        if (frozen := _num_frozen(model)) and is_main_process():
            _log.info("finetuning.freeze=%s: %d weights are frozen", parts.finetuning.freeze, frozen)
        return TrainingModule(parts, model, dropout_seed=seeds.dropout)

    def _checkpoint_to_resume(self) -> Path | None:
        run = self.parts.identity.resume_from
        if run is None:
            return None
        path = folder_of(run) / "checkpoints" / LAST
        if path.exists():
            return path
        _log.info("%s was stopped before its first checkpoint: it restarts at step 0", run)
        return None

    def _state_in(self, checkpoint: Path) -> RunState:
        """Return the saved state; if the selected checkpoint is damaged, later validations select another."""
        state, best = RunState.saved(load(checkpoint)["run"]), checkpoint.with_name(BEST)
        if state.best_step is None or state.step >= self.parts.settings.max_steps or is_complete(best):
            return state
        _log.warning(
            "%s of step %d is damaged or missing: later validations will select another", best, state.best_step
        )
        return replace(state, best_step=None, best_value=None, best_metrics={})

    def _energy_counter(self) -> EnergyCounter:
        """One process reads the counters of all devices of its machine."""
        settings = self.parts.settings
        if not is_main_process():
            return NoCounter("the first process reads the counters")
        return counter_of(self._device, count=settings.devices, num_nodes=settings.num_nodes)

    def _peak_flops(self) -> float | None:
        """Return the peak rate of all devices together in the number format in use; None where no data sheet tells,
        as of every processor, and only of other devices is that news."""
        name, format_ = device_name(self._device), number_format(self._precision.name)
        peak = peak_flops(name, format_)
        if peak is None and self._device.type != "cpu":
            _log.info("no peak rate is known for %s in %s: utilisation (MFU) is not reported", name, format_)
        return None if peak is None else peak * self.parts.settings.devices * self.parts.settings.num_nodes


def _num_frozen(model: Architecture) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)


def _possible(precision: Precision, device: torch.device) -> Precision:
    possible = precision.on(device.type)
    if possible != precision:
        _log.warning("precision=%s needs a GPU: this run uses %s, as its record says", precision.name, possible.name)
    return possible
