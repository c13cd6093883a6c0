"""Refuse a study whose runs no verdict could compare, before the first of them is trained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from headtohead.comparison.comparability import ALIKE, NotComparable, refuse_unlike
from headtohead.config.build import build_task
from headtohead.config.compose.overrides import leaves
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.origins.from_weights import build_data
from headtohead.config.run_config import Node
from headtohead.errors import UsageError
from headtohead.records.record import RunRecord
from headtohead.studies.definition.study import Study
from headtohead.training.measurement import Measurement

_DECIDED = {"evaluation", "loss_normalisation", "tokenizer"}
"""The conditions that are known before a run."""
_GROUPS = ("task", "data")
_FEW = 4
"""The arms of one measurement, and the fields, that are named one by one."""


def refuse_incomparable(study: Study, written: Mapping[str, Node]) -> None:
    """Refuse arms whose results no verdict could compare: another task, tokenizer or evaluation data. Data are only
    read where arms say otherwise how they are measured; arms that start from other runs are left to their records."""
    arms: dict[str, list[str]] = {}
    for arm, config in written.items():
        if not config.get("init_from"):
            arms.setdefault(json.dumps(_measured(config), sort_keys=True, default=str), []).append(arm)
    if len(arms) < 2 or set(study.allow_unlike) >= _DECIDED:
        return
    records = {arm: record for arm, *_ in arms.values() if (record := _record(study, arm, written[arm])) is not None}
    unlike = [
        name for name in ALIKE if name not in study.allow_unlike and _differ(records.values(), name, study.metric)
    ]
    if not unlike:
        return
    sides: dict[tuple[str | None, ...], list[str]] = {}
    for first, *others in (group for group in arms.values() if group[0] in records):
        values = tuple(getattr(records[first].comparability, name) for name in unlike)
        sides.setdefault(values, []).extend([first, *others])
    raise ConfigurationError(
        f"study {study.name} would have no verdict, since {_described(list(sides.values()), written)} differ in their "
        f"{' and their '.join(ALIKE[name] for name in unlike)}: give all arms the same, or write "
        f"allow_unlike: [{', '.join((*study.allow_unlike, *unlike))}] into the study"
    )


def _measured(config: Node) -> dict[str, object]:
    """Return the settings that decide what is measured; of equal ones no data need be read."""
    batches, data = config["trainer"].get("validation_batches"), dict(config["data"])
    if batches is None:
        data.pop("batch_size", None)
    return {"task": config["task"], "data": data, "trainer": {"validation_batches": batches}}


def _record(study: Study, arm: str, config: Node) -> RunRecord | None:
    """Return what the records of the arm will say of its measurement, from its data and task alone; None where their
    code fails, which its runs record."""
    try:
        data = build_data(config)
        measurement = Measurement(data, build_task(config, data.spec()), config["trainer"].get("validation_batches"))
        return RunRecord(
            id=arm,
            config=dict(config),
            data=measurement.validation_texts(),
            scales={metric.name: metric for metric in measurement.task.metrics},
            comparability=measurement.comparability(),
        )
    except UsageError as error:
        raise ConfigurationError(f"study {study.name}, arm {arm}: {error}") from error
    except Exception:
        return None


def _differ(records: Iterable[RunRecord], name: str, metric: str) -> bool:
    """Return whether this condition alone would forbid a verdict."""
    try:
        refuse_unlike(records, allowed=ALIKE.keys() - {name}, metric=metric)
    except NotComparable:
        return True
    return False


def _described(sides: Sequence[Sequence[str]], written: Mapping[str, Node]) -> str:
    """Return the arms of each measurement, with the fields that set it apart."""
    fields = [_fields(written[first]) for first, *_ in sides]
    names = _unlike_fields(fields)
    shown = [name for name in names if not any(name.startswith(f"{group}.") and group in names for group in _GROUPS)]
    described = (
        f"{_listed(arms)} ({_listed([f'{name}={show(side[name])}' for name in shown if name in side])})"
        for arms, side in zip(sides, fields, strict=True)
    )
    return " and ".join(described)


def _fields(config: Node) -> dict[str, object]:
    """Return what decides the measurement by the fields to type, the choices of groups among them."""
    return {**{group: config["choices"].get(group) for group in _GROUPS}, **dict(leaves(_measured(config)))}


def _unlike_fields(sides: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the fields that all sides have with other values; where there are none, those that some alone have."""
    names = dict.fromkeys(name for side in sides for name in side)
    unlike = [name for name in names if any(side.get(name) != sides[0].get(name) for side in sides)]
    return [name for name in unlike if all(name in side for side in sides)] or unlike


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _FEW} more" if len(words) > _FEW else ""
    return ", ".join(words[:_FEW]) + more
