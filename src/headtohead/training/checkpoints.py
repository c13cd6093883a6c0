"""Checkpoints: the last one to continue from, and the best one, chosen on validation data, to use."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headtohead.architectures.vocabulary_heads import FURTHER
from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_file, require_space
from headtohead.files.safe_read import DamagedFile
from headtohead.records.keeping.archive import ARCHIVE
from headtohead.records.run_folder import RunFolder

LAST = "last.ckpt"
BEST = "best.ckpt"
_PARTS = {LAST: ("run", "state_dict"), BEST: ("model",)}
"""The parts that each checkpoint holds, whatever else."""


def save(content: Mapping[str, object], path: Path) -> None:
    """Write a checkpoint as a whole; OutOfDisk, before anything is written, where it would not fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    require_space(path, _bytes_in(content))
    replace_file(path, lambda file: torch.save(dict(content), file))


def _bytes_in(content: Any) -> int:
    """Return the size of the tensors in the checkpoint, each counted once under several names; the rest is small."""
    storage_bytes: dict[int, int] = {}
    _weigh(content, storage_bytes)
    return sum(storage_bytes.values())


def _weigh(content: Any, storage_bytes: dict[int, int]) -> None:
    if isinstance(content, Tensor):
        storage_bytes[content.data_ptr()] = content.numel() * content.element_size()
    elif isinstance(content, Mapping):
        for item in content.values():
            _weigh(item, storage_bytes)
    elif isinstance(content, list | tuple):
        for item in content:
            _weigh(item, storage_bytes)


def load(path: Path, *, lazily: bool = False) -> dict[str, Any]:
    """Return what a checkpoint holds, on the CPU, without running anything that the file may hold; DamagedFile, which
    names another checkpoint of the run that is whole, where it is none."""
    try:
        return _loaded(path, lazily=lazily)
    except DamagedFile as damage:
        raise DamagedFile(path, damage.what, _way_out(path)) from damage


def is_complete(path: Path) -> bool:
    """Return whether the file is a checkpoint as far as its structure tells."""
    try:
        _loaded(path, lazily=True)
    except DamagedFile:
        return False
    return True


def last_step(run: Path) -> int:
    """Return the optimizer steps that a run's last checkpoint holds; 0 where it was stopped before its first."""
    path = run / "checkpoints" / LAST
    return int(load(path, lazily=True)["run"]["step"]) if os.path.lexists(path) else 0


def _loaded(path: Path, *, lazily: bool) -> dict[str, Any]:
    content = _unpickled(path, lazily=lazily)
    for part in _PARTS.get(path.name, ()):
        if not isinstance(content, dict) or not isinstance(content.get(part), Mapping):
            raise DamagedFile(path, f"is not a run's checkpoint: it has no `{part}`")
    if path.name == LAST and not (isinstance(step := content["run"].get("step"), int) and step >= 0):
        raise DamagedFile(path, "is not a run's checkpoint: its `run` has no step")
    return content  # type: ignore[no-any-return]


def _unpickled(path: Path, *, lazily: bool) -> Any:
    try:
        if not path.is_file() or not path.stat().st_size:
            raise DamagedFile(path, "is empty" if path.is_file() else "is not a file")
        _verify(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except DamagedFile:
        raise
    except pickle.UnpicklingError:
        raise DamagedFile(
            path, "contains something other than tensors and plain values; none of it was executed"
        ) from None
    except OSError as error:
        raise DamagedFile(path, f"cannot be read ({error.strerror or _first_line(error)})") from None
    except Exception as error:  # torch has no kind of its own for a file that it cannot read
        raise DamagedFile(path, f"is damaged, or not a checkpoint ({_first_line(error)})") from None


def _verify(path: Path) -> None:
    """torch.save computes a checksum (CRC-32) of each tensor while it writes, and torch.load never looks at them."""
    with zipfile.ZipFile(path) as parts:
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts.infolist()):
            raise DamagedFile(path, "is compressed, which no checkpoint is: it may take any amount of memory")
        if (damaged := parts.testzip()) is not None:
            part = damaged.partition("/")[2]
            raise DamagedFile(path, f"is damaged: the bytes of {part} differ from those that were written")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0][:120]}"


def _way_out(path: Path) -> str:
    """Say what can be done without this checkpoint of a run."""
    run = path.parent.parent
    here = os.path.relpath(run)
    other = path.with_name(BEST if path.name == LAST else LAST)
    if path.name in _PARTS and is_complete(other):
        step = _loaded(other, lazily=True).get("step") if other.name == BEST else last_step(run)
        beside = f"checkpoints/{other.name} beside it is whole (step {step}): "
        if other.name == BEST:
            return f"{beside}`h2h train --from-run {here} init_from={here}` starts a new run from its weights"
        return f"{beside}`h2h train resume_from={here}{_further(run)}` resumes from it and selects again"
    return f"restore it from a copy, or train the run again: `h2h train --from-run {here}`"


def _further(run: Path) -> str:
    """A run that took all its steps resumes only if it is given more."""
    try:
        trainer = RunFolder.open(run).read_record_as_written().config["trainer"]
        steps, more = int(trainer["max_steps"]), int(trainer["validate_every"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f" trainer.max_steps={steps + more}" if last_step(run) >= steps else ""


def save_weights(
    weights: Mapping[str, Tensor],
    path: Path,
    *,
    step: int,
    metrics: Mapping[str, float],
    head: str,
    class_names: Sequence[str] = (),
) -> None:
    """Save the model alone, as it was evaluated, and what its head is for."""
    content = {"model": dict(weights), "step": step, "metrics": dict(metrics)}
    save({**content, "head": head, "class_names": list(class_names)}, path)


def load_best(run: Path | str, *, lazily: bool = False) -> dict[str, Any]:
    """The best checkpoint of a run, by the run's folder."""
    path = Path(run) / "checkpoints" / BEST
    if not os.path.lexists(path):
        if (Path(run) / ARCHIVE).is_file():
            raise UsageError(f"{run} is archived: h2h runs restore {run} brings its checkpoints back")
        raise UsageError(f"{run} holds no checkpoints/{BEST}: it was never validated, or trainer.keep_checkpoints=none")
    return load(path, lazily=lazily)


def put_best(run: Path | str, model: nn.Module) -> None:
    """Load the best weights of a run, by the run's folder, into its model."""
    weights = load_best(run)["model"]
    try:
        put_weights(weights, model)
    except (RuntimeError, AttributeError, TypeError) as error:  # other names or shapes, or no tensors
        path = Path(run) / "checkpoints" / BEST
        again = f"restore the run's own, or train it again: `h2h train --from-run {os.path.relpath(run)}`"
        raise DamagedFile(path, "holds the weights of a model other than the run's", again) from error


def put_weights(weights: Mapping[str, Tensor], model: nn.Module, *, strict: bool = True) -> None:
    """Load weights without rounding any: the model is made 64 bits wide where they are, and 32 bits hold all others.

    A model of the next token alone does without the further heads that it was trained with.
    """
    if any(weights[name].dtype == torch.float64 for name, _ in model.named_parameters() if name in weights):
        model.double()
    if any(name.startswith(FURTHER) for name in weights):
        own = model.state_dict().keys()
        weights = {name: held for name, held in weights.items() if name in own or not name.startswith(FURTHER)}
    model.load_state_dict(weights, strict=strict)


def drop(checkpoints: Path, *, keep: Literal["all", "best", "last", "none"]) -> None:
    """Remove what a finished run does not need to keep."""
    unwanted = {"all": (), "best": (LAST,), "last": (BEST,), "none": (LAST, BEST)}[keep]
    for name in unwanted:
        (checkpoints / name).unlink(missing_ok=True)
