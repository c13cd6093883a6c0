"""What cannot be combined with models that are no transformers, with the reason and the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headtohead.building.view import View

_WITHOUT_STACK = ("mlp", "cnn", "resnet", "text_cnn", "bag_of_words", "external")


def rules() -> tuple[Callable[[View], Iterator[str]], ...]:
    return (_both_ways, _module, _checkpointing, _drop_path)


def _both_ways(view: View) -> Iterator[str]:
    if view.model_value("family") != "recurrent":
        return
    head, both = view.task_value("head") or "", view.model.get("bidirectional")
    if head == "language_model" and both:
        yield (
            f"{view.chosen('task')} asks for the next token, and model.bidirectional=true lets the model see it: set "
            "model.bidirectional=false, or choose task=masked_lm"
        )
    if head.startswith("masked_language_model") and not both:
        yield (
            f"{view.chosen('task')} asks for tokens inside a text, and model.bidirectional=false lets the model see "
            "only what stands before them: set model.bidirectional=true, or choose task=causal_lm"
        )


def _module(view: View) -> Iterator[str]:
    if view.model_value("family") == "external" and not view.model.get("module"):
        yield (
            "model=external wraps a module of yours, and model.module is null: give model.module._target_="
            "package.Class and its arguments, model.module.width=64"
        )


def _checkpointing(view: View) -> Iterator[str]:
    kind = view.config["checkpointing"].get("kind", "none")
    if kind != "none" and view.model_value("family") in _WITHOUT_STACK:
        yield (
            f"{view.chosen('checkpointing')} makes the blocks of a stack again in the backward pass, and "
            f"{view.chosen('model')} has no such blocks: use checkpointing=none"
        )


def _drop_path(view: View) -> Iterator[str]:
    rate = view.model.get("drop_path")
    for side in view.sides():
        if rate and side.can("residual", "has_stream") is False:
            yield (
                f"model.drop_path={rate} leaves out branches of a residual stream, and "
                f"{view.chosen_of(side, 'residual')} has no stream: set model.drop_path=0, or choose model/residual=pre"
            )
