"""Head to Head: settle questions about neural-network architectures.

import headtohead as h2h
config = h2h.compose("train", ["model=decoder_only", "model/size=small"])
record = h2h.train(config)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headtohead.lazy_packages import install

if TYPE_CHECKING:
    from headtohead.api import build_model, build_parts, compare, compose, evaluate, inspect, load_run, train

install()

__all__ = ["build_model", "build_parts", "compare", "compose", "evaluate", "inspect", "load_run", "train"]


def __getattr__(name: str) -> Any:
    """The public names are imported when they are first used: torch and Lightning cost seconds."""
    if name in __all__:
        return getattr(import_module("headtohead.api"), name)
    raise AttributeError(f"module 'headtohead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
