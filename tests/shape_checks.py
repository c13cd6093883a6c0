"""The jaxtyping and beartype checks of shapes, which a test can have or go without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jaxtyping
from jaxtyping import config, install_import_hook

_jaxtyped = jaxtyping.jaxtyped


def install(modules: Sequence[str]) -> None:
    """Have the signatures of these modules checked, from now on and until `switch` says otherwise."""
    jaxtyping.jaxtyped = _decorator
    install_import_hook(modules, "shape_hook.checked")


def switch(on: bool) -> None:
    config.update("jaxtyping_disable", not on)


def _decorator(*, typechecker: Any) -> Callable[[Any], Any]:
    """Leave alone what is defined again in every call of an outer function, unless its signature tells shapes and
    checks are on: compiling those checks takes longer than the call, and made a training six times as long."""

    def decorate(function: Any) -> Any:
        if "<locals>" in getattr(function, "__qualname__", ""):
            tells_shapes = any("[Tensor" in str(one) for one in getattr(function, "__annotations__", {}).values())
            if config.jaxtyping_disable or not tells_shapes:
                return function
        return _jaxtyped(function, typechecker=typechecker)

    return decorate
