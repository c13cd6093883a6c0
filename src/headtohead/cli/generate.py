"""`h2h generate RUN --prompt TEXT`: what a finished run writes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, add_trust, check_runs, command_parser, parse, within
from headtohead.cli.terminal import flush, note, out, paint
from headtohead.config.errors import ConfigurationError
from headtohead.durations import duration
from headtohead.files.safe_read import DamagedFile, lines_of, read_text
from headtohead.ranges import Beams, Length, Positive, Real, Samples, Seed, Share, Temperature, TokenId, Vocabulary

if TYPE_CHECKING:
    from headtohead.finished_runs.text_generator import GeneratedText, Prompt, Show

_EXAMPLES = """\
examples:
  h2h generate outputs/default/RUN --prompt "the old teacher"       the most likely token each time
  h2h generate RUN --prompt "the old" --temperature 0.8 --top-p 0.9 --seed 3
                                                                    sampled; the same seed gives the same text
  h2h generate RUN --prompt "the" --top-k 20 --num-samples 5        several texts for a prompt
  h2h generate RUN --prompt "1205" --beams 4 --length-penalty 0.6   beam search (an encoder-decoder reads the prompt)
  h2h generate RUN --prompt "a" --prompt "the birds"                several prompts at once, of any lengths
  h2h generate RUN --prompt "the <1> sat on <2>"                    a run of task=span_corruption fills in the spans
  h2h generate RUN --prompts file.txt --json                        a prompt per line; JSON for programs
  echo "the old" | h2h generate RUN --stop "." --stop "\\n"        standard input, up to a stop or a newline
  h2h generate RUN --tokens 7,12,5                                  token ids, for data without text

On a terminal, the text of a single prompt appears as it is written. A prompt's text depends on the seed and on itself,
never on the other prompts. Texts end with the run's end token, at a --stop or --stop-token, or after --max-new-tokens.

exit code: 0 done, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    options = parse(_parser(), arguments)
    prompts = _prompts(options)
    from headtohead.generation.decoding_strategy import DecodingStrategy

    strategy = DecodingStrategy(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        repetition_penalty=options.repetition_penalty,
        beams=options.beams,
        length_penalty=options.length_penalty,
        num_samples=options.num_samples,
        seed=options.seed,
    )
    check_runs([options.run])
    from headtohead.finished_runs.finished_run import open_run
    from headtohead.finished_runs.generators import generator_of

    writer = generator_of(open_run(options.run), options.precision)
    is_one = len(prompts) * strategy.num_samples == 1
    show = _live(prompts[0], writer.reads_source) if is_one and sys.stdout.isatty() and not options.json else None
    started = time.perf_counter()
    written = writer.write(
        prompts,
        strategy,
        max_new_tokens=options.max_new_tokens,
        stop=[_unescaped(text) for text in options.stop],
        stop_tokens=options.stop_token,
        show=show,
    )
    seconds = time.perf_counter() - started
    if options.json:
        out(json.dumps([asdict(one) for one in written], indent=2, ensure_ascii=False))
    elif show is not None:
        out("")
    else:
        _show_text(written, is_one, writer.reads_source)
    num_tokens = sum(len(one.tokens) for one in written)
    note(f"{num_tokens} tokens in {duration(seconds)}, {num_tokens / seconds:.0f} per second")
    return 0


def _parser() -> Parser:
    parser = command_parser("generate", "Generate text with a finished run.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="a run's folder, outputs/GROUP/ID")
    add_trust(parser)
    what = parser.add_argument_group("prompts")
    what.add_argument("--prompt", action="append", default=[], metavar="TEXT", help="may be given several times")
    what.add_argument("--prompts", metavar="FILE", help="a prompt per line; - is standard input")
    what.add_argument("--tokens", action="append", default=[], metavar="N,N", help="a prompt as token ids")
    strategy = parser.add_argument_group("how tokens are chosen (default: the most likely)")
    strategy.add_argument(
        "--temperature",
        type=within(Temperature),
        metavar="T",
        help="sample from logits divided by T; 0: the most likely",
    )
    strategy.add_argument("--top-k", type=within(Vocabulary), metavar="K", help="sample from the K likeliest tokens")
    strategy.add_argument(
        "--top-p", type=within(Share), metavar="P", help="sample from the fewest tokens with P of the probability"
    )
    strategy.add_argument(
        "--repetition-penalty", type=within(Positive), default=1.0, metavar="R", help="above 1: repeat less"
    )
    strategy.add_argument(
        "--beams", type=within(Beams), default=1, metavar="N", help="search for the most likely text among N"
    )
    strategy.add_argument(
        "--length-penalty", type=within(Real), default=1.0, metavar="A", help="with beams: above 0 favours longer texts"
    )
    strategy.add_argument("--num-samples", type=within(Samples), default=1, metavar="N", help="texts for each prompt")
    strategy.add_argument("--seed", type=within(Seed), default=0, help="of sampling; default 0")
    end = parser.add_argument_group("where texts end")
    end.add_argument(
        "--max-new-tokens", type=within(Length), metavar="N", help="default: 128, or what the context length allows"
    )
    end.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help=r"stop before this text; \n is a newline"
    )
    end.add_argument(
        "--stop-token",
        action="append",
        default=[],
        type=within(TokenId),
        metavar="N",
        help="stop at this token id",
    )
    parser.add_argument(
        "--precision", choices=["32-true", "64-true", "bf16-true"], help="what the weights are cast to, once"
    )
    parser.add_argument("--json", action="store_true", help="prompts, texts and tokens as JSON")
    parser.set_defaults(multirun=False)
    return parser


def _prompts(options: argparse.Namespace) -> list[Prompt]:
    prompts: list[Prompt] = [*options.prompt, *(_ids(text) for text in options.tokens)]
    if options.prompts is not None and options.prompts != "-":
        prompts += _lines(options.prompts)
    elif options.prompts == "-" or (not prompts and not sys.stdin.isatty()):
        prompts += lines_of(sys.stdin.read())
    if not prompts:
        raise ConfigurationError("there is no prompt: give --prompt TEXT, --prompts FILE, or text on standard input")
    return prompts


def _lines(file: str) -> list[str]:
    try:
        return lines_of(read_text(Path(file)))
    except FileNotFoundError:
        raise ConfigurationError(
            f"--prompts {file} cannot be read (No such file or directory): give a text file"
        ) from None
    except DamagedFile as damage:
        raise ConfigurationError(f"--prompts {damage}: give a text file in UTF-8") from None


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--tokens {text}: give token ids, for example 5,7,9") from None


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _live(prompt: Prompt, reads_source: bool) -> Show:
    """Writes to the terminal what is added; text to be continued stands before it."""
    if isinstance(prompt, str) and not reads_source:
        out(paint(prompt, "2"), end="")

    def show(number: int, text: str) -> None:
        del number
        out(text, end="")
        flush()

    return show


def _show_text(written: Sequence[GeneratedText], is_one: bool, reads_source: bool) -> None:
    for number, one in enumerate(written, start=1):
        if not is_one:
            out(paint(f"{number}. {one.prompt}", "2"))
        out(one.text if reads_source or not is_one else one.prompt + one.text)
