"""The choices of the component groups, read from the YAML files on disk."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

CONF = Path(__file__).parents[2] / "conf" / "model"
GROUPS = ("mixer", "cross", "position", "norm", "residual", "feedforward", "initialisation")


def files(group: str) -> list[Path]:
    return sorted((CONF / group).glob("*.yaml"))


def names(group: str) -> list[str]:
    return [file.stem for file in files(group)]


def target(dotted: str) -> Any:
    """The class or function that a `_target_` names."""
    module, _, name = dotted.rpartition(".")
    return getattr(import_module(module), name)


def factory(group: str, name: str, **options: Any) -> partial:
    """What building makes of one YAML file, with options set as on the command line."""
    content = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    constructor = target(content.pop("_target_"))
    assert content.pop("_partial_") is True
    unknown = options.keys() - content.keys()
    assert not unknown, f"{group}={name} has no {unknown}"
    return partial(constructor, **{**content, **options})


def slow_twin(mixer: partial) -> partial:
    """The class of the same name and options in mixers/reference."""
    fast = mixer.func
    twin = target(f"{fast.__module__.replace('.mixers.', '.mixers.reference.')}.{fast.__qualname__}")
    return partial(twin, *mixer.args, **mixer.keywords)
