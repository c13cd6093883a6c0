"""Checkpoints: the last one to continue from, and the best one, chosen on validation data, to use."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor, nn
from typing_extensions import override

from headtohead.errors import UsageError
from headtohead.files.leases import checked_write

LAST = "last.ckpt"
BEST = "best.ckpt"
_WAY_OUT = "put a whole copy in its place, or train the run again (h2h train --from-run)"


class AtomicCheckpoints(TorchCheckpointIO):
    """A file is whole or not there; only tensors and plain values are ever read back."""

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        save(checkpoint, Path(path))

    @override
    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return load(Path(path))


def save(content: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    torch.save(dict(content), partial)
    with checked_write(path):
        partial.replace(path)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU; raises UsageError where its bytes are not those that were written."""
    return _read(path, mmap=False)


def _read(path: Path, *, mmap: bool) -> dict[str, Any]:
    """Every checkpoint of a run is read here: verified first, and without running anything that it may hold."""
    _verify(path)
    loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    return loaded


def _verify(path: Path) -> None:
    """torch.save computes a checksum (CRC-32) of each tensor while it writes, and torch.load never looks at them."""
    try:
        with zipfile.ZipFile(path) as parts:
            damaged = parts.testzip()
    except (zipfile.BadZipFile, RuntimeError, EOFError, ValueError) as error:
        raise UsageError(f"{path} is damaged or no checkpoint ({error}): {_WAY_OUT}") from None
    if damaged is not None:
        raise UsageError(
            f"{path} is damaged: the bytes of {damaged.partition('/')[2]} are not those that were written: {_WAY_OUT}"
        )


def last_step(run: Path) -> int:
    """The optimizer steps that a run's last checkpoint holds; 0 where it was stopped before its first."""
    path = run / "checkpoints" / LAST
    if not path.exists():
        return 0
    return int(_read(path, mmap=True)["run"]["step"])


def save_weights(
    weights: Mapping[str, Tensor],
    path: Path,
    *,
    step: int,
    metrics: Mapping[str, float],
    head: str,
    class_names: Sequence[str] = (),
) -> None:
    """The model alone, as it was evaluated, and what its head is for."""
    content = {"model": dict(weights), "step": step, "metrics": dict(metrics)}
    save({**content, "head": head, "class_names": list(class_names)}, path)


def load_best(run: Path | str) -> dict[str, Any]:
    """The best checkpoint of a run, by the run's folder."""
    path = Path(run) / "checkpoints" / BEST
    if not path.exists():
        raise UsageError(f"{run} holds no checkpoints/{BEST}: it was never validated, or trainer.keep_checkpoints=none")
    return load(path)


def load_weights(run: Path | str) -> dict[str, Tensor]:
    """The best weights of a run, by the run's folder."""
    weights: dict[str, Tensor] = load_best(run)["model"]
    return weights


def put_weights(weights: Mapping[str, Tensor], model: nn.Module, *, strict: bool = True) -> None:
    """Load weights without rounding any: the model is made 64 bits wide where they are, and 32 bits hold all others."""
    if any(weights[name].dtype == torch.float64 for name, _ in model.named_parameters() if name in weights):
        model.double()
    model.load_state_dict(weights, strict=strict)


def drop(checkpoints: Path, *, keep: Literal["all", "best", "none"]) -> None:
    """Remove what a finished run does not need to keep."""
    unwanted = {"all": (), "best": (LAST,), "none": (LAST, BEST)}[keep]
    for name in unwanted:
        (checkpoints / name).unlink(missing_ok=True)
