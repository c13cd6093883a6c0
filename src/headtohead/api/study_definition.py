"""A study as Python writes it: the fields of its YAML file, with arms and data that may be objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_type_hints

from headtohead.api.argument_types import check_types, own_values
from headtohead.api.defined_here import is_defined_here, own_choice, own_choices_in, target_of
from headtohead.api.error_translation import python_errors
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import field_overrides, key_of, leaves, value_in_override
from headtohead.config.errors import show
from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import parse_yaml, read_text
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.definition.study import Study as CheckedStudy
from headtohead.studies.definition.study_fields import FIELDS
from headtohead.studies.definition.tuning_field import UNTUNED

Arm = Sequence[object] | Mapping[str, object] | type | Callable[..., object]
"""Overrides, a configuration, a class of nn.Module, or what makes one (a function, or functools.partial of either); a
mixer, norm, position or feed-forward of the user's own takes its slot, alone or in a list with overrides."""
_NOT_OF_THE_FILE = ("name", "data")
_NEVER = ("seed", "name", "group", "output_dir", "choices", "resume_from", "notes", "tags", "replaced")
"""Fields of a configuration that a study sets itself, or that make no other run."""
_ELSEWHERE = "was written in a notebook or script, and cannot be run again elsewhere"


@dataclass(frozen=True, eq=False)
class StudyDefinition:
    """A question about architectures: `h2h.Study(question=..., arms={"gelu": [...], "swiglu": [...]}, seeds=5)`.

    Every field is that of a study's file (docs/study.md); what is left out has the default of the file. Arms may be
    lists of overrides, configurations, classes of `nn.Module` or functions that make one; `data` a frame, a
    `datasets.Dataset`, tensors or a path, in place of overrides in `base`. `h2h.study(...)` runs it.
    """

    question: str = ""
    arms: Mapping[str, Arm] = field(default_factory=dict)
    name: str = "mine"
    data: object = None
    """A frame, a `datasets.Dataset`, tensors or a path, in place of overrides in `base`."""
    base: Sequence[str] = ()
    seeds: int | Sequence[int] | Mapping[str, object] = 3
    metric: str = "test/loss"
    direction: Literal["min", "max"] | None = None
    baseline: str | None = None
    hypothesis: str = "not written down"
    tuning: str | Mapping[str, object] = UNTUNED
    margin: float | None = None
    budget: str | Mapping[str, object] | None = None
    contrasts: Sequence[Sequence[str]] | None = None
    expected: Mapping[str, Sequence[str]] | None = None
    movable: Mapping[str, Sequence[str]] | None = None
    looks: Sequence[int] | None = None
    shares: Sequence[float] | None = None
    lengths: Sequence[int] | None = None
    foundations: Mapping[str, Sequence[str]] | None = None
    ablation: Mapping[str, object] | None = None
    scaling: Mapping[str, object] | None = None
    allow_unlike: Sequence[str] | None = None
    seed_offsets: Mapping[str, int] | None = None
    vary: Sequence[str] | None = None
    alpha: float | None = None
    best: float | None = None
    solved_at: float | None = None
    first_seed: int | None = None

    def __post_init__(self) -> None:
        types = {**get_type_hints(type(self)), "arms": Mapping[str, object]}  # an arm has refusals of its own
        for name, hint in types.items():
            if name != "data":
                object.__setattr__(self, name, own_values(getattr(self, name), hint))
        check_types("Study", vars(self), types)

    def fields(self) -> dict[str, Any]:
        """Return the fields as the file has them: plain values, those left out not among them."""
        filled = {name: getattr(self, name) for name in FIELDS if getattr(self, name) not in (None, (), {})}
        base = (*self._data_overrides(), *self.base)
        arms = {name: list(arm_overrides(arm)) for name, arm in self.arms.items()}
        if is_defined_here([word for arm in arms.values() for word in arm]):
            written = " and ".join(name for name, arm in arms.items() if is_defined_here(arm))
            base = (*base, f"notes={value_in_override(f'{written} {_ELSEWHERE}')}")
        derived: dict[str, Any] = {"direction": self.direction or _direction(self.metric)}
        if self.ablation is None:
            derived |= {"arms": arms, "baseline": self.baseline or next(iter(arms), "")}
        plain: dict[str, Any] = _plain({**filled, **derived, **({"base": list(base)} if base else {})})
        return {name: plain[name] for name in FIELDS if name in plain}

    def _data_overrides(self) -> Sequence[str]:
        if self.data is None:
            return ()
        from headtohead.api.own_data import overrides_for
        from headtohead.diagnostics.described_data import reads_by

        return overrides_for(self.data, [word for word in self.base if reads_by(word)])

    def checked(self) -> CheckedStudy:
        """Return the study as it runs; raise UsageError where its fields are inconsistent."""
        return study_from(self.name, self.fields())

    @property
    def is_defined_here(self) -> bool:
        """Return whether some arm is built from what only this process knows."""
        return is_defined_here([word for arm in self.fields().get("arms", {}).values() for word in arm])

    @property
    def config_dir(self) -> Path | None:
        """Return the folder with the choices of classes of the user's own; None where no arm has any."""
        return own_choices_in([word for arm in self.fields().get("arms", {}).values() for word in arm])

    @python_errors
    def to_yaml(self, file: str | Path | None = None) -> str:
        """Return the text of the study's file, and write it where a file is named; the study is checked first."""
        import yaml

        self.checked()
        text = str(yaml.safe_dump(self.fields(), sort_keys=False, allow_unicode=True, width=110))
        if file is not None:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            replace_text(Path(file), text)
        return text

    @classmethod
    @python_errors
    def from_yaml(cls, file: str | Path) -> StudyDefinition:
        """Read a study's file, or the text of one."""
        is_text = isinstance(file, str) and "\n" in file
        text = str(file) if is_text else read_text(Path(file))
        content = parse_yaml(text, Path("the study" if is_text else file))
        if not isinstance(content, dict):
            raise UsageError(f"{file} holds no fields: a study needs question, arms, seeds, metric and baseline")
        return cls.from_fields("mine" if is_text else Path(file).stem, content)

    @classmethod
    def from_fields(cls, name: str, content: Mapping[str, Any]) -> StudyDefinition:
        """Return the study of these fields, checked as those of a file are."""
        study_from(name, dict(content))
        return cls(name=name, **content)

    def __repr__(self) -> str:
        arms = ", ".join(self.arms) if self.ablation is None else "made by its ablation"
        return f"Study {self.name}: {self.question}\narms: {arms}\n{self.metric} over {show(self.seeds)} seeds"


assert {each.name for each in fields(StudyDefinition)} == {*FIELDS, *_NOT_OF_THE_FILE}


def arm_overrides(arm: object) -> tuple[str, ...]:
    """Return the overrides that make an arm."""
    if isinstance(arm, str):
        raise UsageError(f"an arm must be a list of overrides, not a string: give [{arm!r}]")
    if isinstance(arm, Mapping):
        return tuple(_changes(arm))
    if isinstance(arm, Sequence):
        return tuple(word for part in arm for word in ((part,) if isinstance(part, str) else arm_overrides(part)))
    made, options = (arm.func, arm.keywords) if isinstance(arm, partial) else (arm, {})
    if not callable(made) or not hasattr(made, "__name__"):
        raise UsageError(
            f"an arm is {type(arm).__name__}: give a list of overrides, a configuration, a class of nn.Module, or a "
            "function that makes one (an instance of a module would start every seed from the same weights)"
        )
    if (chosen := own_choice(made, options)) is not None:
        return (chosen,)
    arguments = (f"+model.module.{name}={value_in_override(value)}" for name, value in options.items())
    return ("model=external", f"model.module._target_={target_of(made)}", *arguments)


def _changes(config: Mapping[str, Any]) -> list[str]:
    """Return the overrides that make a configuration from its own choices; nested keys that are not a whole
    configuration become overrides as they stand."""
    if "choices" not in config:
        return field_overrides(config)
    chosen = [f"{group}={choice}" for group, choice in config["choices"].items() if choice is not None]
    chosen = [word for word in chosen if "@" not in word and not word.startswith("experiment=")]
    plain = dict(leaves(compose_checked("train", chosen)))
    own = dict(leaves(config))
    changed = [
        f"{path}={value_in_override(value)}" for path, value in own.items() if path not in plain or plain[path] != value
    ]
    return [*chosen, *(word for word in changed if key_of(word).partition(".")[0] not in _NEVER)]


def _direction(metric: str) -> str:
    from headtohead.metrics import metric_named

    known = metric_named(metric.partition("/")[2])
    if known is None or known.direction is None:
        raise UsageError(f"metric={metric} has no known direction: give direction='min' or 'max'")
    return known.direction


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
