"""The choices of the component groups, read from the YAML files on disk."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

CONF = Path(__file__).parents[2] / "conf" / "model"
GROUPS = ("mixer", "local", "cross", "position", "norm", "residual", "feedforward", "initialisation")


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
    content = dict(_content(group, name))
    constructor = target(content.pop("_target_"))
    assert content.pop("_partial_") is True
    unknown = options.keys() - content.keys()
    assert not unknown, f"{group}={name} has no {unknown}"
    return partial(constructor, **{**content, **options})


@cache
def _content(group: str, name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text())


def slow_twin(mixer: partial) -> partial | None:
    """The class of the same name and options in mixers/reference, where the mixer has one."""
    twin = _twin_of(mixer.func)
    return None if twin is None else partial(twin, *mixer.args, **mixer.keywords)


@cache
def _twin_of(fast: type) -> type | None:
    module = fast.__module__.replace(".mixers.", ".mixers.reference.")
    return None if find_spec(module) is None else target(f"{module}.{fast.__qualname__}")


def can_look(mixer: partial, *, causal: bool) -> bool:
    """Whether the mixer has a causal, or a bidirectional, form."""
    return mixer.func.can_be_causal if causal else mixer.func.can_be_bidirectional


def agree(mixer: partial, position: partial) -> bool:
    """A position that turns queries and keys, or biases scores, needs a mixer that has them."""
    turns = mixer.func.reads_rotation or not position.func.rotates
    return turns and (mixer.func.reads_scores or not position.func.biases_scores)
