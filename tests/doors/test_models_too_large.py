"""A model whose weights no memory holds is refused in a sentence, by every command, before any weight is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import nn

from doors.workplace import RUN, SMALL
from headtohead.cli import COMMANDS, main
from headtohead.config.build import make_model
from headtohead.config.rules import memory_limits

WIDTH = 32768
LARGE = (f"model.d_model={WIDTH}", "model.num_heads=2", "model.num_layers=2")
LIMIT = 2**30
"""The memory of the machine that the commands are given; the model has 100 GB."""
MAKE: dict[str, tuple[tuple[str, ...], ...]] = {
    "train": (("train", *SMALL, *LARGE),),
    "bench": (("bench", *SMALL, *LARGE),),
    "doctor": (("doctor", *SMALL, *LARGE),),
    "coordinates": (("coordinates", *SMALL, *LARGE, "--widths", f"{WIDTH},{2 * WIDTH}"),),
    "probe": (("probe", RUN, "--text", "the cat", "--out", "new"), ("probe", "--positions", *SMALL, *LARGE)),
    "evaluate": (("evaluate", RUN),),
    "embed": (("embed", RUN, "notes", "--query", "who sleeps"),),
    "generate": (("generate", RUN, "--prompt", "the", "--max-new-tokens", "2"),),
    "export": (("export", RUN, "--to", "safetensors", "--out", "new"),),
}
COUNT: dict[str, tuple[str, ...]] = {
    "inspect": ("inspect", *SMALL, *LARGE),
    "match": (
        *("match", *SMALL, "--arm", f"a=model.d_model={WIDTH}", "--arm", "b=model.d_model=64"),
        *("--budget", "equal_parameters", "--move", "width"),
    ),
    "plan": ("plan", "--on", "h100x8", *SMALL, *LARGE),
}
"""They make no weights, and answer whatever the size is."""
MAKE_NONE = {"study", "sweep", "compare", "check", "sync", "schema", "list", "dashboard", "runs", "data"}
"""Runs of studies and sweeps are trained as those of train; check makes components of its own size."""


def _name(arguments: tuple[str, ...]) -> str:
    return " ".join(arguments[:2])


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any weight of the large model ends the test."""
    monkeypatch.setattr(memory_limits, "memory_limit", lambda _: LIMIT)
    register = nn.Module.register_parameter

    def watched(self: nn.Module, name: str, param: Any) -> None:
        is_made = param is not None and param.device.type != "meta" and param.numel() >= WIDTH**2
        assert not is_made, f"{name} of {type(self).__name__} was made"
        register(self, name, param)

    monkeypatch.setattr(nn.Module, "register_parameter", watched)


def test_every_command_is_in_one_of_the_tables() -> None:
    assert MAKE.keys() | COUNT.keys() | MAKE_NONE == COMMANDS.keys()
    assert not MAKE.keys() & COUNT.keys() and not (MAKE.keys() | COUNT.keys()) & MAKE_NONE


@pytest.mark.parametrize("arguments", [each for several in MAKE.values() for each in several], ids=_name)
def test_a_command_that_makes_a_model_refuses_one_that_is_too_large(
    arguments: tuple[str, ...], inside: dict[Path, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(RUN, "config.yaml")
    config = yaml.safe_load(inside[file])
    config["model"] |= {"d_model": WIDTH, "num_layers": 2}
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    try:
        code = main(list(arguments))
    finally:
        file.write_bytes(inside[file])
    error = capsys.readouterr().err
    assert code == 2 and "GiB of memory" in error and "choose a smaller model" in error, error
    assert error.splitlines()[-1].startswith("error: ") and "HEADTOHEAD_DEBUG" not in error, error


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COUNT.values(), ids=_name)
def test_a_command_that_counts_makes_no_weights(
    arguments: tuple[str, ...], inside: dict[Path, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


def test_asking_what_a_model_needs_draws_no_numbers(inside: dict[Path, bytes]) -> None:
    config = yaml.safe_load(inside[Path(RUN, "config.yaml")])
    config["model"]["d_model"] = 24  # of a size that was not asked before
    torch.manual_seed(3)
    first = [weight.clone() for weight in make_model(config).parameters()]
    torch.manual_seed(3)
    assert all(torch.equal(a, b) for a, b in zip(first, make_model(config).parameters(), strict=True))
