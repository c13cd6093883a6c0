"""Configurations from Python: composed from overrides, or plain dictionaries; checked, inspected, built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.api.error_translation import python_errors
from headtohead.api.result import Result, upgraded
from headtohead.architectures.architecture import Architecture
from headtohead.config.build import build_model as make_built_model
from headtohead.config.build import build_parts as make_parts
from headtohead.config.build import fitted, make_model
from headtohead.config.compose.choices import STUDY, root_fields
from headtohead.config.compose.choices import choices as choices_of
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import field_overrides
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_run import rerun
from headtohead.config.trust import trusting
from headtohead.diagnostics.inspection import Inspection
from headtohead.diagnostics.inspection import inspect as inspect_model
from headtohead.studies.definition.nearest_study import nearest_studies
from headtohead.training.run_components import RunComponents

Configured = Mapping[str, object] | Sequence[str]
"""A configuration, or what makes one of the defaults: overrides, or the fields that differ."""
_CHOICES = "choices"
"""The field that a composed configuration has and fields alone have not."""


@python_errors
def compose(
    root: str = "train",
    overrides: Sequence[str] = (),
    config_dir: str | Path | None = None,
    *,
    from_run: str | Path | None = None,
    trust: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a configuration, resolved and checked: `compose("train", ["model=decoder_only", "model/size=small"])`.

    `config_dir` is a folder with YAML files of your own, by group. `from_run` names a run, with whose configuration
    the overrides begin in place of the defaults; `trust` is as in `load_run`. Raises ConfigurationError, a ValueError.
    """
    if from_run is not None and root != "train":
        raise ConfigurationError(f"--from-run {from_run} has a configuration of root train: leave out root={root}")
    with trusting(trust):
        return configuration(overrides, root, config_dir, from_run)


@python_errors
def choices(group: str, config_dir: str | Path | None = None, *, find: str | None = None) -> dict[str, str]:
    """Return the choices of a group, each with its line: `choices("model/position")`, `choices("study")`.

    `find` names words, and leaves of studies those nearest to them: `choices("study", find="rotary alibi length")`.
    """
    if find is not None:
        if group != STUDY:
            raise ConfigurationError(f'--find looks among studies: write choices("{STUDY}", find={find!r})')
        return {near.name: near.question for near in nearest_studies(find, config_dir)}
    return {choice.name: choice.description for choice in choices_of(group, config_dir)}


def configuration(
    config: Configured,
    root: str = "train",
    config_dir: str | Path | None = None,
    from_run: str | Path | None = None,
) -> dict[str, Any]:
    """Return a whole configuration as it is, and the one that overrides, or fields alone, make of the defaults, or of
    the configuration of a run where one is named."""
    if isinstance(config, Mapping):
        missing = root_fields(root) - set(config)
        if not missing or _CHOICES in config:
            _check_whole(root, sorted(missing), config_dir, from_run)
            return dict(config)
    overrides = field_overrides(config) if isinstance(config, Mapping) else list(config)
    return compose_checked(root, overrides, config_dir) if from_run is None else rerun(from_run, overrides, config_dir)


def _check_whole(root: str, missing: Sequence[str], config_dir: str | Path | None, from_run: str | Path | None) -> None:
    """Raise ConfigurationError for a configuration that lacks fields, and for what would compose another one."""
    if missing:
        raise ConfigurationError(
            f"the configuration has no {', '.join(missing)}: begin with h2h.compose({root!r}, [...]), which "
            "gives a whole one, or give only the fields that differ from the defaults"
        )
    for option, path in (("--config-dir", config_dir), ("--from-run", from_run)):
        if path is not None:
            raise ConfigurationError(
                f"{option} {path} would have no effect on a whole configuration: give overrides, or leave it out"
            )


@python_errors
def build_model(config: Configured = (), *, device: str | None = None) -> Architecture:
    """Return a plain module, `model(tokens) -> logits`; `device="meta"` makes it without memory.

    What the configuration leaves null (vocabulary, lengths, classes, image shape) is taken from the data.
    """
    return make_built_model(configuration(config), device=device)


@python_errors
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


@python_errors
def inspect(
    config: Configured = (),
    *,
    config_dir: str | Path | None = None,
    from_run: str | Path | None = None,
    trust: Sequence[str] = (),
) -> InspectedModel:
    """Return the ledger and the shapes at every stage, without training and without memory for the weights.

    `config_dir`, `from_run` and `trust` are as in `compose`.
    """
    with trusting(trust):
        filled, size = fitted(configuration(config, "train", config_dir, from_run))
        return upgraded(InspectedModel, inspect_model(make_model(filled, "meta"), size))
