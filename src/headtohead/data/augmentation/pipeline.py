"""Several augmentations, one after another; only ever of training batches."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.data.augmentation.contracts import Augmentation, Draws
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataError, DataSource


class Augmentations:
    """In the order in which they are named. Each choice of conf/augmentation is one of a single step, so that a list of
    choices, augmentation=[token_dropping,swapping], is all of them."""

    def __init__(self, steps: Mapping[str, Augmentation]) -> None:
        self.steps = dict(steps)

    def __bool__(self) -> bool:
        return bool(self.steps)

    def bind(self, source: DataSource) -> Augmentations:
        """Raises DataError where a step makes no sense for this data."""
        kind = source.spec().kind if self.steps else None
        for name, step in self.steps.items():
            if kind not in step.data_kinds:
                reason = step.cannot.get(str(kind), f"it is for data of kind {' or '.join(step.data_kinds)}")
                raise DataError(f"augmentation={name} cannot be used with data of kind {kind}: {reason}")
            step.bind(source)
        return self

    def prepare(self) -> None:
        """Before training, so that no loader process has to."""
        for step in self.steps.values():
            step.prepare()

    def in_loader(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Before the task sees the batch, beside the loader."""
        return self._after(batch, seed, epoch, on_device=False)

    def on_device(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """What is left to do once the batch is on its device."""
        return self._after(batch, seed, epoch, on_device=True)

    def _after(self, batch: Batch, seed: int, epoch: int, *, on_device: bool) -> Batch:
        for place, step in enumerate(self.steps.values()):
            if step.on_device == on_device:
                batch = step(batch, Draws(batch.rows.cpu().numpy(), seed, epoch, place))
        return batch


NO_AUGMENTATION = Augmentations({})
