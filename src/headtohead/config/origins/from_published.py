"""A configuration that starts from a published checkpoint: its config.json makes the choices of the model."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtohead.architectures.head_names import published_head
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.run_config import RunConfig
from headtohead.config.schema.source_code import class_value
from headtohead.config.trust import check_given_values
from headtohead.pretrained.checkpoint_reference import PREFIX, missing_folder

if TYPE_CHECKING:
    from headtohead.pretrained.weight_conversion import ReadReport

Compose = Callable[[Sequence[str]], dict[str, Any]]
_MAY_DIFFER = (
    "model.dropout", "model.drop_path", "model.num_classes", "model.pooling", "model.pooler", "model.initialisation",
)  # fmt: skip
"""The fields that weights do not depend on and no file says, and those of a head."""
_OF_EXPERTS = re.compile(r"model\.(?:early_)?feedforwards?\.(?:\w+\.)?(?:balance|bias_rate|capacity)")
"""Those of experts, in any layers."""
_log = logging.getLogger(__name__)


def starts_published(config: Mapping[str, object]) -> bool:
    """Return whether a run that is not resumed starts from a published checkpoint."""
    return str(config.get("init_from") or "").startswith(PREFIX) and not config.get("resume_from")


def with_its_choices(composed: Mapping[str, Any], overrides: Sequence[str], compose: Compose) -> dict[str, Any]:
    """Composed again, what the checkpoint says before what the user says; refuses where the two contradict each other.

    The checkpoint is written down by its commit, so that the run can be made again.
    """
    if (sentence := missing_folder(origin := composed["init_from"])) is not None:
        raise ConfigurationError(sentence)
    from headtohead.pretrained.families import differences, model_overrides
    from headtohead.pretrained.hub_checkpoint import open_checkpoint
    from headtohead.pretrained.safetensor_files import CheckpointError

    head = published_head(class_value(RunConfig(composed).task_target, "head"))
    try:
        checkpoint = open_checkpoint(origin)
        overrides_of_model = model_overrides(checkpoint, head)
        check_given_values(dict(one.split("=", 1) for one in overrides_of_model), f"the config.json of {origin}")
        by_design = differences(checkpoint, head)
    except CheckpointError as error:
        raise ConfigurationError(str(error)) from None
    if size := next((override for override in overrides if override.startswith("model/size=")), None):
        raise ConfigurationError(f"{size} contradicts init_from={origin}, whose weights have their size: remove it")
    config, alone = compose([*overrides_of_model, *overrides]), compose(overrides_of_model)
    _check(alone["model"], config["model"], origin)
    for difference in by_design:
        _log.warning("init_from=%s: %s", origin, difference)
    choices = {**config["choices"], "model/size": None}
    return {
        **config,
        "init_from": checkpoint.pinned,
        "choices": choices,
        "name": config["name"] or _name(config, origin),
    }


def read_of(config: Mapping[str, Any]) -> ReadReport | None:
    """Return what is read of the checkpoint that a run starts from; None where it starts from none."""
    from headtohead.pretrained.hub_checkpoint import open_checkpoint
    from headtohead.pretrained.safetensor_files import CheckpointError
    from headtohead.pretrained.weight_conversion import read_report

    if not starts_published(config):
        return None
    try:
        head = published_head(class_value(RunConfig(config).task_target, "head"))
        return read_report(open_checkpoint(config["init_from"]), head)
    except CheckpointError as error:
        raise ConfigurationError(str(error)) from None


def _name(config: Mapping[str, Any], origin: str) -> str:
    """Name the checkpoint and what is done with it."""
    called = origin.removeprefix(PREFIX).partition("@")[0].rstrip("/").rpartition("/")[2]
    return f"{called}-{config['choices']['task']}-{config['choices']['data']}-s{config['seed']}"


def _check(there: Mapping[str, object], here: Mapping[str, object], origin: str) -> None:
    if there["_target_"] != here["_target_"]:
        raise ConfigurationError(
            f"model={_named(here)} contradicts init_from={origin}, whose weights are those of a {_named(there)}: "
            "remove it"
        )
    if _turns(there) and _turns(here):  # other angles need no other weights: this is how contexts are made longer
        for path, was, now in _differences(there["position"], here["position"], "model.position"):
            _log.warning("init_from=%s: %s=%s differs from %s there", origin, path, show(now), show(was))
        there, here = ({**node, "position": None} for node in (there, here))
    for path, was, now in _differences(there, here, "model"):
        shorter = path == "model.max_length" and was and now and now < was
        is_free = path in _MAY_DIFFER or path.startswith("model.initialisation.") or _OF_EXPERTS.fullmatch(path)
        if not is_free and not shorter:
            raise ConfigurationError(
                f"{path}={show(now)} contradicts init_from={origin}, whose weights were trained with {show(was)}: "
                "remove it"
            )


def _differences(there: Any, here: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in [*there, *(key for key in here if key not in there)]:
            yield from _differences(there.get(key), here.get(key), f"{path}.{key}")
    elif there != here:
        yield path, there, here


def _turns(model: Mapping[str, Any]) -> bool:
    target = (model.get("position") or {}).get("_target_", "")
    return bool(target and class_value(target, "rotates"))


def _named(node: Mapping[str, Any]) -> str:
    return str(class_value(node["_target_"], "family") or node["_target_"].rpartition(".")[2])
