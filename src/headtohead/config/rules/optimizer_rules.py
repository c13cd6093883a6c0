"""Refuse what cannot be combined with an optimizer, with the reason and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headtohead.config.rules.config_view import ConfigView

_OPTIMIZERS = "headtohead.training.optim.optimizers."
_FALLING = tuple(f"headtohead.training.optim.schedules.{name}" for name in ("linear", "cosine", "noam", "wsd"))


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_schedule, _two_averages, _unit_weights, _spread)


def _is(view: ConfigView, name: str) -> bool:
    return bool(view.config["optimizer"].get("_target_") == _OPTIMIZERS + name)


def _schedule(view: ConfigView) -> Iterator[str]:
    if _is(view, "schedule_free") and view.config["schedule"].get("_target_") in _FALLING:
        yield (
            f"{view.chosen('optimizer')} averages its weights instead of lowering the learning rate, and "
            f"{view.chosen('schedule')} lowers it: choose schedule=constant, with schedule.warmup=0.05 for a warm-up"
        )


def _two_averages(view: ConfigView) -> Iterator[str]:
    decay = view.trainer.get("weight_averaging")
    if _is(view, "schedule_free") and decay is not None:
        yield (
            f"trainer.weight_averaging={decay} would be evaluated in place of the average of "
            f"{view.chosen('optimizer')}: set it to null, or choose optimizer=adamw"
        )


def _unit_weights(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        if _is(view, "schedule_free") and side.nodes.get("residual", {}).get("unit_weights"):
            yield (
                f"{side.paths['residual']}.unit_weights=true keeps vectors at length 1, and the averages of "
                f"{view.chosen('optimizer')} are shorter: choose optimizer=adamw"
            )


def _spread(view: ConfigView) -> Iterator[str]:
    if view.trainer.get("strategy") != "model_parallel":
        return
    for name, reason in (
        ("soap", "takes the eigenvectors of whole gradients"),
        ("schedule_free", "evaluates a second copy of all weights"),
    ):
        if _is(view, name):
            yield (
                f"{view.chosen('optimizer')} {reason}, and {view.chosen('trainer')} spreads them over devices: use "
                "trainer=ddp, or optimizer=adamw"
            )
