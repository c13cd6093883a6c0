"""A size speaks to every model: what of it a model has no use for (heads of a perceptron) is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.building.sources import arguments

GROUP = "model/size"


def without_unasked(
    config: Mapping[str, Any], chosen: Mapping[str, str | None], folders: Sequence[Path]
) -> dict[str, Any]:
    """The configuration without those fields of the chosen size that the model's constructor does not take; a field
    that was set to something else by hand stays, to be refused."""
    size, model = chosen.get(GROUP), config.get("model")
    if size is None or not isinstance(model, Mapping) or (taken := arguments(str(model.get("_target_")))) is None:
        return dict(config)
    names = {item.name for item in taken}
    said = said_by(size, folders)
    kept = {key: value for key, value in model.items() if key in names or said.get(key, ...) != value}
    return {**config, "model": kept}


def said_by(size: str, folders: Sequence[Path]) -> dict[str, Any]:
    """The fields of a model that a size names, and their values."""
    from omegaconf import OmegaConf

    path = next(path for folder in folders if (path := folder / GROUP / f"{size}.yaml").is_file())
    said = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    assert isinstance(said, dict), "a size names fields of a model"
    return {str(key): value for key, value in said.items()}
