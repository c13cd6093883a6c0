"""Every model, choice, task and way of writing on a device that is not the CPU; a program, since the device stays.

python on_device.py KIND NUMBER prints a line of JSON for each case, of so many at most: its name, and what was refused
or null.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor

from contracts.choices import agree, can_look, factory, names
from devices.stand_in import NAME, stand_in
from fresh_runs import ROWS, SMALL
from headtohead.architectures.architecture import Architecture, DecodingModel
from headtohead.components import checkpointing
from headtohead.components.stack import Stack
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.data.batches.batch import Batch
from headtohead.diagnostics.doctor.patient import Patient
from headtohead.generation.decoding_loop import stream
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.generation.likelihoods import likelihoods
from headtohead.interpretability.receptive_field import all_maps, model_fields
from sampled_cases import spread
from small_models import small_model
from task_cases import TASKS, TaskCase

Case = Callable[[], None]
IMAGES = ("task=image_classification", "data=digits")
CLASSES = ("task=classification", "data=sentence_grammar", *ROWS)
PRECISIONS: dict[str, torch.dtype | None] = {"32": None, "bf16": torch.bfloat16, "16": torch.float16}
STRATEGIES = {
    "greedy": DecodingStrategy(max_new_tokens=3),
    "draws": DecodingStrategy(
        max_new_tokens=3, temperature=0.7, top_k=5, top_p=0.9, repetition_penalty=1.2, num_samples=2
    ),
    "beams": DecodingStrategy(max_new_tokens=3, beams=3, num_samples=2),
}


def moved(value: Any) -> Any:
    """Return a batch whose tensors lie on the device."""
    if isinstance(value, Batch):
        of_each = {field.name: moved(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **of_each)
    return value.to(NAME) if isinstance(value, Tensor) else value


def autocast(device: str, precision: str) -> torch.autocast:
    dtype = PRECISIONS[precision]
    return torch.autocast(device, dtype=dtype, enabled=dtype is not None)


def learn(case: TaskCase, make: Callable[[], Architecture], precision: str) -> None:
    """Take one training step without the optimizer and measure one batch, on the CPU and on the device."""
    shown = case.task().view(case.batch(), seed=0, epoch=0)
    losses: dict[str, float] = {}
    for device in ("cpu", NAME):
        task, model = case.task().to(device), make().to(device)
        torch.manual_seed(0)
        with autocast(device, precision):
            loss = task.loss(model, moved(case.view()) if device == NAME else case.view()).mean
        loss.backward()
        losses[device] = loss.item()
        for name, parameter in model.named_parameters():
            gradient = parameter.grad
            assert parameter.device.type == device, f"{name} is on {parameter.device}"
            assert gradient is None or (gradient.dtype, gradient.device.type) == (parameter.dtype, device), name
        model.eval()
        with torch.no_grad(), autocast(device, precision):
            task.measure("validation", model, moved(shown) if device == NAME else shown)
        losses[f"{device} validation"] = next(iter(task.results("validation").values()))
    allowed = 1e-5 if precision == "32" else 0.05
    for stage in ("", " validation"):
        here, there = losses[f"cpu{stage}"], losses[f"{NAME}{stage}"]
        assert abs(here - there) <= allowed * max(1.0, abs(here)), f"{here} on the CPU, {there} on the device"


def never(row: int, token: int) -> bool:
    del row, token
    return False


def write(make: Callable[[], Architecture], strategy: DecodingStrategy, precision: str) -> None:
    texts = []
    for device in ("cpu", NAME):
        model = make().to(device).eval()
        assert isinstance(model, DecodingModel)
        with autocast(device, precision):
            texts.append(list(stream(model, [[5, 6, 7], [8]], strategy, bos_id=1, has_ended=never)))
    assert precision != "32" or texts[0] == texts[1], texts


RUNS = {
    **{f"optimizer={name}": () for name in ("adam", "adamw", "ademamix", "lion", "muon", "sgd")},
    "optimizer=soap": ("optimizer.max_basis=16",),  # where a gradient has no direction, rounding decides the basis
    "optimizer=schedule_free": ("schedule=constant",),
    **{f"checkpointing={name}": () for name in ("full", "every_k", "attention", "offload")},
    **{f"precision={name}": () for name in ("64-true", "bf16-mixed", "bf16-true")},
    "finetuning=head_only": ("model.tie_weights=false",),
    "finetuning=layer_decay": (),
    "parametrisation=mup": (),
    "model=recurrent": (),
    "model=recurrent_encoder_decoder": ("task=seq2seq", "data=reverse", "data.form=pairs", *ROWS),
    "model=cnn": IMAGES,
    "model=convnext": IMAGES,
    "model=swin": (*IMAGES, "model.window=2", "model.depths=[2,2]", "model.num_layers=4"),
    "model=mlp": IMAGES,
    "model=resnet": IMAGES,
    "model=vision_transformer": (*IMAGES, "augmentation=mixup"),
    "model=text_cnn": CLASSES,
    "model=encoder_only": CLASSES,
}


def train(overrides: tuple[str, ...]) -> None:
    """Take two steps of a run with its own optimizer, precision and checkpointing, on the CPU and on the device."""
    parts = build_parts(compose_checked("train", list(overrides)))
    batch = Patient(parts).batch()
    weights: dict[str, dict[str, Tensor]] = {}
    for device in ("cpu", NAME):
        torch.manual_seed(0)
        precision = parts.precision.on("cpu")
        model, task = parts.make_model().to(precision.of_weights).to(device), deepcopy(parts.task).to(device)
        for module in model.modules():
            if isinstance(module, Stack):
                module.checkpointing = parts.checkpointing
        optimizer = parts.optimizer(model)
        parts.parametrisation.scale_rates(optimizer, model)
        parts.finetuning.scale_rates(optimizer, model)
        seen = (moved(batch) if device == NAME else batch).map(partial(in_format, dtype=precision.of_weights))
        for _ in range(2):
            with autocast(device, "bf16" if precision.name == "bf16-mixed" else "32"):
                loss = task.loss(model, seen).mean
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        state = [value for held in optimizer.state.values() for value in held.values() if isinstance(value, Tensor)]
        assert all(value.device.type == device for value in state if value.dim() > 0)
        weights[device] = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    allowed = 1e-9 if precision.name == "64-true" else 0.02
    for name, here in weights["cpu"].items():
        there = weights[NAME][name]
        torch.testing.assert_close(there, here, rtol=allowed, atol=allowed, msg=partial("{}: {}".format, name))


def in_format(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def look(case: TaskCase, make: Callable[[], Architecture]) -> None:
    """Take the maps of attention, and of the gradients that stand for it, on the CPU and on the device."""
    maps = []
    for device in ("cpu", NAME):
        model = make().to(device).eval()
        inputs = (moved(case.view()) if device == NAME else case.view()).inputs()
        maps.append([*all_maps(model, inputs), *model_fields(model, inputs)])
    for here, there in zip(*maps, strict=True):
        torch.testing.assert_close(there.weights.cpu(), here.weights.cpu(), rtol=1e-4, atol=1e-5)


def judge() -> None:
    """Take the likelihoods of continuations, on the CPU and on the device."""
    scores = []
    for device in ("cpu", NAME):
        model = TASKS["causal_lm"].model().to(device).eval()
        scores.append(likelihoods(model, [([5, 6, 7], [8, 9]), ([4], [3])]))
    for here, there in zip(*scores, strict=True):
        assert here.is_greedy == there.is_greedy
        assert abs(here.log_likelihood - there.log_likelihood) < 1e-4


def offload_all() -> None:
    """Offload what blocks save: it lies on the CPU until the backward pass, and gradients come out on the device."""
    left: list[Any] = []

    def noted(tensor: Tensor) -> Any:
        left.append(checkpointing._to_host(tensor))
        return left[-1]

    case = TASKS["causal_lm"]
    task, model = case.task().to(NAME), case.model().to(NAME)
    usual = checkpointing.offload
    checkpointing.offload = partial(usual, away=noted)  # type: ignore[assignment]
    try:
        for module in model.modules():
            if isinstance(module, Stack):
                module.checkpointing = checkpointing.Checkpointing("offload")
        task.loss(model, moved(case.view())).mean.backward()
    finally:
        checkpointing.offload = usual
    assert left
    assert all(each.values.device.type == "cpu" and each.device.type == NAME for each in left)
    assert all(weight.grad is None or weight.grad.device.type == NAME for weight in model.parameters())


class _Forgetful(torch.nn.Module):
    """Keeps a tensor that moving it does not take along."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = torch.arange(4.0)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.steps


class _Filling(torch.nn.Module):
    """Writes products, which autocast made of half precision, into a table of single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.map = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        table = torch.zeros(2, 4, device=x.device)
        table[torch.tensor([0, 1], device=x.device)] = self.map(x)
        return table


class _Mixing(torch.nn.Module):
    """Makes its own numbers on the CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0, 3.0, 4.0])


def faulty(module: torch.nn.Module) -> None:
    """Take a backward pass through a module that a CPU computes without complaint."""
    x = torch.ones(2, 4, requires_grad=True)
    with autocast(NAME, "bf16"):
        module.to(NAME)(x.to(NAME)).sum().backward()


def takes_grid(position: partial[Any]) -> bool:
    kind: Any = position.func
    return bool(kind.needs_grid)


def choices() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every choice of a component in a family that can hold it: a name, the task of that family, the parts."""
    softmax, anywhere = factory("mixer", "softmax_attention"), factory("position", "none")
    for name in names("mixer"):
        mixer = factory("mixer", name)
        for task, causal in (("causal_lm", True), ("masked_lm", False)):
            if can_look(mixer, causal=causal):
                yield f"mixer={name} {task}", task, {"mixer": mixer, "position": anywhere}
    for name in names("position"):
        position = factory("position", name)
        assert agree(softmax, position)
        yield (
            f"position={name}",
            "image_classification" if takes_grid(position) else "causal_lm",
            {"position": position},
        )
    for group in ("norm", "residual", "feedforward", "local", "initialisation"):
        for name in names(group):
            for task in ("causal_lm", "seq2seq"):
                yield f"{group}={name} {task}", task, {group: factory(group, name)}
    for name in names("cross"):
        yield f"cross={name}", "seq2seq", {"cross": factory("cross", name)}


def made(case: TaskCase, parts: dict[str, Any]) -> Callable[[], Architecture]:
    return partial(with_parts, case, parts)


def with_parts(case: TaskCase, parts: dict[str, Any]) -> Architecture:
    changes: dict[str, Any] = {} if case.family == "encoder_decoder" else {"num_classes": case.spec.num_classes}
    if case.family != "vision_transformer":
        changes["head"] = case.make().head
    return small_model(case.family, **changes, **parts)


def cases() -> dict[str, dict[str, Case]]:
    result: dict[str, dict[str, Case]] = {
        "tasks": {}, "mixers": {}, "parts": {}, "writing": {}, "runs": {},
    }  # fmt: skip
    for name, more in RUNS.items():
        sizes = (
            ()
            if name in ("model=text_cnn", "model=cnn", "model=mlp", "model=resnet", "model=convnext", "model=swin")
            else SMALL
        )
        rows = () if name.startswith("model=") else ROWS
        exact = () if name.startswith("precision=") else ("precision=64-true",)
        result["runs"][name] = partial(train, (name, *more, *sizes, *rows, *exact, "model.dropout=0"))
    result["runs"]["all that blocks save"] = offload_all
    for name, case in TASKS.items():
        for precision in PRECISIONS:
            result["tasks"][f"{name} {precision}"] = partial(learn, case, case.model, precision)
        result["tasks"][f"{name} maps"] = partial(look, case, case.model)
    for name, task, parts in choices():
        case = TASKS[task]
        kind = "mixers" if name.startswith("mixer") else "parts"
        for precision in ("bf16",) if task in ("masked_lm", "seq2seq") else ("32", "bf16"):
            result[kind][f"{name} {precision}"] = partial(learn, case, made(case, parts), precision)
        if (
            name.startswith(("mixer", "position", "cross", "local"))
            and case.family != "encoder_only"
            and case.family != "vision_transformer"
        ):
            result["writing"][f"{name} greedy"] = partial(write, made(case, parts), STRATEGIES["greedy"], "bf16")
    for name, strategy in STRATEGIES.items():
        for task in ("causal_lm", "seq2seq"):
            result["writing"][f"{task} {name}"] = partial(write, made(TASKS[task], {}), strategy, "32")
    result["faults"] = {kind.__name__: partial(faulty, kind()) for kind in (_Forgetful, _Filling, _Mixing)}
    result["writing"]["likelihoods"] = judge
    return result


def refusal(case: Case) -> str | None:
    torch.manual_seed(0)
    try:
        with stand_in():
            case()
    except Exception as error:  # the finding
        return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return None


if __name__ == "__main__":
    of_kind = cases()[sys.argv[1]]
    chosen = spread(len(of_kind), int(sys.argv[2]))
    for index, (name, case) in enumerate(of_kind.items()):
        if index in chosen:
            sys.stdout.write(json.dumps({"case": name, "refused": refusal(case)}) + "\n")
