"""A finished run as safetensors, in the hub's format, as a torch.export program, or as ONNX, with an account of the
check beside it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.export import ExportedProgram

from headtohead.architectures.contracts import Architecture
from headtohead.building.errors import ConfigurationError
from headtohead.examining.export.blaming import part_in, part_with
from headtohead.examining.export.checking import Row, Runs, compared
from headtohead.examining.export.graph import limits, quietly, shapes, traced
from headtohead.examining.export.hub import FILES, to_hub
from headtohead.examining.finished import FinishedRun
from headtohead.files.writing import replace_text

Form = Literal["safetensors", "hub", "torch", "onnx"]
_ONNX = ("onnx", "onnxscript", "onnxruntime")
_BESIDE = ("config.yaml", "tokenizer.json")
"""Files of the run that whoever reads the weights needs too."""


@dataclass(frozen=True)
class Exported:
    """Files, and what the check found; it is written to export.json beside them."""

    run: str
    form: Form
    files: tuple[Path, ...]
    inputs: tuple[str, ...]
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "files": [file.name for file in self.files],
            "rows": [asdict(row) for row in self.rows],
            "torch": torch.__version__,
        }


def export(run: FinishedRun, form: Form, folder: Path | None = None) -> Exported:
    """Into RUN/export/FORM, unless a folder is given; raises ConfigurationError with the reason why not."""
    if form not in get_args(Form):
        raise ConfigurationError(f"--to {form} is no form of export: choose one of {', '.join(get_args(Form))}")
    folder = run.folder / "export" / form if folder is None else folder
    model = run.model
    most = limits(model, _told(run))
    tried = shapes(most)
    names = tuple(tried[0].inputs(model))
    with _made(folder):
        if form == "hub":
            file, artefact = to_hub(run, model, folder)
            beside = [folder / name for name in FILES if (folder / name).is_file()]
        else:
            file, artefact = _WRITERS[form](model, most, folder, names)
            beside = [Path(shutil.copy(run.folder / name, folder)) for name in _BESIDE if (run.folder / name).is_file()]
    found = Exported(run.record.id, form, (file, *beside), names, tuple(compared(model, artefact, tried)))
    replace_text(folder / "export.json", json.dumps(found.to_dict(), indent=2) + "\n")
    return found


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A refusal leaves no empty folder behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {folder} cannot be made ({error.strerror}): give another folder") from None
    try:
        yield
    except ConfigurationError:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise


def _told(run: FinishedRun) -> dict[str, int | None]:
    """The longest rows that the run was trained on, by the input they are."""
    model = run.config["model"]
    return {"tokens": model.get("max_length"), "decoder_tokens": model.get("max_target_length")}


def _safetensors(
    model: Architecture, most: Mapping[str, int | None], folder: Path, names: tuple[str, ...]
) -> tuple[Path, Runs]:
    """Tied weights once, under their first name; the artefact is a model that read them back."""
    from safetensors.torch import load_file, save_file

    del most, names
    weights, seen = dict[str, Tensor](), set[int]()
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or not tensor.numel():
            weights[name] = tensor.contiguous()
        seen.add(tensor.data_ptr())
    file = folder / "model.safetensors"
    save_file(weights, file, metadata={"format": "pt"})
    again = deepcopy(model)
    with torch.no_grad():
        for tensor in again.state_dict().values():
            tensor.zero_()
    again.load_state_dict(load_file(file), strict=False)
    return file, lambda inputs: again(**inputs)


def _torch(
    model: Architecture, most: Mapping[str, int | None], folder: Path, names: tuple[str, ...]
) -> tuple[Path, Runs]:
    file = folder / "model.pt2"
    with quietly():
        torch.export.save(traced(model, most), file)
        program = torch.export.load(file).module()
    return file, lambda inputs: program(*(inputs[name] for name in names))


def _onnx(
    model: Architecture, most: Mapping[str, int | None], folder: Path, names: tuple[str, ...]
) -> tuple[Path, Runs]:
    if missing := [name for name in _ONNX if find_spec(name) is None]:
        raise ConfigurationError(f"--to onnx needs {', '.join(missing)}: pip install 'headtohead[export]'")
    import onnxruntime

    file = folder / "model.onnx"
    program = traced(model, most)
    try:
        with quietly():
            made = torch.onnx.export(
                program, dynamo=True, verbose=False, input_names=list(names), output_names=["logits"]
            )
            assert made is not None, "without a path the exporter gives a program"
            made.save(str(file))
    except Exception as error:
        raise ConfigurationError(
            f"{_untranslated(error, program, model)}: use --to torch or --to safetensors, or a run with another choice "
            "there"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a kind of error for each trouble, and no kind for all
        file.unlink()
        raise ConfigurationError(_unopened(error, model)) from error

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: inputs[name].numpy() for name in names})[0])

    return file, run


def _untranslated(error: Exception, program: ExportedProgram, model: Architecture) -> str:
    """What the exporter has no ONNX for, by the model's part and its operation."""
    unknown = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))
    if unknown is None:
        return f"the ONNX exporter cannot translate {part_in(error, model) or 'this model'}"
    part = part_with(unknown[1], program, model) or "this model"
    return f"ONNX has no operation for what {part} computes ({unknown[1]})"


def _unopened(error: Exception, model: Architecture) -> str:
    """Say why onnxruntime does not open what the exporter wrote."""
    kind = str(next(model.parameters()).dtype).removeprefix("torch.")
    missing = re.search(r"implementation for (\w+)\(", str(error))
    what = f"has no {missing[1]} in {kind}" if missing else f"does not open it ({str(error).splitlines()[0][:200]})"
    return f"onnxruntime {what}: use --to torch or --to safetensors, or a run with precision=32-true"


_Writer = Callable[[Architecture, Mapping[str, int | None], Path, tuple[str, ...]], tuple[Path, Runs]]
_WRITERS: Mapping[Form, _Writer] = {"safetensors": _safetensors, "torch": _torch, "onnx": _onnx}
