"""Corpora for language models, as their cards and files tell them.

https://huggingface.co/datasets/karpathy/tiny_shakespeare https://huggingface.co/datasets/Salesforce/wikitext
https://huggingface.co/datasets/roneneldan/TinyStories https://huggingface.co/datasets/LTCB/enwik8
https://huggingface.co/datasets/afmck/text8 https://huggingface.co/datasets/HuggingFaceFW/fineweb-edu
https://huggingface.co/datasets/Skylion007/openwebtext https://huggingface.co/datasets/bigcode/the-stack-smol
https://huggingface.co/datasets/wikimedia/wikipedia
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from published_sets.writing import write_card, write_jsonl, write_parquet

TEXT = {"name": "text", "dtype": "string"}
ROW_GROUP = 100
"""Documents of a row group; the hub's files have 1,000."""
NUM_PAGES = 2_400


def text_features() -> Any:
    from datasets import Features, Value

    return Features({"text": Value("string")})


def play(scene: int, size: int) -> str:
    speech = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n\n"
    text = "".join(f"Scene {scene + part}.\n{speech}" for part in range(size // len(speech) + 1))
    return text[:size]


def write_tiny_shakespeare(folder: Path) -> None:
    """One row a split: its whole text."""
    splits = {"train": 9_000, "validation": 500, "test": 500}
    for position, (split, size) in enumerate(splits.items()):
        path = folder / "data" / f"{split}-00000-of-00001.parquet"
        write_parquet(path, [{"text": play(100 * position, size)}], text_features())
    write_card(folder, {"dataset_info": {"features": [TEXT]}, "configs": [default_config(splits)]})


def default_config(splits: Mapping[str, Any]) -> dict[str, Any]:
    files = [{"split": split, "path": f"data/{split}-*"} for split in splits]
    return {"config_name": "default", "data_files": files}


def article_lines(number: int) -> list[str]:
    """Blank lines are empty rows; titles have one sign, sections more."""
    paragraph = (
        f" The Article {number} ( 18{number:02d} – 19{number:02d} ) is told of here , and = is a sign within . \n"
    )
    return ["", f" = Article {number} = \n", "", paragraph, paragraph, "", " = = History = = \n", "", paragraph, ""]


def write_wikitext(folder: Path, *, subset: str, num_files: int) -> None:
    """A row is a line."""
    numbers = {"train": range(40), "validation": range(40, 46), "test": range(46, 52)}
    for split, articles in numbers.items():
        lines = [{"text": line} for number in articles for line in article_lines(number)]
        files = num_files if split == "train" else 1
        size = len(lines) // files
        for file in range(files):
            path = folder / subset / f"{split}-{file:05d}-of-{files:05d}.parquet"
            write_parquet(path, lines[file * size : (file + 1) * size], text_features())
    files = [{"split": split, "path": f"{subset}/{split}-*"} for split in numbers]
    card = {
        "license": ["cc-by-sa-3.0", "gfdl"],
        "dataset_info": [{"config_name": subset, "features": [TEXT]}],
        "configs": [{"config_name": subset, "data_files": files}],
    }
    write_card(folder, card)


def story(number: int) -> str:
    message = [f"She looked at needle {number} and thought of number {number * part}." for part in range(20)]
    return "One day, a little girl named Lily found a needle in her room. " + " ".join(message)


def write_tinystories(folder: Path) -> None:
    """Its card names no files: their names tell the splits; the same stories lie beside them as text."""
    for file in range(4):
        rows = [{"text": story(number)} for number in range(100 * file, 100 * file + 100)]
        write_parquet(folder / "data" / f"train-{file:05d}-of-00004-2d5a1467fff1081b.parquet", rows, text_features())
    rows = [{"text": story(number)} for number in range(400, 440)]
    write_parquet(folder / "data" / "validation-00000-of-00001-869c898b519ad725.parquet", rows, text_features())
    (folder / "TinyStories-train.txt").write_text("<|endoftext|>\n".join(map(story, range(400))))
    write_card(folder, {"license": "cdla-sharing-1.0", "language": ["en"], "task_categories": ["text-generation"]})


def write_enwik8(folder: Path) -> None:
    """The branch that the hub converted to Parquet has no card; one row is all of the text."""
    page = "  <page>\n    <title>Anarchism</title>\n    <text>'''Anarchism''' — άναρχία – 無</text>\n  </page>\n"
    write_parquet(folder / "enwik8-raw" / "train" / "0000.parquet", [{"text": page * 150}], text_features())
    lines = [{"text": line} for line in (page * 20).splitlines()]
    write_parquet(folder / "enwik8" / "train" / "0000.parquet", lines, text_features())


def write_text8(folder: Path) -> None:
    words = " anarchism originated as a term of abuse first used against early working class radicals"
    splits = {"train": 9_000, "validation": 700, "test": 700}
    for split, size in splits.items():
        rows = [{"text": (words * (size // len(words) + 1))[:size]}]
        write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet", rows, text_features())
    write_card(folder, {"dataset_info": {"features": [TEXT]}, "configs": [default_config(splits)]})


def write_the_stack(folder: Path) -> None:
    """A folder for each language, one file of JSON lines in each."""
    for language, comment in (("python", "#"), ("rust", "//")):
        rows = [
            {
                "content": "".join(f"{comment} {number}\nx_{line} = {line * number}\n" for line in range(40)),
                "avg_line_length": 14.5,
                "max_line_length": 21,
                "alphanum_fraction": 0.61,
                "licenses": ["MIT"],
                "repository_name": f"someone/project{number}",
                "path": f"src/module_{number}.py",
                "size": 60,
                "lang": language.capitalize(),
            }
            for number in range(120)
        ]
        write_jsonl(folder / "data" / language / "data.json", rows)
    card = {"language": ["code"], "extra_gated_prompt": "## Terms of Use for The Stack", "task_categories": []}
    write_card(folder, card)


def page(number: int) -> dict[str, Any]:
    return {
        "text": f"Lesson {number}. Water boils at {number % 90 + 10} degrees.\nWhy is that so, on hill {number}?",
        "id": f"<urn:uuid:{number:032x}>",
        "dump": "CC-MAIN-2013-20",
        "url": f"http://example.org/{number}",
        "file_path": "s3://commoncrawl/crawl-data/CC-MAIN-2013-20/segments/0.warc.gz",
        "language": "en",
        "language_score": 0.97,
        "token_count": 24,
        "score": 3.1,
        "int_score": 3,
    }


def write_pages(path: Path, rows: Sequence[Mapping[str, Any]], features: Any) -> None:
    from datasets import Dataset

    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list([dict(row) for row in rows], features=features).to_parquet(str(path), batch_size=ROW_GROUP)


def write_fineweb_edu(folder: Path) -> None:
    from datasets import Features, Value

    kinds = {"language_score": "float64", "token_count": "int64", "score": "float64", "int_score": "int64"}
    features = Features({name: Value(kinds.get(name, "string")) for name in page(0)})
    half = NUM_PAGES // 2
    for file in range(2):
        rows = [page(number) for number in range(file * half, (file + 1) * half)]
        write_pages(folder / "sample" / "10BT" / f"{file:03d}_00000.parquet", rows, features)
    configs = [
        {"config_name": "default", "data_files": [{"split": "train", "path": "data/*/*"}]},
        {"config_name": "sample-10BT", "data_files": [{"split": "train", "path": "sample/10BT/*"}]},
    ]
    write_card(folder, {"license": "odc-by", "language": ["en"], "configs": configs})


def write_openwebtext(folder: Path) -> None:
    half = NUM_PAGES // 2
    for file in range(2):
        rows = [{"text": page(number)["text"]} for number in range(file * half, (file + 1) * half)]
        write_pages(folder / "plain_text" / f"train-{file:05d}-of-00002.parquet", rows, text_features())
    card = {
        "license": ["cc0-1.0"],
        "dataset_info": {"config_name": "plain_text", "features": [TEXT]},
        "configs": [
            {
                "config_name": "plain_text",
                "data_files": [{"split": "train", "path": "plain_text/train-*"}],
                "default": True,
            }
        ],
    }
    write_card(folder, card)


def article(number: int) -> dict[str, str]:
    title, year = f"Hill {number}", 1700 + number % 300
    return {
        "id": str(number),
        "url": f"https://en.wikipedia.org/wiki/Hill_{number}",
        "title": title,
        "text": f"{title} is a hill of {number} metres.\n\nHistory \nNobody has climbed it since {year}.",
    }


def write_wikipedia(folder: Path) -> None:
    """A folder for each language and day; English has 41 files."""
    from datasets import Features, Value

    features, half = Features({name: Value("string") for name in article(0)}), NUM_PAGES // 2
    for file in range(2):
        rows = [article(number) for number in range(file * half, (file + 1) * half)]
        write_pages(folder / "20231101.en" / f"train-{file:05d}-of-00002.parquet", rows, features)
    config = {"config_name": "20231101.en", "data_files": [{"split": "train", "path": "20231101.en/train-*"}]}
    dataset = {"config_name": "20231101.en", "features": [{"name": name, "dtype": "string"} for name in article(0)]}
    write_card(folder, {"license": ["cc-by-sa-3.0", "gfdl"], "dataset_info": [dataset], "configs": [config]})


SETS = {
    "tiny_shakespeare": write_tiny_shakespeare,
    "wikitext2": partial(write_wikitext, subset="wikitext-2-raw-v1", num_files=1),
    "wikitext103": partial(write_wikitext, subset="wikitext-103-raw-v1", num_files=2),
    "tinystories": write_tinystories,
    "enwik8": write_enwik8,
    "text8": write_text8,
    "the_stack": write_the_stack,
    "fineweb_edu": write_fineweb_edu,
    "openwebtext": write_openwebtext,
    "wikipedia": write_wikipedia,
}
