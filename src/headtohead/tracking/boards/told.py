"""What the runs of a W&B project have told so far, by which its panels are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headtohead.metrics import metric_named
from headtohead.tracking.wandb_addresses import WandbError
from headtohead.tracking.wandb_runs import PAGE

_HOW = "runs of h2h train arrive there while you are logged in, and h2h sync uploads those that were offline"
_FIRST = ("validation/loss", "train/loss")


@dataclass(frozen=True)
class Told:
    """Names in their order on the page."""

    numbers: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    def results(self, *stages: str) -> list[str]:
        """Of these stages, as train, validation or test: what is better when it is larger, or smaller; losses first."""
        named = {name: metric_named(name) for name in self.numbers if name.partition("/")[0] in stages}
        found = [name for name, metric in named.items() if metric is not None and metric.direction is not None]
        return sorted(found, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))

    def under(self, *parts: str) -> list[str]:
        return [name for name in self.numbers if name.startswith(parts)]

    def tests(self) -> list[str]:
        """Rows so many times as long have a stage of their own, such as test_2x."""
        return self.results(*{name.partition("/")[0] for name in self.numbers if name.startswith("test")})


def told_by(summaries: Iterable[Mapping[str, Any]]) -> Told:
    held: dict[str, Any] = {name: value for summary in summaries for name, value in summary.items()}
    numbers = [name for name, value in held.items() if isinstance(value, int | float) and not name.startswith("_")]
    pictures = [
        name for name, value in held.items() if isinstance(value, Mapping) and value.get("_type") == "image-file"
    ]
    return Told(tuple(sorted(numbers)), tuple(sorted(pictures, key=_by_layer)))


def told_in(api: Any, path: str, filters: Mapping[str, str]) -> Told:
    """By the newest page of runs; a project without any is refused, since nothing could be shown."""
    runs = api.runs(path, filters=dict(filters), order="-created_at", per_page=PAGE, lazy=False)
    try:
        newest = list(islice(runs, PAGE))
    except ValueError:  # the client's word for a project that is not there
        raise WandbError(f"W&B has no project {path}: {_HOW}") from None
    if not newest:
        which = f" with {' and '.join(f'{name} {value}' for name, value in filters.items())}" if filters else ""
        raise WandbError(f"{path} holds no runs{which}: {_HOW}")
    return told_by(run.summary_metrics for run in newest)


def _by_layer(name: str) -> tuple[str, ...]:
    """Layer 10 after layer 9."""
    return tuple(f"{int(part):06d}" if part.isdigit() else part for part in name.replace("/", ".").split("."))
