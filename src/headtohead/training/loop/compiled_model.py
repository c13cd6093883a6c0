"""A model's function as compiled code, which is kept between runs; the user sees a line while it is made."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from tempfile import gettempdir

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from typing_extensions import override

from headtohead.architectures.architecture import Architecture
from headtohead.data.cache.paths import cache_root
from headtohead.training.parallel.process_group import is_main_process

BACKEND = "inductor"
_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
_log = logging.getLogger(__name__)


def compile_features(model: Architecture) -> None:
    """Compile the function, not the module: names of weights stay as they are."""
    compiled_code()
    model.features = torch.compile(model.features, backend=BACKEND)  # type: ignore[method-assign]


def compiled_code() -> str:
    """The folder where a run leaves its code, for later ones of the same shapes; torch is given its path."""
    folder = os.environ.get(_FOLDER)
    if folder is None or _is_temporary(Path(folder)):
        os.environ[_FOLDER] = str(cache_root() / "compiled")
    return os.environ[_FOLDER]


def _is_temporary(folder: Path) -> bool:
    """Return whether torch chose the folder itself, which it writes there as soon as it is imported."""
    return folder.parent == Path(gettempdir()).absolute() and folder.name.startswith("torchinductor_")


class CompilingReport(Callback):
    """This callback reports that the first step waits for the compiler, and how long it took."""

    def __init__(self) -> None:
        self._since: float | None = None

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.perf_counter()
        if is_main_process():
            _log.info(
                "trainer.compile=true: the first step waits for the compiler, usually half a minute to two minutes, "
                "or a few seconds if a run of the same shapes has left its code in %s",
                compiled_code(),
            )

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if self._since is not None and is_main_process():
            _log.info("compiled: the first step took %.1f s", time.perf_counter() - self._since)
        self._since = None
