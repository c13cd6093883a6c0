"""`h2h check PACKAGE.CLASS`: the laws that every component obeys, held over one class."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import Parser, parse, parser, within
from headtohead.cli.terminal import out, say, show_table
from headtohead.ranges import Width

if TYPE_CHECKING:
    from rich.table import Table

    from headtohead.examining.contract import Case, Held

_EXAMPLES = """\
examples:
  h2h check my_package.MyMixer                     a class of your own, found from this folder or on PYTHONPATH
  h2h check my_package.MyMixer window=4            with options, as its YAML file would give them
  h2h check my_package.MyMixer --twin my_package.SlowMixer
                                                   against the plain form that nobody can get wrong
  h2h check my_package.MyMixer --thorough          in double, single and half precision

Mixers, cross mixers, positions, norms and feed-forwards are known by the class of headtohead.components.contracts that
they derive from. What passes is used in runs and studies by a YAML file of yours:

  my_conf/model/mixer/mine.yaml:   _target_: my_package.MyMixer
                                   _partial_: true
  h2h train --config-dir my_conf model/mixer=mine

exit code: 0 every law holds, 1 some law is broken, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    given = parse(_parser(), arguments)
    from headtohead.examining.contract import Sizes, cases, component, options_of

    kind, owner = component(given.target)
    options = options_of(kind, given.target, given.options)
    if given.twin and kind != "mixer":
        raise ConfigurationError(
            f"--twin {given.twin} is refused: {given.target} is no mixer, and only those have twins"
        )
    twin = None if given.twin is None else partial(component(given.twin)[1], **options)
    sizes = Sizes(given.d_model, given.num_heads)
    held = _held(cases(kind, partial(owner, **options), twin, sizes, thorough=given.thorough))
    broken = [found for found in held if found.broken is not None]
    if given.json:
        laws = [{"law": found.case.name, "form": found.case.form, "broken": found.broken} for found in held]
        out(json.dumps({"class": given.target, "kind": kind, "laws": laws}, indent=2))
    else:
        show_table(_table(held))
        say(f"{given.target}, a choice for model/{kind}: {_summary(held, broken)}")
    return 1 if broken else 0


def _parser() -> Parser:
    taken = parser("check", "Hold the laws that every component obeys over one class.", _EXAMPLES)
    taken.add_argument("target", metavar="PACKAGE.CLASS", help="a class that Python can import")
    taken.add_argument("options", nargs="*", metavar="FIELD=VALUE", help="of its constructor")
    taken.add_argument("--twin", metavar="PACKAGE.CLASS", help="the same function, written plainly")
    taken.add_argument("--thorough", action="store_true", help="every law in every precision")
    taken.add_argument("--d-model", type=within(Width), default=16, metavar="N", help="width; default 16")
    taken.add_argument("--num-heads", type=within(Width), default=4, metavar="N", help="heads; default 4")
    taken.add_argument("--json", action="store_true", help="as JSON")
    taken.set_defaults(multirun=False)
    return taken


def _held(listed: Sequence[Case]) -> list[Held]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from headtohead.examining.contract import hold

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    held = []
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task("made", total=len(listed))
        for found in hold(listed):
            held.append(found)
            progress.update(bar, advance=1, description=f"{found.case.name}, {found.case.form}")
    return held


def _table(held: Sequence[Held]) -> Table:
    """A row for each law; one that is broken has one for each form in which it is."""
    from rich.table import Table
    from rich.text import Text

    table = Table(pad_edge=False)
    for name in ("law", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("what it says, or what is broken")
    for law in dict.fromkeys(found.case.law for found in held):
        ours = [found for found in held if found.case.law is law]
        broken = [found for found in ours if found.broken is not None]
        for found in broken:
            table.add_row(law.__name__, Text("failed", style="bold red"), Text(f"{found.case.form}: {found.broken}"))
        if not broken:
            says = " ".join((law.__doc__ or "").split("\n\n")[0].split())
            table.add_row(law.__name__, Text("ok", style="green"), Text(says, style="dim"))
    return table


def _summary(held: Sequence[Held], broken: Sequence[Held]) -> str:
    laws = {found.case.law for found in held}
    failed = {found.case.law for found in broken}
    if not failed:
        return f"all {len(laws)} laws hold"
    return f"{len(failed)} of {len(laws)} laws are broken"
