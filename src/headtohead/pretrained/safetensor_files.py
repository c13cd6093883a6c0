"""The tensors of safetensors files are each read when used and referenced by nobody else: a model of a billion
parameters is read with room for the largest of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from headtohead.errors import UsageError
from headtohead.pretrained.weight_mapping import WeightMapping


class CheckpointError(UsageError):
    """A checkpoint that cannot be fetched or read; one sentence with the reason and the way out."""


class FileTensors(Mapping[str, Tensor]):
    """Tensors by name, on the CPU, in the type they were published in."""

    def __init__(self, origin: str, locations: Mapping[str, tuple[Path, str]]) -> None:
        self._origin = origin
        self._locations = dict(locations)
        """The file and the name in it, by name."""

    @classmethod
    def of(cls, origin: str, files: Iterable[Path]) -> FileTensors:
        """Return all tensors of some files, by their names there."""
        from safetensors import SafetensorError, safe_open

        indices = {}
        for path in files:
            try:
                with safe_open(path, framework="pt") as opened:
                    indices.update({name: (path, name) for name in list(opened.keys())})
            except (OSError, SafetensorError) as error:
                raise _unreadable(origin, path, error) from None
        return cls(origin, indices)

    def __getitem__(self, name: str) -> Tensor:
        from safetensors import SafetensorError, safe_open

        path, there = self._locations[name]
        try:
            with safe_open(path, framework="pt") as opened:  # reopened, since a file that stays open keeps its pages
                tensor: Tensor = opened.get_tensor(there)
        except (OSError, SafetensorError) as error:
            raise _unreadable(self._origin, path, error) from None
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._locations

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def __len__(self) -> int:
        return len(self._locations)

    def named(self, names: Mapping[str, str]) -> FileTensors:
        """Return some of them under other names, each with the one it has here."""
        return FileTensors(self._origin, {name: self._locations[here] for name, here in names.items()})


class ShardedTensors(Mapping[str, Tensor]):
    """Weights by our names, each computed from a checkpoint's tensors when it is used."""

    def __init__(self, origin: str, pieces: Iterable[WeightMapping], there: Mapping[str, Tensor]) -> None:
        self._origin, self._there = origin, there
        self._pieces = {name: piece for piece in pieces for name in piece.ours}

    def __getitem__(self, name: str) -> Tensor:
        piece = self._pieces[name]
        try:
            return piece.take(self._there)[name]
        except CheckpointError:
            raise
        except (ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"init_from={self._origin}: {', '.join(piece.theirs)} has another shape than its config.json says "
                f"({error})"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._pieces

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def _unreadable(origin: str, path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"init_from={origin}: {path.name} cannot be read ({error}); fetch it again")
