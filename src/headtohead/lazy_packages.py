"""Packages whose own code runs when something of it is needed: their modules are imported without it before.

`import torchmetrics` imports scipy.signal, matplotlib and transformers for measures that most runs never take, and
torch imports its compiler to tell it what not to compile. Nothing is lost: a package of which more is requested runs
its own code then, as if it had just been imported."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Standin = Callable[[ModuleType], object]
"""The object that stands for a name of a module whose code has not run."""


@dataclass(frozen=True)
class LazyPackage:
    """A lazy package says what is available of a module before its own code runs."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The names that lie in each of its modules."""
    modules: frozenset[str] = frozenset()
    """Further modules of it that do not rest on its code."""
    standins: Mapping[str, Standin] = field(default_factory=dict)
    """The names that it defines itself, and others import without using them."""


def _function(name: str) -> Standin:
    """Stand for a function: each call runs the code first, if it has not run."""

    def standin(module: ModuleType) -> object:
        def call(*arguments: object, **keywords: object) -> object:
            run(module)
            return getattr(module, name)(*arguments, **keywords)

        return call

    return standin


def _annotation(module: ModuleType) -> object:
    del module
    return Any


def _logger(module: ModuleType) -> object:
    return logging.getLogger(module.__name__)


def _nothing_to_disable(module: ModuleType) -> object:
    """Stand for the compiler's `disable`: as long as its code has not run, nothing is compiled."""

    def disable(function: Callable[..., object], *arguments: object, **keywords: object) -> Callable[..., object]:
        disabled: list[Callable[..., object]] = []

        def call(*inputs: object, **named: object) -> object:
            if isinstance(module, _UnrunModule):
                return function(*inputs, **named)
            if not disabled:
                disabled.append(module.disable(function, *arguments, **keywords))
            return disabled[0](*inputs, **named)

        return call

    return disable


def _no_graph_to_break(module: ModuleType) -> object:
    """Stand for the compiler's `graph_break`, which does nothing outside of what is compiled."""
    del module

    def graph_break(msg: str = "") -> None:
        del msg

    return graph_break


def _class(name: str) -> Standin:
    """Stand for a class of which there are no instances before the code has run."""

    def standin(module: ModuleType) -> object:
        class StandinType(type):
            def __instancecheck__(cls, instance: object) -> bool:
                return not isinstance(module, _UnrunModule) and isinstance(instance, getattr(module, name))

        return StandinType(name, (), {"__module__": module.__name__})

    return standin


LAZY_PACKAGES: Mapping[str, LazyPackage] = {
    "torch._dynamo": LazyPackage(
        standins={
            "disable": _nothing_to_disable,
            "graph_break": _no_graph_to_break,
            "OptimizedModule": _class("OptimizedModule"),
        }
    ),
    "torch._inductor": LazyPackage(modules=frozenset({"config", "custom_graph_pass"})),
    "torchmetrics": LazyPackage(
        {"Metric": "metric", "MetricCollection": "collections", "__version__": "__about__"},
        frozenset({"classification", "functional", "text", "utilities"}),
        {"_logger": _logger},
    ),
    "torchmetrics.classification": LazyPackage({"MulticlassConfusionMatrix": "confusion_matrix"}, frozenset({"base"})),
    "torchmetrics.functional": LazyPackage(modules=frozenset({"classification", "text"})),
    "torchmetrics.functional.classification": LazyPackage(modules=frozenset({"confusion_matrix", "stat_scores"})),
    "torchmetrics.functional.text": LazyPackage({"rouge_score": "rouge"}, frozenset({"bleu", "helper", "sacre_bleu"})),
    "torchmetrics.text": LazyPackage({"SacreBLEUScore": "sacre_bleu"}, frozenset({"bleu"})),
    "torchmetrics.utilities": LazyPackage(
        {"rank_zero_warn": "prints"},
        frozenset({"checks", "compute", "data", "distributed", "enums", "exceptions", "imports", "plot"}),
    ),
    "torchmetrics.utilities.plot": LazyPackage(
        standins={
            **dict.fromkeys(("_AX_TYPE", "_CMAP_TYPE", "_PLOT_OUT_TYPE"), _annotation),
            **{name: _function(name) for name in ("plot_confusion_matrix", "plot_curve", "plot_single_or_multi_val")},
        }
    ),
    "wandb.sdk.launch": LazyPackage(modules=frozenset({"errors", "inputs"})),
}


class _UnrunModule(ModuleType):
    """A module whose code has not run."""

    def __getattr__(self, name: str) -> object:
        known = LAZY_PACKAGES[self.__name__]
        if name in known.names:
            return getattr(importlib.import_module(f"{self.__name__}.{known.names[name]}"), name)
        if name in known.standins:
            return known.standins[name](self)
        if name.startswith("__") and name != "__all__":  # Python looks for such in every module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        run(self)
        return getattr(self, name)

    def __dir__(self) -> Sequence[str]:
        run(self)
        return dir(self)


def has_run(name: str) -> bool:
    """Return whether a module was imported and is not one whose code was left for later."""
    return name in sys.modules and not isinstance(sys.modules[name], _UnrunModule)


def run(module: ModuleType) -> None:
    """Run the code of a module, if it has not run."""
    if isinstance(module, _UnrunModule):
        object.__setattr__(module, "__class__", ModuleType)
        spec = module.__spec__
        assert spec is not None and isinstance(spec.loader, _LazyLoader), "the finder here has made it"
        spec.loader.run(module)


class _LazyLoader(Loader):
    """Makes the module, and leaves its code for later."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # its source and its files are read through the real one

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _UnrunModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the code for later."""

    def run(self, module: ModuleType) -> None:
        self._loader.exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the packages above, and runs one of them before a module that rests on its code is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        package, _, name = fullname.rpartition(".")
        held = sys.modules.get(package)
        if isinstance(held, _UnrunModule):
            known = LAZY_PACKAGES[package]
            if name not in known.modules and name not in known.names.values():
                run(held)
        if fullname not in LAZY_PACKAGES or fullname in sys.modules:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


def install() -> None:
    """Hold back the packages above where they have not been imported yet."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
