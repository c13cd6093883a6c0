"""Completion in a shell: commands, options, groups, choices, fields and run folders, in a tenth of a second.

The shell calls `h2h --complete WORD ...` with the words of the line, the one at the cursor last, and shows the lines
that are printed. Only files are read: no Hydra, no torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from headtohead.cli import COMMANDS
from headtohead.cli.options import LIST_OPTIONS, OptionsListed
from headtohead.cli.terminal import out, say
from headtohead.config.compose.choices import STUDY, choices, config_folders, folders, groups
from headtohead.config.schema.slots import slot_of
from headtohead.config.schema.source_code import arguments
from headtohead.errors import UsageError

INSTALL, SHOW, COMPLETE = "--install-completion", "--show-completion", "--complete"
RUNS = {"generate", "evaluate", "probe", "export", "embed", "compare", "sync", "dashboard"}
"""Commands that take folders of runs as they stand."""
_PATHS = ("resume_from=", "init_from=run:", "output_dir=", "data.path=")
PATH_OPTIONS = {"--from-run", "--config-dir", "--html", "--csv"}
_SCRIPTS = {
    "bash": """\
_h2h() {
    local line="${COMP_LINE:0:COMP_POINT}" words cur="${COMP_WORDS[COMP_CWORD]}" full before
    read -ra words <<< "$line"
    [[ "$line" == *" " ]] && words+=("")
    full="${words[-1]}"
    [[ "$cur" == [=:] ]] && cur=""
    before="${full%"$cur"}"  # bash breaks words at = and :
    mapfile -t COMPREPLY < <(h2h --complete "${words[@]:1}" 2> /dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    [[ "${COMPREPLY[0]}" == *[=/.:] ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -F _h2h h2h
""",
    "zsh": """\
#compdef h2h
_h2h() {
    local -a found
    found=("${(@f)$(h2h --complete "${(@)words[2,CURRENT]}" 2> /dev/null)}")
    local -a open=(${(M)found:#*[=/.:]}) closed=(${found:#*[=/.:]})
    (( $#open )) && compadd -Q -S '' -- $open
    (( $#closed )) && compadd -Q -- $closed
}
compdef _h2h h2h
""",
    "fish": """\
complete -c h2h -f -a '(h2h --complete (commandline -opc)[2..] (commandline -ct) 2> /dev/null)'
""",
}


def candidates(words: Sequence[str], commands: Iterable[str]) -> list[str]:
    """Return what the last word may become; the first is the command."""
    *before, typed = words or [""]
    if not before:
        return _beginning(typed, [*commands, "--help", "--version", INSTALL, SHOW])
    command, *typed_before = before
    if command not in commands:
        return []
    if typed_before and typed_before[-1] in PATH_OPTIONS:
        return _paths("", typed)
    if typed.startswith("-"):
        return _beginning(typed, _options(command))
    if path := next((key for key in _PATHS if typed.startswith(key)), None):
        return _paths(path, typed.removeprefix(path))
    if command == "list":
        return _beginning(typed, folders(_config_dir(typed_before)))
    if command in RUNS:
        return _paths("", typed)
    if command == "study" and not [word for word in typed_before if not word.startswith("-") and "=" not in word]:
        return [*_beginning(typed, _choice_names(STUDY, typed_before)), *(_paths("", typed) if "/" in typed else [])]
    return _beginning(typed, _overrides(typed, typed_before))


def _beginning(typed: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(typed)})


def _config_dir(words: Sequence[str]) -> str | None:
    for option, value in pairwise(words):
        if option == "--config-dir" and Path(value).is_dir():
            return value
    return None


def _choice_names(group: str, words: Sequence[str]) -> list[str]:
    return [choice.name for choice in choices(group, _config_dir(words))]


def _options(command: str) -> list[str]:
    try:
        import_module(f"headtohead.cli.{COMMANDS[command][0]}").run([LIST_OPTIONS])
    except OptionsListed as listed:
        return listed.options
    return []


def _overrides(typed: str, words: Sequence[str]) -> Iterator[str]:
    """Yield groups and fields, and once the sign of equality stands there, the choices."""
    known = groups(_config_dir(words))
    group, equals, _ = typed.partition("=")
    if equals:
        if group in known:
            yield from (f"{group}={name}" for name in _choice_names(group, words))
        return
    yield from (f"{name}=" for name in known)
    path, dot, _ = typed.rpartition(".")
    if not dot:
        yield from (f"{name}." for name in known if "/" not in name)
        yield from (f"{field}=" for field in _fields_of_the_run())
        return
    for field in _fields(path.replace(".", "/"), words):
        yield f"{path}.{field}{'.' if f'{path}.{field}'.replace('.', '/') in known else '='}"


def _fields_of_the_run() -> list[str]:
    lines = (config_folders()[0] / "train.yaml").read_text(encoding="utf-8").splitlines()
    return [line.partition(":")[0] for line in lines if line[:1].isalpha() and not line.startswith("defaults")]


def _fields(group: str, words: Sequence[str]) -> list[str]:
    """Return what the class of the group's choice takes: the choice that was typed, else the one that its parent's
    file names."""
    name = _chosen(group, words)
    known = {choice.name: choice for choice in choices(group, _config_dir(words))} if name else {}
    taken = arguments(known[name].target) if name in known and known[name].target else None
    return [] if taken is None else [item.name for item in taken if item.name not in slot_of(group).passed]


def _chosen(group: str, words: Sequence[str]) -> str | None:
    typed = [word.partition("=")[2] for word in words if word.partition("=")[0] == group]
    if typed:
        return typed[-1]
    parent, _, leaf = group.rpartition("/")
    file = config_folders()[0] / "train.yaml"
    if parent:
        above = _chosen(parent, words)
        file = next((one.path for one in choices(parent, _config_dir(words)) if one.name == above), file)
    return _named_in_defaults(file, leaf)


def _named_in_defaults(file: Path, leaf: str) -> str | None:
    """Read `  - leaf: NAME` from the list of defaults."""
    for line in file.read_text(encoding="utf-8").splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(":")
        if line.lstrip().startswith("- ") and key.split("@")[0].removeprefix("override ").strip("/") == leaf:
            return value.partition("#")[0].strip()
    return None


def _paths(prefix: str, typed: str) -> list[str]:
    """Return folders and files below what was typed; a run's folder is offered as it is, others are gone into."""
    folder, name = os.path.split(typed)
    paths = []
    try:
        entries = list(os.scandir(folder or "."))
    except OSError:
        return []
    for entry in entries:
        if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith(".")):
            goes_on = entry.is_dir() and not (Path(entry.path) / "record.json").exists()
            paths.append(f"{prefix}{typed[: len(typed) - len(name)]}{entry.name}{'/' if goes_on else ''}")
    return sorted(paths)


def run(words: Sequence[str]) -> int:
    """Do what the first word asks for: print candidates, print a shell's script, or install it."""
    option, *rest = words
    if option == COMPLETE:
        if result := candidates(rest, COMMANDS):
            out("\n".join(result))
        return 0
    shell = rest[0] if rest else Path(os.environ.get("SHELL", "")).name
    if shell not in _SCRIPTS:
        named = f"{shell} is not one of them" if shell else "SHELL names none"
        raise UsageError(f"completion is there for {', '.join(_SCRIPTS)}, and {named}: h2h {option} bash")
    if option == SHOW:
        out(_SCRIPTS[shell].rstrip())
    else:
        say(_install(shell))
    return 0


def _install(shell: str) -> str:
    """Write the script where the shell looks for it; return what was written and what is left to do."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    file = {
        "bash": data / "bash-completion/completions/h2h",
        "zsh": data / "headtohead/h2h.zsh",
        "fish": settings / "fish/completions/h2h.fish",
    }[shell]
    from headtohead.files.atomic_write import replace_text

    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, _SCRIPTS[shell])
    left = {
        "bash": f"where the package bash-completion is not installed, add to ~/.bashrc: source {file}",
        "zsh": f"add to ~/.zshrc, after compinit: source {file}",
        "fish": "it holds in every new shell",
    }[shell]
    return f"wrote {file}: {left}"
