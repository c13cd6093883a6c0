"""The package has one place for each way in which a file or a text could become code, and none for the others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "headtohead"
PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
ERRORS = {"PickleError", "PicklingError", "UnpicklingError"}
"""The errors that others raise, and that may be caught."""
LOADERS = {"Loader", "CLoader", "FullLoader", "CFullLoader", "UnsafeLoader", "CUnsafeLoader"}
"""The loaders of YAML that are unsafe; the safe ones are left."""
CODE = {"eval", "exec", "compile", "__import__"}
REFUSED = {
    "read_pickle", "load_from_checkpoint", "unsafe_load", "full_load", "unsafe_load_all", "full_load_all", "load_all",
    "load_dataset", "from_pretrained", "register_new_resolver", "register_resolver", "get_method", "get_object",
    "get_class", "run_path", "run_module", "load_module", "exec_module",
}  # fmt: skip
"""Methods that load code or objects by a name or from a file, whoever has them."""
ALLOWED = {
    "torch.load": {"training/checkpoints.py"},
    "instantiate": {"config/instantiate.py"},
    "read_config": {"config/trust.py", "records/run_folder.py"},
    "self._loader.exec_module": {"lazy_packages.py"},  # Python's own loader of the packages listed there
    "import_module": {
        "__init__.py",  # the names of the Python API
        "architectures/heads.py",  # the heads listed in head_names.py
        "api/__init__.py",  # the same
        "api/progress.py",  # the same, of a notebook's own progress
        "api/reported_figure.py",  # IPython, in which the notebook runs that shows the figure
        "cli/__init__.py",  # the module of a command
        "cli/completion.py",  # the same
        "components/fast_kernels.py",  # projects listed there
        "diagnostics/named_class.py",  # the class that `h2h check` is given on the command line
        "lazy_packages.py",  # the modules listed there
        "metrics/__init__.py",  # the files of its own folder
        "wandb_client/workspace_pages.py",  # W&B's package
    },
}
"""The files in which each of these may stand."""


def result(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield what the law is about, as it is called, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and written(node.value).partition(".")[0] in PICKLES:
            yield from [] if node.attr in ERRORS else [(ast.unparse(node), node.lineno)]
        elif isinstance(node, ast.Attribute) and node.attr in LOADERS:
            yield node.attr, node.lineno
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.asname and alias.name in PICKLES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PICKLES:
            yield from ((f"{node.module}.{one.name}", node.lineno) for one in node.names if one.name not in ERRORS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("hydra.utils", "hydra._internal.in")):
            yield "instantiate", node.lineno
        elif isinstance(node, ast.Constant) and node.value in LOADERS:
            yield str(node.value), node.lineno
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only", "trust_remote_code"):
            safe = node.arg == "weights_only"
            if not (isinstance(node.value, ast.Constant) and node.value.value is safe):
                yield f"{node.arg}={ast.unparse(node.value)}", node.lineno
        elif isinstance(node, ast.Call):
            yield from of_call(node)


def written(called: ast.expr) -> str:
    """Return the code of what is called; names with dots, which most are, without the walk of `ast.unparse`."""
    match called:
        case ast.Name(name):
            return name
        case ast.Attribute(owner, name):
            return f"{written(owner)}.{name}"
    return ast.unparse(called)


def of_call(node: ast.Call) -> Iterator[tuple[str, int]]:
    called, line = written(node.func), node.lineno
    name = called.rpartition(".")[2]
    if called in CODE or name in REFUSED or called.startswith("torch.hub."):
        yield called, line
    elif name in ("import_module", "instantiate") or (name == "read_config" and "." in called):
        yield name, line
    elif called == "torch.load":
        yield "torch.load" if "weights_only" in {one.arg for one in node.keywords} else "torch.load, unguarded", line
    elif called == "yaml.load" and "Loader" not in {one.arg for one in node.keywords}:
        yield called, line


def broken(path: str, loads: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{path}:{line} {what}" for what, line in loads if path not in ALLOWED.get(what, ())]


@pytest.mark.slow
def test_nothing_in_the_package_loads_code_but_where_it_is_listed() -> None:
    files = {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    loads = {path: list(result(ast.parse(text))) for path, text in files.items()}
    assert [fault for path, own in loads.items() for fault in broken(path, own)] == []
    used = {(what, path) for path, own in loads.items() for what, _ in own}
    assert {(what, path) for what, paths in ALLOWED.items() for path in paths} == used, "listed, and not used"


@pytest.mark.parametrize(
    "text",
    [
        "pickle.load(f)", "import pickle as p", "from joblib import load", "torch.load(f)",
        "torch.load(f, weights_only=True)", "yaml.load(t, Loader=getattr(yaml, 'CLoader'))",
        "load(f, weights_only=False)", "np.load(f, allow_pickle=True)", "np.load(f, allow_pickle=asked)",
        "yaml.load(t)", "yaml.load(t, Loader=yaml.UnsafeLoader)", "yaml.full_load(t)", "eval(t)", "exec(t)",
        "from hydra.utils import get_class", "importlib.import_module(t)", "run.read_config()", "pd.read_pickle(f)",
        "OmegaConf.register_new_resolver('a', f)", "AutoModel.from_pretrained(t)", "hydra.utils.instantiate(c)",
    ],
)  # fmt: skip
def test_the_law_finds(text: str) -> None:
    assert broken("elsewhere.py", result(ast.parse(text)))
    harmless = "yaml.safe_load(t); pickle.UnpicklingError; re.compile(t); model.eval(); np.load(f, allow_pickle=False)"
    assert not broken("elsewhere.py", result(ast.parse(harmless)))
