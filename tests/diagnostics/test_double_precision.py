"""Weights of 64 bits pass every door through which a finished run is used without losing one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import headtohead as h2h
from fresh_runs import ROWS, SMALL, fresh_run
from headtohead.architectures.architecture import Architecture
from headtohead.config.build import make_model
from headtohead.config.origins.from_weights import build_data
from headtohead.config.run_translator import RunTranslator
from headtohead.finished_runs.embedding.embedder import Embedder
from headtohead.finished_runs.evaluation import evaluate as evaluation
from headtohead.finished_runs.export_run import export
from headtohead.finished_runs.generators import AutoregressiveGenerator
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.finished_runs.probe import attention_probe
from headtohead.training.checkpoints import load_best

WIDE = [*ROWS, "precision=64-true", "data.tokenizer=char", "trainer.accelerator=cpu"]
WRITES = ["data.context_length=16"]
TRANSLATES = ["model=encoder_decoder", "task=seq2seq", "data=number_words"]
Weights = Mapping[str, Tensor]


def of_model(model: Architecture) -> Weights:
    return model.state_dict()


def evaluated(run: LoadedRun) -> Weights:
    """Those of the model that `h2h evaluate` measures."""
    seen: list[Architecture] = []
    make = evaluation.EvaluationPass._model

    def watched(one: evaluation.EvaluationPass) -> Architecture:
        seen.append(make(one))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation.EvaluationPass, "_model", watched)
        result = h2h.evaluate(run.folder)
    assert result.precision == "64-true"
    return of_model(seen[0])


def translator(run: LoadedRun) -> Weights:
    taken = RunTranslator(str(run.folder), "run", 1, build_data=build_data, make_model=make_model)
    return of_model(taken.model)  # type: ignore[arg-type]


def trained(folder: Path, *overrides: str) -> LoadedRun:
    quiet = ["tracking=none", "probe=none", "trainer.progress_bar=false", "trainer.num_samples=0"]
    config = h2h.compose("train", [*WIDE, *WRITES, *SMALL, *quiet, f"output_dir={folder}", *overrides])
    record = h2h.train(config)
    assert record.path is not None
    return h2h.load_run(record.path)


def started(run: LoadedRun) -> Weights:
    """Those of a run that starts from it and takes no step."""
    return load_best(trained(run.folder.parent, f"init_from={run.folder}", "trainer.max_steps=0").folder)["model"]


def probed(run: LoadedRun) -> Weights:
    """Those of the model whose attention is looked at."""
    with patch.object(attention_probe, "all_maps", side_effect=attention_probe.all_maps) as looked:
        run.attention("one two")
    return of_model(looked.call_args_list[0].args[0])


DOORS: dict[str, tuple[list[str], Callable[[LoadedRun], Weights]]] = {
    "load_run": (WRITES, lambda run: of_model(run.model)),
    "generate": (WRITES, lambda run: of_model(AutoregressiveGenerator(run).model)),
    "evaluate": (WRITES, evaluated),
    "embed": (WRITES, lambda run: of_model(Embedder(run).model)),
    "back_translation": (TRANSLATES, translator),
    "probe": (WRITES, probed),
    "export": (WRITES, lambda run: load_file(export(run, "safetensors").files[0])),
    "init_from": (WRITES, started),
}


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_weights_are_those_of_the_checkpoint_to_the_last_bit(door: str, tmp_path: Path) -> None:
    overrides, used = DOORS[door]
    is_new = overrides != WRITES
    run = fresh_run(tmp_path, *WIDE, *overrides) if is_new else trained(tmp_path, "trainer.max_steps=1")
    expected, result = load_best(run.folder)["model"], used(run)
    rounded = {name: held.float().double() for name, held in expected.items() if held.dtype == torch.float64}
    assert any(not torch.equal(held, expected[name]) for name, held in rounded.items()), "32 bits would not do"
    assert result.keys() <= expected.keys() and len(result) > 4
    for name, held in result.items():
        assert held.dtype == expected[name].dtype and torch.equal(held, expected[name]), name


LOADERS = {
    "training/checkpoints.py": "the owner",
    "training/parallel/sharding.py": "into a model in the run's own format, whole or in parts",
    "training/trainer.py": "of optimizers",
    "diagnostics/laws/equivalence_laws.py": "from a model in memory",
    "diagnostics/peers/layer_peers.py": "from a layer in memory into one of another package",
    "finished_runs/export_run.py": "into a copy of the exported model",
}
"""The functions that may load a state by themselves, and why no bit is lost there."""


def test_nobody_else_loads_weights() -> None:
    """A new door must go through `put_weights`."""
    package = Path(h2h.__file__).parent
    result = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if ".load_state_dict(" in file.read_text(encoding="utf-8")
    }
    assert result == set(LOADERS)
