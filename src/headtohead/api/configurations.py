"""Configurations from Python: composed from overrides, or plain dictionaries; checked, inspected, built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.architectures.architecture import Architecture
from headtohead.config.build import build_model as make_built_model
from headtohead.config.build import build_parts as make_parts
from headtohead.config.build import fitted, make_model
from headtohead.config.compose.choices import choices as choices_of
from headtohead.config.compose.choices import root_fields
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import field_overrides
from headtohead.config.errors import ConfigurationError
from headtohead.diagnostics.inspection import Inspection
from headtohead.diagnostics.inspection import inspect as inspect_model
from headtohead.training.run_components import RunComponents

Configured = Mapping[str, object] | Sequence[str]
"""A configuration, or what makes one of the defaults: overrides, or the fields that differ."""
_CHOICES = "choices"
"""The field that a composed configuration has and fields alone have not."""


@speaks_python
def compose(root: str = "train", overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> dict[str, Any]:
    """Return a configuration, resolved and checked: `compose("train", ["model=decoder_only", "model/size=small"])`.

    `config_dir` is a folder with YAML files of your own, by group. Raises ConfigurationError, a ValueError.
    """
    return compose_checked(root, overrides, config_dir)


@speaks_python
def choices(group: str, config_dir: str | Path | None = None) -> dict[str, str]:
    """Return the choices of a group, each with its line: `choices("model/position")`, `choices("study")`."""
    return {choice.name: choice.description for choice in choices_of(group, config_dir)}


def configuration(config: Configured, root: str = "train", config_dir: str | Path | None = None) -> dict[str, Any]:
    """Return a whole configuration as it is, and the one that overrides, or fields alone, make of the defaults."""
    if not isinstance(config, Mapping):
        return compose_checked(root, list(config), config_dir)
    missing = root_fields(root) - set(config)
    if missing and _CHOICES not in config:
        return compose_checked(root, field_overrides(config), config_dir)
    if missing:
        raise ConfigurationError(
            f"the configuration has no {', '.join(sorted(missing))}: begin with h2h.compose({root!r}, [...]), which "
            "gives a whole one, or give only the fields that differ from the defaults"
        )
    return dict(config)


@speaks_python
def build_model(config: Configured = (), *, device: str | None = None) -> Architecture:
    """Return a plain module, `model(tokens) -> logits`; `device="meta"` makes it without memory.

    What the configuration leaves null (vocabulary, lengths, classes, image shape) is taken from the data.
    """
    return make_built_model(configuration(config), device=device)


@speaks_python
def build_parts(config: Configured = ()) -> RunComponents:
    """Return all that training is handed: the model's maker, task, data, optimizer ...; nothing of it is trained."""
    return make_parts(configuration(config))


class InspectedModel(Result, Inspection):
    """The ledger of a model, a row for each part."""

    @property
    def title(self) -> str:
        totals = self.ledger.totals
        return (
            f"{self.family}: {totals.parameters:,} parameters, {totals.training_flops_per_token:,.0f} FLOPs to train "
            f"on a token, rows of {self.ledger.tokens} tokens"
        )

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        rows: list[dict[str, object]] = self.ledger.to_dict()["rows"]
        return rows


@speaks_python
def inspect(config: Configured = ()) -> InspectedModel:
    """Return the ledger and the shapes at every stage, without training and without memory for the weights."""
    filled, size = fitted(configuration(config))
    return upgraded(InspectedModel, inspect_model(make_model(filled, "meta"), size))
