"""`h2h coordinates [OVERRIDE ...]`: whether a step of training changes as much at every width."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import add_configuration, configuration_text, parse, parser, within
from headtohead.cli.terminal import note, out, show_table
from headtohead.ranges import Count, Every

if TYPE_CHECKING:
    from headtohead.examining.coordinates.findings import Findings
    from headtohead.examining.coordinates.plan import Plan

_EXAMPLES = """\
examples:
  h2h coordinates                                          standard: what a step changes grows with width
  h2h coordinates parametrisation=mup                      maximal update: it does not
  h2h coordinates parametrisation=mup optimizer=sgd --widths 64,128,256,512 --steps 3
  h2h coordinates parametrisation=mup model.num_heads=4 parametrisation.base_head_width=16 --heads more
  h2h coordinates --json                                   exponents and measurements, for a program

Each width takes --steps steps on one small batch, at the configured learning rate without schedule. Of every place
(embedding, blocks, logits) the table shows how much its output has changed since step 0, and the fitted power of the
width. What it was before training is beside it. Under maximal update logits start smaller in wider models, by the root
of the width; "fading" are changes that still follow this, as long as little is learnt (raise --steps or optimizer.lr).

exit code: 0 every change is flat or fading, 1 some grows or shrinks with width, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    says = "Check how activations, and what training changes in them, grow with width."
    taken = parser("coordinates", says, _EXAMPLES)
    add_configuration(taken)
    taken.add_argument("--widths", default="32,64,128,256", metavar="N,N,...", help="default: 32,64,128,256")
    taken.add_argument("--steps", type=within(Every), default=5, metavar="N", help="of training; default: 5")
    taken.add_argument("--seeds", type=within(Count), default=3, metavar="N", help="starts at each width; default: 3")
    taken.add_argument("--heads", choices=["wider", "more"], default="wider", help="what attention's heads become")
    taken.add_argument("--plot", metavar="FILE", help="write a picture (.png, .svg, .pdf)")
    taken.add_argument("--json", action="store_true", help="as JSON")
    given = parse(taken, arguments)
    from headtohead.examining.coordinates.plan import Plan

    plan = Plan(given.overrides, _widths(given.widths), given.steps, given.seeds, given.heads, given.config_dir)
    if given.cfg:
        out(configuration_text(given, plan.configs()[min(plan.widths)]))
        return 0
    findings = _measured(plan)
    if given.json:
        out(json.dumps(findings.to_dict(), indent=2))
    else:
        from headtohead.examining.coordinates.view import show

        show_table(show(findings))
    if given.plot:
        from headtohead.examining.coordinates.plot import draw

        draw(findings, Path(given.plot))
        note(os.path.relpath(given.plot))
    return 0 if findings.is_flat else 1


def _widths(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--widths {text} are no numbers: give them with commas, 32,64,128,256") from None


def _measured(plan: Plan) -> Findings:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from headtohead.examining.coordinates.measuring import measure

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task("", total=len(set(plan.widths)) * plan.num_seeds)

        def tell(width: int, seed: int) -> None:
            progress.update(bar, advance=1, description=f"width {width}, seed {seed}")

        return measure(plan, tell)
