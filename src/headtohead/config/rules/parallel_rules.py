"""Refuse what cannot be combined with a sharded model or a batch read in parts, with the reason and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import RunConfig

PRECISIONS = ("32-true", "bf16-true", "bf16-mixed")
"""Those that Lightning's strategy for such models takes."""


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (
        _devices, _groups, _precision, _formats, _weight_averaging, _compile, _loops, _heads, _scores, _noise, _offload,
        _balance, _fields,
    )  # fmt: skip


def _parts(view: ConfigView) -> int:
    parts: int = view.trainer.get("tensor_parallel", 1)
    return parts


def _is_spread(view: ConfigView) -> bool:
    return bool(view.trainer.get("strategy") == "model_parallel")


def _devices(view: ConfigView) -> Iterator[str]:
    devices, parts = view.trainer.get("devices", 1) * view.trainer.get("num_nodes", 1), _parts(view)
    if parts > 1 and not _is_spread(view):
        yield (
            f"trainer.tensor_parallel={parts} divides layers among devices, and {view.chosen('trainer')} does not: "
            "use trainer=tensor_parallel, or trainer=fsdp for both"
        )
    if devices % parts:
        yield (
            f"trainer.devices={devices} cannot be grouped by trainer.tensor_parallel={parts}, the devices that one "
            "copy of the model takes: give a multiple of it"
        )


def _groups(view: ConfigView) -> Iterator[str]:
    among, whole = view.trainer.get("shard_among"), view.trainer.get("devices", 1) * view.trainer.get("num_nodes", 1)
    if (among is not None or view.trainer.get("reshard") is False) and not _is_spread(view):
        field = "trainer.reshard=false" if among is None else f"trainer.shard_among={among}"
        yield f"{field} is about sharded weights, and {view.chosen('trainer')} shards none: use trainer=fsdp"
    if among is not None and _parts(view) > 1:
        yield (
            f"trainer.shard_among={among} makes groups of devices, and trainer.tensor_parallel={_parts(view)} makes "
            "others: leave out one of them"
        )
    elif among is not None and whole % among:
        yield (
            f"trainer.shard_among={among} makes groups of so many devices, and the run has {whole}: give a divisor of "
            "that, or null for one group of all"
        )


def _precision(view: ConfigView) -> Iterator[str]:
    name = RunConfig(view.config).precision
    if _is_spread(view) and name not in PRECISIONS:
        yield (
            f"precision={name} cannot be used with {view.chosen('trainer')}, whose strategy takes "
            f"{', '.join(PRECISIONS)}: choose one of these, or trainer=ddp"
        )


def _formats(view: ConfigView) -> Iterator[str]:
    devices = view.trainer.get("devices", 1) * view.trainer.get("num_nodes", 1)
    if not _is_spread(view) or devices == _parts(view) or RunConfig(view.config).precision != "bf16-true":
        return
    for side in view.sides():
        if side.can("mixer", "keeps_float32"):
            mixer = view.chosen(side.groups.get("mixer", "model/mixer"))
            yield (
                f"precision=bf16-true leaves exponents and frequencies of {mixer} in float32, and "
                f"{view.chosen('trainer')} shards weights of one format: use precision=bf16-mixed, or trainer=ddp"
            )


def _weight_averaging(view: ConfigView) -> Iterator[str]:
    decay = view.trainer.get("weight_averaging")
    if _is_spread(view) and decay is not None:
        yield (
            f"trainer.weight_averaging={decay} keeps a second copy of all weights, which {view.chosen('trainer')} "
            "spreads over devices to have none: set it to null, or use trainer=ddp"
        )


def _compile(view: ConfigView) -> Iterator[str]:
    if _is_spread(view) and view.trainer.get("compile"):
        yield (
            f"trainer.compile=true compiles the model to one graph, and {view.chosen('trainer')} must gather "
            "weights between its layers: set it to false, or use trainer=ddp"
        )


def _loops(view: ConfigView) -> Iterator[str]:
    loops = view.model.get("loops") or 1
    if _is_spread(view) and loops > 1:
        yield (
            f"model.loops={loops} passes each layer several times, and {view.chosen('trainer')} gathers its weights "
            "for one pass: set it to 1, or use trainer=ddp"
        )


def _heads(view: ConfigView) -> Iterator[str]:
    parts = _parts(view)
    heads = view.model.get("num_heads", parts)
    nodes = [(side.paths["mixer"], side.nodes.get("mixer", {})) for side in view.sides()]
    for path, node in [*nodes, ("model.cross", view.model.get("cross") or {})]:
        groups = node.get("num_kv_heads") or heads
        if groups % parts:
            field = f"{path}.num_kv_heads" if node.get("num_kv_heads") else "model.num_heads"
            yield (
                f"trainer.tensor_parallel={parts} cannot divide {field}={groups} evenly: give {field} a multiple of "
                f"{parts}, or use trainer=fsdp trainer.tensor_parallel=1"
            )


def _scores(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        if _parts(view) > 1 and side.can("position", "biases_scores"):
            yield (
                f"{view.chosen_of(side, 'position')} biases the scores of all heads, and trainer.tensor_parallel="
                f"{_parts(view)} gives each device some of them: use model/position=rotary, learned, sinusoidal or "
                "none, or trainer=fsdp trainer.tensor_parallel=1"
            )


def _noise(view: ConfigView) -> Iterator[str]:
    dropout = view.model.get("dropout")
    if _parts(view) > 1 and dropout:
        yield (
            f"model.dropout={dropout} would draw the same noise for each device's part of a layer under "
            f"trainer.tensor_parallel={_parts(view)}: set it to 0, or use trainer=fsdp trainer.tensor_parallel=1"
        )


def _offload(view: ConfigView) -> Iterator[str]:
    if _parts(view) > 1 and view.config["checkpointing"].get("kind") == "offload":
        yield (
            f"checkpointing=offload moves tensors of one device, and trainer.tensor_parallel={_parts(view)} saves "
            "parts of them on several: use checkpointing=full, or trainer=fsdp trainer.tensor_parallel=1"
        )


def _balance(view: ConfigView) -> Iterator[str]:
    accumulate = view.trainer.get("accumulate", 1)
    for side in view.sides():
        node = side.nodes.get("feedforward", {})
        takes_shares = any(node.get(name) for name in ("balance_weight", "z_weight", "capacity"))
        if accumulate > 1 and node.get("balance") == "batch" and takes_shares:
            path = side.paths["feedforward"]
            yield (
                f"{path} takes the shares of its experts over the batch of a step, of which trainer.accumulate="
                f"{accumulate} shows it a part at a time: set trainer.accumulate=1, or {path}.balance=micro_batch, "
                "which takes them over each part and trains something else"
            )


def _fields(view: ConfigView) -> Iterator[str]:
    if _is_spread(view) and (view.config.get("probe") or {}).get("receptive_fields") == "always":
        yield (
            f"probe.receptive_fields=always takes gradients of the whole model, which {view.chosen('trainer')} spreads "
            "over devices: set it to where_needed, and h2h probe RUN --fields shows them of the finished run"
        )
