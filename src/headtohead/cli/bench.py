"""`h2h bench [OVERRIDE ...]`: time and peak memory over length, batch, precision, checkpointing, attention, compile."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headtohead.cli.options import add_configuration, command_parser, composed, configuration_text, parse, refuse_unread
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.config.run_config import RunConfig
from headtohead.errors import UsageError

_EXAMPLES = """\
examples:
  h2h bench                                                     the small decoder, 512 to 8192 tokens
  h2h bench bench.lengths=[256,512,1024] bench.rounds=1         a quick look
  h2h bench model/mixer=softmax_attention model/size=medium bench.measures=[step] bench.lengths=[1024,16384]
  h2h bench bench.batch_sizes=[1,8] bench.compile=[false,true]  other things to vary; the first value is the base
  h2h bench model=vision_transformer task=image_classification data=digits bench.lengths=[64,256,1024]
  h2h bench data.packing=stream                                 documents that see each other, without a mask
  h2h bench --cfg job                                           show everything that can be set
  h2h bench --peers                                             our speed next to nanoGPT's model, transformers, mambapy
  h2h bench --peers gpt decoding --rounds 3                     some of these comparisons, quickly

Every case runs in a fresh process, the variants in turn. A case that is expected not to fit into memory is skipped,
and Ctrl-C shows what has been measured so far. bench.json and bench.png go to outputs/bench.
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser(
        "bench", "Measure time and peak memory of a step, a forward pass and an evaluation.", _EXAMPLES
    )
    add_configuration(parser)
    parser.add_argument("--json", action="store_true", help="the results as JSON on standard output")
    parser.add_argument("--peers", nargs="*", metavar="GROUP", help="known implementations next to ours, in turn")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each comparison with a peer (9)")
    options = parse(parser, arguments)
    if options.peers is not None:
        if options.overrides:
            raise UsageError(f"{options.overrides[0]} would have no effect: --peers times models of its own")
        ours = ("config_dir", "cfg", "package", "resolve", "info")
        refuse_unread(parser, options, ours, "--peers times models of its own, without a configuration")
        return _peers(options.peers, rounds=options.rounds, as_json=options.json)
    refuse_unread(parser, options, ["rounds"], "it is of --peers; bench.rounds=N sets the rounds of a case")
    config = composed(options, root="bench")
    if options.cfg:
        out(configuration_text(options, config))
        return 0
    check_data_paths(config)
    from headtohead import api
    from headtohead.diagnostics.bench.benchmark_run import save

    results = api.bench(config)
    folder = save(results, Path(RunConfig(config).output_dir))
    if options.json:
        out(json.dumps(results.to_dict(), indent=2))
    else:
        from headtohead.diagnostics.bench.benchmark_results import show_benchmark

        show_table(show_benchmark(results))
    for name in ("bench.png", "bench.json"):
        note(os.path.relpath(folder / name))
    from headtohead.diagnostics.bench.benchmark_run import INTERRUPTED

    if any(m.reason == INTERRUPTED for m in results.measurements):
        return 130
    return 0 if any(m.status == "measured" for m in results.measurements) else 1


def _peers(groups: list[str], *, rounds: int, as_json: bool) -> int:
    from headtohead.diagnostics.peers.peer_measurement import chosen_comparisons, measure_peers, peer_table, save_rows

    if rounds < 1:
        raise UsageError(f"--rounds {rounds} measures nothing: give at least 1")
    rows = []
    for row in measure_peers(chosen_comparisons(groups), rounds=rounds, report=note):
        rows.append(row)
        path = save_rows("peers", [row])
    if as_json:
        out(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show_table(peer_table(rows))
    if rows:
        note(os.path.relpath(path))
    return 0 if rows else 1
