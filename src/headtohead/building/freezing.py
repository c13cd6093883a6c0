"""What finetuning cannot freeze of a model, refused before the model is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headtohead.building.view import View


def rules() -> tuple[Callable[[View], Iterator[str]], ...]:
    return (_layers, _nothing_left, _statistics)


def _layers(view: View) -> Iterator[str]:
    freeze, layers = _freeze(view), _num_layers(view)
    if isinstance(freeze, int) and layers is not None and not 0 < freeze <= layers:
        number = {0: "", 1: "1, "}.get(layers, f"a number from 1 to {layers}, ")
        yield (
            f"finetuning.freeze={freeze} freezes layers, and {view.chosen('model')} has {layers} of them to freeze: "
            f"give {number}nothing, embedding or body"
        )


def _nothing_left(view: View) -> Iterator[str]:
    """A head that is the embedding's table, without a bias, has no weights of its own."""
    freeze = _freeze(view)
    is_all = freeze == "body" or (isinstance(freeze, int) and freeze == _num_layers(view))
    is_table = view.task_value("head") == "language_model" and view.model.get("tie_weights")
    if is_all and is_table and not view.model.get("head_bias"):
        yield (
            f"finetuning.freeze={freeze} leaves nothing to train, since model.tie_weights=true makes the head of "
            "the frozen embedding: set model.tie_weights=false, or freeze less"
        )


def _statistics(view: View) -> Iterator[str]:
    """Of networks without a stack, all norms are frozen or none; a stack says it once it is built."""
    freeze = _freeze(view)
    for side in view.sides():
        if freeze != "nothing" and _num_layers(view) == 0 and side.can("norm", "keeps_statistics"):
            yield (
                f"finetuning.freeze={freeze} cannot hold {view.chosen_of(side, 'norm')} still, whose statistics go on "
                "following the data: use another norm, or finetuning.freeze=nothing"
            )


def _freeze(view: View) -> str | int:
    """Configurations written before there was a choice freeze nothing."""
    freeze: str | int = (view.config.get("finetuning") or {}).get("freeze", "nothing")
    return freeze


def _num_layers(view: View) -> int | None:
    """The layers of all stacks; None of a module of somebody else's, and where the depth is not said."""
    if view.model_value("family") in (None, "external"):
        return None
    depths = {side.path: view.depth(side) for side in view.sides() if "mixer" in side.nodes}
    known = [depth for depth in depths.values() if depth is not None]
    return sum(known) if len(known) == len(depths) else None
