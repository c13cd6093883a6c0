"""Runs that look finished without having been trained: a folder with a record, a configuration and fresh weights."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from headtohead.config.build import fitted, make_model
from headtohead.config.compose.composition import compose_checked
from headtohead.finished_runs.loaded_run import LoadedRun, load_run
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import BEST, save
from headtohead.training.loop.precision import Precision

SMALL = ["model.d_model=16", "model.num_heads=2", "model.num_layers=2"]
ROWS = ["data.num_train=60", "data.num_validation=8", "data.num_test=8"]
_OWN_SIZES = {"model=external", "model=text_cnn"}
"""Models without heads and layers to set."""


def fresh_run(outputs: Path, *overrides: str) -> LoadedRun:
    """Weights are drawn with a spread that attention is not flat."""
    sizes = [] if _OWN_SIZES & set(overrides) else SMALL
    config, _ = fitted(compose_checked("train", [*sizes, *overrides]))
    folder = RunFolder.create(outputs, name="fresh")
    folder.write_record(RunRecord(id=folder.id, name="fresh", status="finished", config=config))
    folder.write_config(yaml.safe_dump(config))
    folder.sign(record=True)
    torch.manual_seed(0)
    model = make_model(config).to(Precision(config["precision"]["name"]).of_weights)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    save({"model": model.state_dict(), "step": 1, "metrics": {}}, folder.path / "checkpoints" / BEST)
    folder.release()
    return load_run(folder.path)
