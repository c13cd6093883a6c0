"""A finished run as safetensors, in the hub's format, as a torch.export program, or as ONNX, with an account of the
check beside it."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor
from torch.export import ExportedProgram

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.heads import name_of
from headtohead.architectures.vocabulary_heads import MultiTokenLanguageModel
from headtohead.config.build import make_model
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.to_published import write_hub
from headtohead.config.run_config import RunConfig
from headtohead.files.atomic_write import move_into_place, replace_bytes, replace_file, replace_text
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.finished_runs.traced_graph import InputShape, limits, part_in, part_with, quietly, shapes, traced
from headtohead.pretrained.checkpoint_writer import write_safetensors
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from headtohead.pretrained.model_family import InexpressibleError
from headtohead.pretrained.weight_conversion import convert_weights
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import load_best, put_weights

if TYPE_CHECKING:
    from headtohead.finished_runs.finished_run import FinishedRun


Form = Literal["safetensors", "hub", "torch", "onnx"]
_ONNX = ("onnx", "onnxscript", "onnxruntime")
_BESIDE = ("config.yaml", "tokenizer.json")
"""Files of the run that whoever reads the weights needs too."""


@dataclass(frozen=True)
class Exported:
    """Files, and what the check found; it is written to export.json beside them."""

    run: str
    """The id of the run."""
    form: Form
    """The format: safetensors, hub, torch or onnx."""
    files: tuple[Path, ...]
    """The files that were written."""
    inputs: tuple[str, ...]
    """The names of the inputs of the exported model, in their order."""
    rows: tuple[LogitDifference, ...]
    """The differences between its logits and the run's, one for each shape that was tried."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, as export.json holds them."""
        return {
            **asdict(self),
            "files": [file.name for file in self.files],
            "rows": [asdict(row) for row in self.rows],
            "torch": torch.__version__,
        }


def _has_files(folder: Path) -> bool:
    return any(not path.is_dir() for path in folder.rglob("*"))


def export(run: FinishedRun, form: Form, folder: Path | None = None) -> Exported:
    """Export into RUN/export/FORM, unless a folder is given; raise ConfigurationError with the reason if that is
    impossible."""
    if form not in get_args(Form):
        raise ConfigurationError(f"--to {form} is not an export format: choose one of {', '.join(get_args(Form))}")
    if folder is not None and _has_files(folder) and not (folder / "export.json").is_file():
        raise ConfigurationError(f"--out {folder} holds files that are not an export: name a new or an empty folder")
    folder = run.folder / "export" / form if folder is None else folder
    model = run.model
    most = limits(model, _export_data(run))
    tried = shapes(most)
    names = tuple(tried[0].inputs(model))
    with _made(folder):
        if form == "hub":
            file, artefact = to_hub(run, model, folder)
            beside = [folder / name for name in FILES if (folder / name).is_file()]
        else:
            file, artefact = _WRITERS[form](model, most, folder, names)
            beside = [_copied(run.folder / name, folder) for name in _BESIDE if (run.folder / name).is_file()]
    result = Exported(run.record.id, form, (file, *beside), names, tuple(compare_logits(model, artefact, tried)))
    replace_text(folder / "export.json", json.dumps(result.to_dict(), indent=2) + "\n")
    return result


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A refusal leaves no empty folder behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {folder} cannot be created ({error.strerror}): give another folder") from None
    try:
        yield
    except ConfigurationError:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise


def _copied(file: Path, folder: Path) -> Path:
    replace_bytes(folder / file.name, file.read_bytes())
    return folder / file.name


def _export_data(run: FinishedRun) -> dict[str, int | None]:
    """The longest rows that the run was trained on, by the input they are."""
    model = RunConfig(run.config).model
    return {"tokens": model.get("max_length"), "decoder_tokens": model.get("max_target_length")}


def _safetensors(
    model: Architecture, most: Mapping[str, int | None], folder: Path, names: tuple[str, ...]
) -> tuple[Path, Runs]:
    """Tied weights once, under their first name; the artefact is a model that read them back."""
    from safetensors.torch import load_file

    del most, names
    weights, seen = dict[str, Tensor](), set[int]()
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or not tensor.numel():
            weights[name] = tensor.contiguous()
        seen.add(tensor.data_ptr())
    file = folder / "model.safetensors"
    write_safetensors(weights, file)
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
        traced_model = traced(model, most)
        replace_file(file, lambda open_file: torch.export.save(traced_model, open_file))
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
        with torch.no_grad(), quietly():  # with gradients, attention with learned biases has strides of another kernel
            made = torch.onnx.export(
                program, dynamo=True, verbose=False, input_names=list(names), output_names=["logits"]
            )
            assert made is not None, "without a path the exporter gives a program"
    except Exception as error:
        raise ConfigurationError(
            f"{_untranslated(error, program, model)}: use --to torch or --to safetensors, or a run with another choice "
            "there"
        ) from error
    _save(made, file)
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


def _save(program: torch.onnx.ONNXProgram, file: Path) -> None:
    """Weights of gigabytes lie in a second file beside it, which the first one names."""
    with TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as unfinished:
        program.save(str(Path(unfinished, file.name)))
        for written in sorted(Path(unfinished).iterdir(), reverse=True):
            move_into_place(written, file.with_name(written.name))


def _untranslated(error: Exception, program: ExportedProgram, model: Architecture) -> str:
    """Name the model's part and the operation that the exporter cannot express in ONNX."""
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


Runs = Callable[[Mapping[str, Tensor]], Tensor]
"""The artefact: logits of named inputs."""
_Writer = Callable[[Architecture, Mapping[str, int | None], Path, tuple[str, ...]], tuple[Path, Runs]]
_WRITERS: Mapping[Form, _Writer] = {"safetensors": _safetensors, "torch": _torch, "onnx": _onnx}


FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""The files that may stand beside the weights."""


def to_hub(run: FinishedRun, model: Architecture, folder: Path) -> tuple[Path, Runs]:
    """Return the file with the weights, and a model of fresh weights that took those of the folder."""
    if isinstance(model.head, MultiTokenLanguageModel):
        way = f"--from-run {run.folder} task=causal_lm init_from=run:{run.folder} trainer.max_steps=0"
        raise ConfigurationError(
            "--to hub: the hub's forms have no place for the further heads of task=multi_token_prediction, which "
            f"writing does not need: export the run that leaves them out, h2h train {way}"
        )
    tokenizer = RunFolder.open(run.folder).read_tokenizer()
    class_names = load_best(run.folder).get("class_names", ())
    try:
        write_hub(model, run.config, folder, tokenizer=tokenizer, class_names=class_names)
    except InexpressibleError as error:
        raise ConfigurationError(f"--to hub: {error}") from None
    again = make_model(run.config)
    put_weights(convert_weights(open_checkpoint(f"hf:{folder}"), name_of(model.head)).weights, again, strict=False)
    again.eval()
    return folder / "model.safetensors", lambda inputs: again(**inputs)


_ROUNDS = 7
_TOLERANCE = 1e-4
"""The largest difference that is accepted, as a share of the largest logit."""


@dataclass(frozen=True)
class LogitDifference:
    """A logit difference was measured at one shape."""

    batch: int
    length: int
    target: int
    difference: float
    """The largest, over the largest logit."""
    eager_ms: float
    artefact_ms: float


def compare_logits(model: Architecture, artefact: Runs, shapes: Sequence[InputShape]) -> list[LogitDifference]:
    """Raises ConfigurationError where logits differ."""
    rows = []
    for shape in shapes:
        inputs = shape.inputs(model)
        with torch.inference_mode():
            expected = model(**inputs)
            difference = float((artefact(inputs) - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
            if not difference <= _TOLERANCE:
                raise ConfigurationError(
                    f"the artefact's logits differ from the run's by {difference:.1e} of the largest for "
                    f"{shape.batch} rows of {shape.length}: do not use it; please report this with the run's "
                    "config.yaml"
                )
            eagerly: Runs = lambda batch: model(**batch)  # noqa: E731 - both sides are called alike
            pairs = [(_seconds(eagerly, inputs), _seconds(artefact, inputs)) for _ in range(_ROUNDS)]
        eager, other = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
        rows.append(LogitDifference(shape.batch, shape.length, shape.target, difference, eager, other))
    return rows


def _seconds(call: Runs, inputs: Mapping[str, Tensor]) -> float:
    started = time.perf_counter()
    call(inputs)
    return time.perf_counter() - started
