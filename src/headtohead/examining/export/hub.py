"""A finished run in the hub's on-disk format, checked by reading the folder as any published checkpoint is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.heads import name_of
from headtohead.building.build import make_model
from headtohead.building.errors import ConfigurationError
from headtohead.building.publishing import write_hub
from headtohead.examining.export.checking import Runs
from headtohead.pretrained.checkpoint import open_checkpoint
from headtohead.pretrained.family import InexpressibleError
from headtohead.pretrained.taking import take
from headtohead.tracking.store import RunFolder
from headtohead.training.checkpoints import load_best, put_weights

if TYPE_CHECKING:
    from headtohead.examining.finished import FinishedRun

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""What may stand beside the weights."""


def to_hub(run: FinishedRun, model: Architecture, folder: Path) -> tuple[Path, Runs]:
    """The file with the weights, and a model of fresh weights that took those of the folder."""
    tokenizer = RunFolder.open(run.folder).read_tokenizer()
    class_names = load_best(run.folder).get("class_names", ())
    try:
        write_hub(model, run.config, folder, tokenizer=tokenizer, class_names=class_names)
    except InexpressibleError as error:
        raise ConfigurationError(f"--to hub: {error}") from None
    again = make_model(run.config)
    put_weights(take(open_checkpoint(f"hf:{folder}"), name_of(model.head)).weights, again, strict=False)
    again.eval()
    return folder / "model.safetensors", lambda inputs: again(**inputs)
