"""The choices of the component groups, read from the YAML files on disk."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import yaml

from headtohead.components.mixers import reference
from headtohead.config.instantiate import make

CONF = Path(__file__).parents[2] / "conf" / "model"
GROUPS = ("mixer", "local", "cross", "position", "norm", "residual", "feedforward", "initialisation")


def files(group: str) -> list[Path]:
    return sorted((CONF / group).glob("*.yaml"))


def names(group: str) -> list[str]:
    return [file.stem for file in files(group)]


def target(dotted: str) -> Any:
    """Return the class or function that a `_target_` names."""
    module, _, name = dotted.rpartition(".")
    return getattr(import_module(module), name)


def factory(group: str, name: str, **options: Any) -> partial:
    """Build one YAML file, with options set as on the command line."""
    content = _content(group, name)
    assert content["_partial_"] is True
    unknown = options.keys() - content.keys()
    assert not unknown, f"{group}={name} has no {unknown}"
    made: partial = make({**content, **options})
    return made


@cache
def _content(group: str, name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text())


def slow_twin(mixer: partial) -> partial | None:
    """Return the class Reference<Name> of mixers/reference with the same options, where the mixer has one."""
    counterpart = _twin_of(mixer.func)
    return None if counterpart is None else partial(counterpart, *mixer.args, **mixer.keywords)


@cache
def _twin_of(fast: type) -> type | None:
    twin_name = f"Reference{fast.__name__}"
    for module in iter_modules(reference.__path__):
        counterpart = getattr(import_module(f"{reference.__name__}.{module.name}"), twin_name, None)
        if counterpart is not None and issubclass(counterpart, fast) and counterpart is not fast:
            return counterpart
    return None


def kind_of(choice: partial) -> Any:
    """Return the class that a choice makes, of which laws read what it declares."""
    return choice.func


def can_look(mixer: partial, *, causal: bool) -> bool:
    """Return whether the mixer has a causal, or a bidirectional, form."""
    return kind_of(mixer).can_be_causal if causal else kind_of(mixer).can_be_bidirectional


def agree(mixer: partial, position: partial) -> bool:
    """Return whether the mixer has queries and keys for a position that rotates them, and scores for one that biases
    them."""
    turns = kind_of(mixer).reads_rotation or not kind_of(position).rotates
    return turns and (kind_of(mixer).reads_scores or not kind_of(position).biases_scores)
