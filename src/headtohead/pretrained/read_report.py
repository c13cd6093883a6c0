"""The report of reading a published checkpoint lists the fields honoured, the tensors taken and ignored, and
differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.families import differences, read_config
from headtohead.pretrained.hub_checkpoint import Checkpoint
from headtohead.pretrained.weight_conversion import convert_weights


@dataclass(frozen=True)
class ReadReport:
    """The report that `h2h inspect` prints about the checkpoint that a run starts from."""

    family: str
    fields: tuple[str, ...]
    """The fields of its config.json that built our model, or were checked."""
    tied: bool
    """Whether its head shares the matrix of the embedding."""
    taken: int
    """Tensors of ours that come from the file."""
    has_head: bool
    left_aside: tuple[str, ...]
    differences: tuple[str, ...]
    """Sentences on what differs from the reference by design."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for --json."""
        return asdict(self)

    def __str__(self) -> str:
        head = "read" if self.has_head else "fresh"
        lines = [
            f"{self.family}: {self.taken} tensors taken, head {head}, {'tied' if self.tied else 'not tied'}",
            f"fields honoured: {', '.join(self.fields)}",
        ]
        if self.left_aside:
            lines.append(f"tensors left aside: {', '.join(self.left_aside)}")
        return "\n".join([*lines, *(f"differs by design: {sentence}" for sentence in self.differences)])


@dataclass
class _Noted(Mapping[str, Any]):
    """A config.json that notes which of its fields are read."""

    hub: Mapping[str, Any]
    read: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.hub[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hub)

    def __len__(self) -> int:
        return len(self.hub)


def read_report(checkpoint: Checkpoint, head: HeadName) -> ReadReport:
    """Return what a model of ours with this head takes from the file; raise CheckpointError as reading it does."""
    taken = convert_weights(checkpoint, head)
    for _ in taken.weights.values():
        """Reading each refuses one of another shape."""
    family, hub = read_config(checkpoint)
    noted = _Noted(hub)
    family.overrides(noted, head)
    pieces = [*family.body(noted, head), *family.head_pieces(noted, head)]
    del pieces
    honoured = noted.read | family.accepts.keys() | family.synonyms.keys()
    return ReadReport(
        family=family.model_type,
        fields=tuple(name for name in checkpoint.config if name in honoured),
        tied=any(second.startswith(family.heads) for second in family.tied(hub)),
        taken=len(taken.weights),
        has_head=taken.has_head,
        left_aside=taken.left_aside,
        differences=tuple(differences(checkpoint, head)),
    )
