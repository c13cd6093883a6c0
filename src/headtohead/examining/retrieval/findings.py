"""What was found, as JSON, beside the runs that it is about, and in their records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headtohead.examining.evaluation.findings import FOLDER
from headtohead.examining.retrieval.measuring import Comparison, Measured
from headtohead.examining.retrieval.retrievers import Dense, Retriever
from headtohead.files.writing import replace_text
from headtohead.metrics import own_metric
from headtohead.tracking.store import RunFolder
from headtohead.tracking.strict_json import encode


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Means, and differences with their intervals; numbers and lists alone."""
    told = {
        "documents": comparison.documents,
        "queries": comparison.queries,
        "digest": comparison.digest,
        "against": comparison.against,
        "chance": comparison.chance,
        "retrievers": [_row(one) for one in comparison.retrievers],
        "remarks": list(comparison.remarks),
    }
    plain: dict[str, Any] = encode(told, "retrieval")
    return plain


def leave(comparison: Comparison, retrievers: Sequence[Retriever], paths: Mapping[str, str]) -> list[Path]:
    """RUN/evaluations/retrieval-DIGEST.json for each run, and its results in its record: as stage `retrieval` what its
    vectors find by themselves, as `retrieval_int8`, `retrieval_reranked` ... what is built on them."""
    written = []
    for plain in retrievers:
        if not isinstance(plain, Dense) or plain.stage != "retrieval":
            continue
        run = plain.embedder.run
        own = [one for one in comparison.retrievers if one.run == run.record.id]
        told = as_data(comparison)
        kept = [row for row in told["retrievers"] if row["run"] in (None, run.record.id)]
        content = {"run": run.record.id, "pooling": plain.embedder.pooling, **paths, **told, "retrievers": kept}
        folder = run.folder / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"retrieval-{comparison.digest[:8]}.json"
        replace_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        _record(run.folder, own, comparison, path)
        written.append(path)
    return written


def _record(run: Path, own: Sequence[Measured], comparison: Comparison, path: Path) -> None:
    """A run that is still trained writes its record itself."""
    folder = RunFolder.open(run)
    if folder.is_live():
        return
    with folder.claimed():
        record = folder.read_record_as_written()
        for one in own:
            record.metrics[one.stage] = one.means
            record.links[one.stage] = path.relative_to(run).as_posix()
        record.baselines |= comparison.chance
        record.scales |= {name: metric for name in comparison.chance if (metric := own_metric(name)) is not None}
        folder.write_record(record)


def _row(one: Measured) -> dict[str, Any]:
    return {
        "name": one.name,
        "run": one.run,
        "stage": one.stage,
        **one.means,
        "milliseconds_per_query": one.milliseconds,
        "index_bytes": one.num_bytes,
        "differences": {name: asdict(difference) for name, difference in one.differences.items()},
    }
